"""Read images with masks: name the classes, count their pixels, divide, and write a table.

Segmentation calls :meth:`MaskSurvey.read_images`. Child processes call :func:`read_mask` by its
name ``module:function``. The classes and the keys of the masks are the data's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.core import ContentError, UsageError, listed
from advisor.datasets._boxes.entries import ONE_CLASS
from advisor.datasets._checks.findings import (
    Finding,
    list_extra_columns,
    list_left_out,
    make_row,
    write_rows,
)
from advisor.datasets._dataset import Listing, Rejected
from advisor.datasets._image_files import describe_read_error, read_bytes
from advisor.datasets._masks.listing import BACKGROUND, HINT, MaskEntry, MaskListing, list_masks
from advisor.datasets._masks.mask import IGNORED_LABEL, Mask, draw_regions, read_values
from advisor.datasets._reading import ReaderFailure, read_each
from advisor.datasets._survey import Progress, Survey
from advisor.store import sha256_json

if TYPE_CHECKING:
    from advisor.datasets._division import Division
    from advisor.datasets._duplicates import Pair

MOST_CLASSES = 254
OBJECT = "object"
# Classes whose pixels are ignored.
VOID = frozenset({"ignore", "ignored", "void", "unlabelled", "unlabeled"})
UNKNOWN = "?"  # First letter of the class of a value that is not in the list


@dataclass(frozen=True, eq=False)
class MaskSurvey:
    """Images with masks that were read."""

    # Their classes are those of the masks; the label of an image is its rarest class.
    images: Survey
    masks: tuple[Mask, ...]
    pixels: NDArray[np.int64]  # of each class in each image, (N, C)
    unused: tuple[str, ...] = ()  # classes that are named and never occur
    outside: tuple[Path, ...] = ()  # images with polygons that reach outside

    @classmethod
    def read_images(
        cls, path: Path, progress: Progress | None = None, most: int | None = None
    ) -> MaskSurvey:
        """Read images and masks; faults of single files are recorded, not raised.

        ``most`` as of :meth:`.Survey.read`. Raises UsageError if the path does not exist, no
        layout fits, or the masks have fewer than two classes.
        """
        listing = list_masks(path)
        by_path = {entry.image.path: entry for entry in listing.entries}
        entries = [entry.image for entry in by_path.values()]
        images = Survey.read(Listing(listing.root, entries, (), listing.rejected), progress, most)
        readings = _read_masks([by_path[image.path] for image in images.dataset.images], images)
        values = set[int]()
        for reading in readings:
            values.update(reading.values)
        name = _make_namer(listing, values)
        usable = []
        rejected = []
        for reading in readings:
            fault = reading.fault or _describe_unknown(reading, name)
            if fault:
                rejected.append(Rejected(reading.entry.image.path, fault))
            else:
                usable.append(reading)
        masks = _label_images(images.without_images(rejected), name, usable, path)
        unused = []
        for label in listing.names.values():
            if label not in masks.classes and label.casefold() not in VOID:
                unused.append(label)
        return replace(masks, unused=tuple(unused))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.images.dataset.classes

    @property
    def contents(self) -> tuple[Counter[str], ...]:
        """The classes in each image, without the most frequent one."""
        usual = int((self.pixels > 0).sum(axis=0).argmax())
        contents = []
        for row in self.pixels:
            labels = np.flatnonzero(row).tolist()
            contents.append(Counter(self.classes[label] for label in labels if label != usual))
        return tuple(contents)

    @property
    def without_classes(self) -> Survey:
        """The images as those of one class, as a film may go through all classes of pixels."""
        dataset = self.images.dataset
        images = tuple(replace(image, label=0) for image in dataset.images)
        return replace(self.images, dataset=replace(dataset, classes=(ONE_CLASS,), images=images))

    def divide_images(self, seed: int, alike: tuple[Pair, ...] | None = None) -> Division:
        """Return a division in which each part has its share of each class.

        ``alike`` are pairs of similar images. Raises UsageError as :meth:`.Division.of_survey`.
        """
        from advisor.datasets._division import Division
        from advisor.datasets._strata import make_stratifier

        stratify = make_stratifier(self.images.dataset, self.contents)
        return Division.of_survey(self.without_classes, seed, alike, stratify)

    def write_table(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table of images and masks without those that findings leave out.

        Returns its number of images. Raises UsageError if a mask has no file, or the table cannot
        be written.
        """
        if any(mask.regions for mask in self.masks):
            raise UsageError(
                "--fix: masks of COCO cannot be written as a table", "remove the images yourself"
            )
        left_out = list_left_out(findings)
        dataset = self.images.dataset
        rows = []
        for image, mask in zip(dataset.images, self.masks, strict=True):
            if image.path not in left_out:
                row = make_row(path, image)
                mask_path = ""
                if mask.path:
                    mask_path = make_row(path, replace(image, path=Path(mask.path)))["path"]
                rows.append(row | {"image": row["path"], "mask": mask_path})
        write_rows(path, ["image", "mask", *list_extra_columns(dataset)], rows)
        return len(rows)


class _ReadMask(NamedTuple):
    """The facts of one mask; they are sent from a child process."""

    entry: MaskEntry
    size: tuple[int, int]  # height and width of the upright image
    sha256: str = ""
    values: Mapping[int, int] = {}  # number of pixels with each value
    orientation: int = 1  # how the file is turned upright, as in EXIF
    outside: bool = False  # whether polygons reach over the edge of the image
    fault: str = ""  # why the image cannot be used


def _read_masks(entries: Sequence[MaskEntry], images: Survey) -> list[_ReadMask]:
    """Return the mask of each image, read by child processes."""
    sizes = zip(images.stats["height"].tolist(), images.stats["width"].tolist(), strict=True)
    turns = [shot.orientation for shot in images.shots]
    requests = list(zip(entries, sizes, turns, strict=True))
    outcomes = read_each(f"{__name__}:read_mask", requests)
    readings = []
    for (entry, size, _), outcome in zip(requests, outcomes, strict=True):
        if isinstance(outcome, ReaderFailure):
            fault = f"its mask is damaged: {outcome.reason}"
            readings.append(_ReadMask(entry, size, fault=fault))
        else:
            readings.append(outcome)
    return readings


def read_mask(request: tuple[MaskEntry, tuple[int, int], int]) -> _ReadMask:
    """Read a mask by its entry, the stored size of its image, and how that is turned, as in EXIF.

    A child process calls it; a fault is returned, so that one damaged mask ends nothing.
    """
    entry, stored, turn = request
    # In EXIF, 5 to 8 turn an image by a quarter, which swaps its sides.
    size = stored
    if turn > 4:
        size = stored[::-1]
    read = _ReadMask(entry, size)
    if entry.mask is None and entry.regions is None:
        # Sets of faults have no masks of good images.
        # Elsewhere a mask that is missing is a mistake.
        every = {0: stored[0] * stored[1]}
        if entry.folder:
            return read._replace(values=every)
        return read._replace(fault="no mask")
    try:
        if entry.mask is None:
            return _read_regions(read)
        return _read_mask_file(read, entry.mask, turn)
    except Exception as error:  # pycocotools raises no class of its own
        if entry.mask is None:
            why = f": {error}" if isinstance(error, ContentError) else ""
            return read._replace(fault=f"its polygons or run lengths cannot be drawn{why}")
        return read._replace(fault=f"its mask '{entry.mask.name}': {describe_read_error(error)}")


def _read_mask_file(read: _ReadMask, mask: Path, turn: int) -> _ReadMask:
    data, _ = read_bytes(mask)
    values = read_values(data)
    # Tools save the mask of a turned photograph upright, or as the camera stored it.
    # EXIF's 5 to 8 swap the sides.
    if values.shape not in (read.size, read.size[::-1] if turn > 4 else read.size):
        shown = []
        for shape in (values.shape, read.size):
            shown.append(f"{shape[1]}x{shape[0]}")
        raise ContentError(f"it has {shown[0]} pixels, the image {shown[1]}")
    turned = 1 if values.shape == read.size else turn
    return read._replace(
        sha256=hashlib.sha256(data).hexdigest(), values=_count_values(values), orientation=turned
    )


def _read_regions(read: _ReadMask) -> _ReadMask:
    regions = read.entry.regions or ()
    points = []
    for _, region in regions:
        if isinstance(region, list):
            for part in region:
                points.append(np.asarray(part, float).reshape(-1, 2))
    farthest = np.array(read.size[::-1]) + 1
    beyond = False
    for polygon in points:
        if (polygon < -1).any() or (polygon > farthest).any():
            beyond = True
    values = _count_values(draw_regions(regions, read.size))
    return read._replace(sha256=sha256_json([regions, read.size]), values=values, outside=beyond)


def _count_values(values: NDArray[Any]) -> dict[int, int]:
    pixel_values, counts = np.unique(values, return_counts=True)
    return dict(zip(pixel_values.tolist(), counts.tolist(), strict=True))


# From a value and the folder of its image to its class; empty if it is ignored.
Name = Callable[[int, str], str]


def _make_namer(listing: MaskListing, values: set[int]) -> Name:
    """Return the function that names a value; ``values`` are those of all masks."""
    # In masks of two values 255 marks the object; in others it marks pixels to ignore.
    is_binary = len(values - {0}) == 1
    named = dict(listing.names)

    def name_value(value: int, folder: str) -> str:
        if named and not is_binary:
            unnamed = ""
            if value != IGNORED_LABEL:
                unnamed = f"{UNKNOWN}{value}"
            return named.get(value, unnamed)
        if value == 0:
            return named.get(0, BACKGROUND)
        if is_binary:
            return folder or next((label for number, label in named.items() if number), OBJECT)
        if value == IGNORED_LABEL:
            return ""
        # A larger value is a colour, RGB as one number.
        if value < IGNORED_LABEL:
            return f"class {value}"
        return f"#{value:06x}"

    def name_learnt(value: int, folder: str) -> str:
        label = name_value(value, folder)
        return "" if label.casefold() in VOID else label

    return name_learnt


def _describe_unknown(read: _ReadMask, name: Name) -> str:
    unknown = []
    for value in read.values:
        if name(value, "").startswith(UNKNOWN):
            unknown.append(str(value))
    if not unknown:
        return ""
    return f"its mask has values outside the list of classes: {listed(unknown)}"


def _label_images(
    images: Survey, name: Name, readings: Sequence[_ReadMask], path: Path
) -> MaskSurvey:
    """Return the survey of images whose masks were read, with the classes of their pixels."""
    classes = _order_classes(images, name, readings, path)
    label_of = {class_name: label for label, class_name in enumerate(classes)}
    masks = []
    pixels = np.zeros((len(readings), len(classes)), np.int64)
    for row, reading in enumerate(readings):
        masks.append(_make_mask(reading, name, label_of))
        for value, label in masks[-1].classes:
            pixels[row, label] += reading.values[value]
    images_with_class = (pixels > 0).sum(axis=0)
    dataset = images.dataset
    labelled = []
    for image, counts in zip(dataset.images, pixels, strict=True):
        # An image without any class of its own counts as the first one.
        rarest = min(np.flatnonzero(counts), key=images_with_class.__getitem__, default=0)
        labelled.append(replace(image, label=int(rarest)))
    # Sorted, so that renamed files give the same fingerprint and find their results in the cache.
    rows = sorted((image.sha256, mask.key) for image, mask in zip(labelled, masks, strict=True))
    labelled_dataset = replace(
        dataset,
        classes=classes,
        images=tuple(labelled),
        fingerprint=sha256_json([list(classes), rows]),
    )
    outside = []
    for reading in readings:
        if reading.outside:
            outside.append(reading.entry.image.path)
    return MaskSurvey(
        replace(images, dataset=labelled_dataset), tuple(masks), pixels, outside=tuple(outside)
    )


def _order_classes(
    images: Survey, name: Name, readings: Sequence[_ReadMask], path: Path
) -> tuple[str, ...]:
    """Return the classes: the background, then by their least value and their name.

    Raises UsageError if there are fewer than two, or more than :data:`MOST_CLASSES`.
    """
    least_value: dict[str, int] = {}
    for reading in readings:
        for value in reading.values:
            class_name = name(value, reading.entry.folder)
            if class_name:
                least_value[class_name] = min(value, least_value.get(class_name, value))
    if not 2 <= len(least_value) <= MOST_CLASSES:
        example = ""
        if images.dataset.rejected:
            row = images.dataset.rejected[0]
            example = f"; '{images.dataset.show_path(row.path)}': {row.reason}"
        what = f"{len(least_value)} classes"
        if len(least_value) == 1:
            what = f"one class only, '{next(iter(least_value))}'"
        raise UsageError(f"--data: the masks of '{path}' have {what}{example}", HINT)

    def rank_class(class_name: str) -> tuple[bool, int, str]:
        return class_name != BACKGROUND, least_value[class_name], class_name

    return tuple(sorted(least_value, key=rank_class))


def _make_mask(reading: _ReadMask, name: Name, label_of: Mapping[str, int]) -> Mask:
    """Return a mask with the labels of its values, and of its regions."""
    pairs = []
    for value in reading.values:
        class_name = name(value, reading.entry.folder)
        if class_name:
            pairs.append((value, label_of[class_name]))
    drawn = []
    for value, region in reading.entry.regions or ():
        drawn.append((label_of.get(name(value, ""), IGNORED_LABEL), region))
    return Mask(
        sha256=reading.sha256,
        size=reading.size,
        path=str(reading.entry.mask) if reading.entry.mask else "",
        classes=tuple(pairs),
        orientation=reading.orientation,
        regions=json.dumps(drawn) if drawn else "",
    )
