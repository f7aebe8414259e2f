"""Read images with masks: name the classes, count their pixels, divide, and write a table.

Segmentation calls :func:`survey_masks`. Child processes call :func:`read_mask` by its name
``module:function``. The classes and the keys of the masks are the data's fingerprint.
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
from advisor.datasets._survey import Progress, Survey, survey
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
        """The images as those of one class:
        an image has the classes of its pixels, so that films go through all.
        """
        dataset = self.images.dataset
        images = tuple(replace(image, label=0) for image in dataset.images)
        return replace(self.images, dataset=replace(dataset, classes=(ONE_CLASS,), images=images))

    def divide_images(self, seed: int, alike: tuple[Pair, ...] | None = None) -> Division:
        """Return a division in which each part has its share of each class;
        ``alike`` are pairs of similar images.

        Raises UsageError as :func:`.divide_survey`.
        """
        from advisor.datasets._division import divide_survey, make_stratifier

        return divide_survey(
            self.without_classes, seed, alike, make_stratifier(self.images.dataset, self.contents)
        )

    def write_table(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table of images and masks without those that the findings leave out;
        return its number of images.

        Raises UsageError if a mask has no file, or the table cannot be written.
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


class _Read(NamedTuple):
    entry: MaskEntry
    size: tuple[int, int]  # height and width of the upright image
    sha256: str = ""
    values: Mapping[int, int] = {}  # number of pixels with each value
    orientation: int = 1
    outside: bool = False
    fault: str = ""  # why the image cannot be used


def survey_masks(
    path: Path, progress: Progress | None = None, most: int | None = None
) -> MaskSurvey:
    """Read images and masks; faults of single files are recorded
    with the images that are left out, not raised.

    ``most`` as of :func:`.survey`. Raises UsageError if the path does not exist, no layout fits,
    or the masks have fewer than two classes.
    """
    listing = list_masks(path)
    by_path = {entry.image.path: entry for entry in listing.entries}
    files = Listing(
        listing.root, [entry.image for entry in by_path.values()], (), listing.rejected
    )
    images = survey(files, progress, most)
    entries = [by_path[image.path] for image in images.dataset.images]
    sizes = zip(images.stats["height"].tolist(), images.stats["width"].tolist(), strict=True)
    asked = list(zip(entries, sizes, [shot.orientation for shot in images.shots], strict=True))
    read = []
    for (entry, size, _), outcome in zip(
        asked, read_each(f"{__name__}:read_mask", asked), strict=True
    ):
        if isinstance(outcome, ReaderFailure):
            read.append(_Read(entry, size, fault=f"its mask is damaged: {outcome.reason}"))
        else:
            read.append(outcome)
    values = set[int]()
    for reading in read:
        values.update(reading.values)
    name = _make_namer(listing, values)
    read = [
        reading._replace(fault=reading.fault or _describe_unknown(reading, name))
        for reading in read
    ]
    images = images.without_images(
        [Rejected(reading.entry.image.path, reading.fault) for reading in read if reading.fault]
    )
    masks = _label_images(images, name, [reading for reading in read if not reading.fault], path)
    unused = []
    for label in listing.names.values():
        if label not in masks.classes and label.casefold() not in VOID:
            unused.append(label)
    return replace(masks, unused=tuple(unused))


def read_mask(asked: tuple[MaskEntry, tuple[int, int], int]) -> _Read:
    """Read a mask, by its entry, the size in which its image is stored, and how it is turned,
    as in EXIF.
    """
    entry, stored, turn = asked
    # In EXIF, 5 to 8 turn an image by a quarter, which swaps its sides.
    size = stored
    if turn > 4:
        size = stored[::-1]
    read = _Read(entry, size)
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


def _read_mask_file(read: _Read, mask: Path, turn: int) -> _Read:
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


def _read_regions(read: _Read) -> _Read:
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
    """Return what names the values."""
    # In masks of two values 255 marks the object; in others it marks pixels to ignore.
    binary = len(values - {0}) == 1
    named = dict(listing.names)

    def name_value(value: int, folder: str) -> str:
        if named and not binary:
            unnamed = ""
            if value != IGNORED_LABEL:
                unnamed = f"{UNKNOWN}{value}"
            return named.get(value, unnamed)
        if value == 0:
            return named.get(0, BACKGROUND)
        if binary:
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


def _describe_unknown(read: _Read, name: Name) -> str:
    unknown = []
    for value in read.values:
        if name(value, "").startswith(UNKNOWN):
            unknown.append(str(value))
    return f"its mask has values outside the list of classes: {listed(unknown)}" if unknown else ""


def _label_images(images: Survey, name: Name, readings: Sequence[_Read], path: Path) -> MaskSurvey:
    first: dict[str, int] = {}  # the least value of each class
    for reading in readings:
        for value in reading.values:
            class_name = name(value, reading.entry.folder)
            if class_name:
                first[class_name] = min(value, first.get(class_name, value))
    if not 2 <= len(first) <= MOST_CLASSES:
        lost = [
            f"; '{images.dataset.show_path(row.path)}': {row.reason}"
            for row in images.dataset.rejected
        ]
        what = (
            f"one class only, '{next(iter(first))}'"
            if len(first) == 1
            else f"{len(first)} classes"
        )
        raise UsageError(
            f"--data: the masks of '{path}' have {what}{lost[0] if lost else ''}", HINT
        )
    order = sorted(first, key=lambda title: (title != BACKGROUND, first[title], title))
    place = {title: number for number, title in enumerate(order)}
    masks = []
    pixels = np.zeros((len(readings), len(order)), np.int64)
    for row, (entry, size, sha256, values, orientation, *_) in enumerate(readings):
        pairs = []
        for value, count in values.items():
            class_name = name(value, entry.folder)
            if class_name:
                pairs.append((value, place[class_name]))
                pixels[row, place[class_name]] += count
        drawn = [
            (place.get(name(value, ""), IGNORED_LABEL), region)
            for value, region in entry.regions or ()
        ]
        file = str(entry.mask) if entry.mask else ""
        regions = json.dumps(drawn) if drawn else ""
        masks.append(Mask(sha256, size, file, tuple(pairs), orientation, regions))
    number = (pixels > 0).sum(axis=0)
    dataset = images.dataset
    rarest = [
        int(min(np.flatnonzero(row), key=lambda label: number[label], default=0)) for row in pixels
    ]
    named = tuple(
        replace(image, label=label) for image, label in zip(dataset.images, rarest, strict=True)
    )
    # Sorted, so that renamed files give the same fingerprint and find their results in the cache.
    rows = sorted((image.sha256, mask.key) for image, mask in zip(named, masks, strict=True))
    read = replace(
        dataset, classes=tuple(order), images=named, fingerprint=sha256_json([order, rows])
    )
    outside = tuple(
        mask_reading.entry.image.path for mask_reading in readings if mask_reading.outside
    )
    return MaskSurvey(replace(images, dataset=read), tuple(masks), pixels, outside=outside)
