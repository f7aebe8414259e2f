"""Find the masks of images, and read them as classes: folders of masks, tables, and COCO."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from advisor.core import ContentError, UsageError, listed
from advisor.datasets import (
    ONE_CLASS,
    SPLIT,
    SUFFIXES,
    Entry,
    Listing,
    ManifestColumns,
    Progress,
    ReaderFailure,
    Rejected,
    Survey,
    base_of,
    coco_files,
    describe_read_error,
    entry_of,
    folder_in,
    ignore_warnings,
    images_in,
    images_of,
    key_of,
    lists_of,
    open_image,
    part_folders,
    part_of,
    read_bytes,
    read_each,
    read_rows,
    require_beside,
    survey,
    text_of,
)
from advisor.measurement import require_coco
from advisor.store import labels_in, sha256_json

Classes = NDArray[np.uint8]
IGNORED = 255  # Value of pixels that are neither learnt nor judged
MOST_CLASSES = 254
BACKGROUND = "background"
OBJECT = "object"
VOID = frozenset({"ignore", "ignored", "void", "unlabelled", "unlabeled"})  # Classes whose pixels are ignored
IMAGES = ("images", "image", "imgs", "jpegimages", "photos")
MASKS = ("masks", "mask", "segmentationclass", "ground_truth", "annotations", "labels", "gt")
ENDINGS = ("_mask", "-mask", "_masks", "_label", "_labels", "_labelids", "_gt", "_seg")
NAMES = ("classes.txt", "labels.txt", "labelmap.txt")
HINT = (
    "put photographs into DIR/images and masks of equal names into DIR/masks, as PNG files whose values are classes; "
    "DIR/classes.txt names the classes, the first line that of value 0. A table with the columns image and mask, and "
    "COCO with segmentation, are read too"
)
TABLE = ManifestColumns(
    {"path": ("path", "image", "file", "filename"), "label": ("mask", "mask_path", "label"), **SPLIT},
    ("path", "label"),
    "columns: image, mask and, optionally, split (train, validation, test) and group; paths are relative to the table",
)

UNKNOWN = "?"  # First letter of the class of a value that is not in the list


class Mask(NamedTuple):
    """The classes of an image's pixels, in plain values, as they are sent to child processes."""

    sha256: str  # of the file, or of the polygons
    size: tuple[int, int]  # height and width of the upright image
    path: str = ""  # of the file; empty for polygons, and for an image without an object
    classes: tuple[tuple[int, int], ...] = ()  # each value of the file with its class; other values are ignored
    orientation: int = 1  # how the file is turned upright, as in EXIF
    regions: str = ""  # JSON of (class, segmentation of COCO) in the order of drawing

    @property
    def key(self) -> tuple[object, ...]:
        """What the classes depend on."""
        return self.sha256, self.classes, self.orientation

    def labels(self) -> Classes:
        """Return the class of each pixel of the upright image, uint8 (height, width)."""
        if self.regions:
            return _draw_regions(json.loads(self.regions), self.size)
        if not self.path:
            return np.zeros(self.size, np.uint8)
        raw = _turn_upright(_values(read_bytes(Path(self.path))[0]), self.orientation)
        labels = np.full(raw.shape, IGNORED, np.uint8)
        for value, label in self.classes:
            labels[raw == value] = label
        return labels


def _values(data: bytes) -> NDArray[np.int32]:
    """Return the values of a mask; of a coloured one, RGB as one number. ValueError: no image can have such a mask."""
    with ignore_warnings(), open_image(BytesIO(data)) as image:
        if image.format == "JPEG":
            raise ContentError("a JPEG file changes the values of a mask; save it as PNG")
        mode = image.mode
        if mode in ("1", "L", "P") or mode[0] == "I":
            # Of a palette image these are the indices, which are the classes; its colours may be any.
            values = np.asarray(image).astype(np.int32)
            if values.max() > IGNORED:
                largest = values.max()
                raise ContentError(f"its values reach {largest}, and {IGNORED} is the largest; save it with 8 bits")
            return np.asarray(values)
        if mode not in ("RGB", "RGBA", "LA", "PA"):
            raise ContentError(f"its pixels are {mode}; save it as an index or grey PNG")
        red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(np.int32), -1, 0)
    # Some tools save a grey mask in colour, and its values are still the classes.
    grey = bool((red == green).all() and (green == blue).all())
    return np.asarray(red if grey else (red << 16) + (green << 8) + blue, np.int32)


def _turn_upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    if orientation == 1:
        return values
    # As 32-bit integers, because a coloured mask has values of 24 bits. Pillow turns images by their EXIF.
    image = Image.fromarray(values.astype(np.int32))
    image.getexif()[0x0112] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


def _draw_regions(regions: Iterable[tuple[int, Any]], size: tuple[int, int]) -> Classes:
    """Return polygons and run lengths of COCO as classes; later ones cover earlier ones."""
    from pycocotools import mask

    pixels = np.zeros(size, np.uint8)
    for label, region in regions:
        # The reader would take memory for what they state.
        if isinstance(region, dict) and region.get("size") != list(size):
            raise ContentError(f"its run lengths are not for {size[1]}x{size[0]} pixels")
        if isinstance(region, list):
            # An object that something covers has several polygons, which are one region.
            encoded = mask.merge(mask.frPyObjects(region, *size))
        else:
            # COCO has run lengths as a list, or compressed as a text that the decoder takes as it is.
            encoded = mask.frPyObjects(region, *size) if isinstance(region["counts"], list) else region
        pixels[mask.decode(encoded).astype(bool)] = label
    return pixels


@dataclass(frozen=True)
class MaskEntry:
    """An image of a listing."""

    image: Entry
    mask: Path | None = None
    folder: str = ""  # class of the pixels that are not zero, where folders have the names of classes
    regions: tuple[tuple[int, Any], ...] | None = None  # of COCO


@dataclass(frozen=True)
class MaskListing:
    """Images with masks before the files are opened."""

    root: Path
    entries: Sequence[MaskEntry]
    names: Mapping[int, str] = field(default_factory=dict)  # the class of each value; empty if no file names them
    rejected: tuple[Rejected, ...] = ()


def list_masks(path: Path) -> MaskListing:
    """List images with masks in any layout; UsageError: the path does not exist, or no layout fits."""
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", HINT)
    if path.is_file():
        return _table(path) if path.suffix.lower() in SUFFIXES else _coco(path)
    listing = _folders(path)
    if any(entry.mask for entry in listing.entries):
        return listing
    if not coco_files(path, sure=True):
        raise UsageError(f"--data: '{path}' has no image with a mask of its name", HINT)
    return _coco(path)


def _table(path: Path) -> MaskListing:
    entries = []
    for number, row in read_rows(path, TABLE):
        entry = entry_of(path, number, row, TABLE)
        mask = path.parent / entry.label.strip() if entry.label.strip() else None
        entries.append(MaskEntry(replace(entry, label=ONE_CLASS), mask))
    return MaskListing(path.parent, entries, _names(path.parent))


def _folders(root: Path) -> MaskListing:
    """List folders of images and of masks, in ``root`` or in those of its parts; or masks beside their images."""
    images = dict[tuple[str, ...], Path]()
    masks = dict[tuple[str, ...], Path]()
    for base, part in dict.fromkeys([(root, ""), *part_folders(root)]):
        photos = folder_in(base, *IMAGES)
        truth = folder_in(base, *MASKS)
        if truth != base:
            images |= {(part, *_name(file, photos)): file for file in images_in(photos) if truth not in file.parents}
            masks |= {(part, *_name(file, truth)): file for file in images_in(truth)}
    for file in () if masks else images_in(root):
        name = _name(file, root)
        part = part_of(file.relative_to(root).parts[0])
        marked = name[-1] != file.stem.casefold() or (file.suffix.lower() == ".png" and (part, *name) in images)
        (masks if marked else images)[part, *name] = file
    classes = {folder for _, folder, *_ in masks if folder and not part_of(folder)}
    entries = [
        MaskEntry(
            Entry(file, ONE_CLASS, key[0] or part_of(key[1])),
            masks.get(key),
            file.parent.name if classes and key[1] and not part_of(key[1]) else "",
        )
        for key, file in images.items()
    ]
    alone = [Rejected(file, "a mask without an image of its name") for key, file in masks.items() if key not in images]
    return MaskListing(root, entries, _names(root), tuple(alone))


def _name(file: Path, base: Path) -> tuple[str, ...]:
    """Return folder and name of a file without what marks a mask, which image and mask have in common."""
    stem = file.stem.casefold()
    ending = next((mark for mark in ENDINGS if stem.endswith(mark)), "")
    folder = file.parent.relative_to(base).as_posix().casefold()
    return "" if folder == "." else folder, stem.removesuffix(ending)


def _names(root: Path) -> dict[int, str]:
    """Return the classes that a file names: one a line from value 0 on, or of CVAT with their colours."""
    file = next((root / name for name in NAMES if (root / name).is_file()), None)
    if file is None:
        return {}
    # CVAT begins its file with a comment that names the columns.
    lines = [
        line.strip() for line in text_of(require_beside(file)).splitlines() if line.strip() and not line.startswith("#")
    ]
    if file.name != "labelmap.txt":
        return dict(enumerate(labels_in("\n".join(lines))))
    names = {}
    for line in lines:
        # The empty text is for a line without a colon, which then fails as a colour.
        name, colour, *_ = [*line.split(":"), ""]
        try:
            red, green, blue = map(int, colour.split(","))
        except ValueError:
            raise UsageError(f"--data: '{file}' has the line '{line}'", "write name:red,green,blue::") from None
        names[red if red == green == blue else (red << 16) + (green << 8) + blue] = name
    return names


def _coco(path: Path) -> MaskListing:
    require_coco()
    root = path if path.is_dir() else path.parent.parent if path.parent.name == "annotations" else path.parent
    entries = list[MaskEntry]()
    rejected = list[Rejected]()
    names = {0: BACKGROUND}
    place: dict[str, int] = {}
    for file, part in coco_files(path) if path.is_dir() else [(path, part_of(path.stem))]:
        content = lists_of(file)
        categories = {key_of(one.get("id")): str(one.get("name")) for one in content["categories"]}
        for name in categories.values():
            # Files of several parts may number a class differently, so its name decides.
            place.setdefault(name, len(place) + 1)
        images = images_of(file, content["images"], rejected)
        base = base_of(file, part, root, [one["file_name"] for one in images.values()])
        regions: dict[str, list[tuple[int, Any]]] = {key: [] for key in images}
        for one in content["annotations"]:
            image = key_of(one.get("image_id"))
            segmentation = one.get("segmentation")
            if image in regions and segmentation:
                label = place.get(categories.get(key_of(one.get("category_id")), ""), IGNORED)
                # A crowd of COCO is one region around objects that nobody told apart.
                regions[image].append((IGNORED if one.get("iscrowd") else label, segmentation))
        entries += [
            MaskEntry(Entry(base / one["file_name"], ONE_CLASS, part), regions=tuple(regions[key]))
            for key, one in images.items()
        ]
    if not any(entry.regions for entry in entries):
        raise UsageError(f"--data: '{path}' has no annotation with a segmentation", HINT)
    return MaskListing(root, entries, names | {number: name for name, number in place.items()}, tuple(rejected))


@dataclass(frozen=True, eq=False)
class MaskSurvey:
    """Images with masks that were read."""

    images: Survey  # their classes are those of the masks; the label of an image is its rarest class
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
        return tuple(
            Counter({self.classes[label]: 1 for label in np.flatnonzero(row).tolist() if label != usual})
            for row in self.pixels
        )


class _Read(NamedTuple):
    entry: MaskEntry
    size: tuple[int, int]  # height and width of the upright image
    sha256: str = ""
    values: Mapping[int, int] = {}  # number of pixels with each value
    orientation: int = 1
    outside: bool = False
    fault: str = ""  # why the image cannot be used


def survey_masks(path: Path, progress: Progress | None = None, most: int | None = None) -> MaskSurvey:
    """Read images and masks; faults of single files are recorded with the images that are left out, not raised.

    ``most`` as of :func:`.survey`. Raises UsageError if the path does not exist, no layout fits, or the masks have
    fewer than two classes.
    """
    listing = list_masks(path)
    by_path = {entry.image.path: entry for entry in listing.entries}
    files = Listing(listing.root, [entry.image for entry in by_path.values()], (), listing.rejected)
    images = survey(files, progress, most)
    entries = [by_path[image.path] for image in images.dataset.images]
    sizes = zip(images.stats["height"].tolist(), images.stats["width"].tolist(), strict=True)
    asked = list(zip(entries, sizes, [shot.orientation for shot in images.shots], strict=True))
    read = [
        _Read(entry, size, fault=f"its mask is damaged: {outcome.reason}")
        if isinstance(outcome, ReaderFailure)
        else outcome
        for (entry, size, _), outcome in zip(asked, read_each(f"{__name__}:read_mask", asked), strict=True)
    ]
    name = _names_of(listing, {value for reading in read for value in reading.values})
    read = [reading._replace(fault=reading.fault or _unknown(reading, name)) for reading in read]
    images = images.without_images(
        [Rejected(reading.entry.image.path, reading.fault) for reading in read if reading.fault]
    )
    masks = _label_images(images, name, [reading for reading in read if not reading.fault], path)
    unused = [label for label in listing.names.values() if label not in masks.classes and label.casefold() not in VOID]
    return replace(masks, unused=tuple(unused))


def read_mask(asked: tuple[MaskEntry, tuple[int, int], int]) -> _Read:
    """Read a mask, by its entry, the size in which its image is stored, and how it is turned, as in EXIF."""
    entry, stored, turn = asked
    read = _Read(entry, stored[::-1] if turn > 4 else stored)
    if entry.mask is None and entry.regions is None:
        # Sets of faults have no masks of good images. Elsewhere a mask that is missing is a mistake.
        every = {0: stored[0] * stored[1]}
        return read._replace(values=every) if entry.folder else read._replace(fault="no mask")
    try:
        return _of_regions(read) if entry.mask is None else _of_file(read, entry.mask, turn)
    except Exception as error:  # pycocotools raises no class of its own
        if entry.mask is None:
            why = f": {error}" if isinstance(error, ContentError) else ""
            return read._replace(fault=f"its polygons or run lengths cannot be drawn{why}")
        return read._replace(fault=f"its mask '{entry.mask.name}': {describe_read_error(error)}")


def _of_file(read: _Read, mask: Path, turn: int) -> _Read:
    data, _ = read_bytes(mask)
    values = _values(data)
    # Tools save the mask of a turned photograph upright, or as the camera stored it. EXIF's 5 to 8 swap the sides.
    if values.shape not in (read.size, read.size[::-1] if turn > 4 else read.size):
        shown = [f"{shape[1]}x{shape[0]}" for shape in (values.shape, read.size)]
        raise ContentError(f"it has {shown[0]} pixels, the image {shown[1]}")
    turned = 1 if values.shape == read.size else turn
    return read._replace(sha256=hashlib.sha256(data).hexdigest(), values=_counts(values), orientation=turned)


def _of_regions(read: _Read) -> _Read:
    regions = read.entry.regions or ()
    points = [
        np.asarray(part, float).reshape(-1, 2) for _, region in regions if isinstance(region, list) for part in region
    ]
    beyond = any(bool((polygon < -1).any() or (polygon > np.array(read.size[::-1]) + 1).any()) for polygon in points)
    values = _counts(_draw_regions(regions, read.size))
    return read._replace(sha256=sha256_json([regions, read.size]), values=values, outside=beyond)


def _counts(values: NDArray[Any]) -> dict[int, int]:
    pixel_values, counts = np.unique(values, return_counts=True)
    return dict(zip(pixel_values.tolist(), counts.tolist(), strict=True))


Name = Callable[[int, str], str]  # From a value and the folder of its image to its class; empty if it is ignored


def _names_of(listing: MaskListing, values: set[int]) -> Name:
    """Return what names the values."""
    # In masks of two values 255 marks the object; in others it marks pixels to ignore.
    binary = len(values - {0}) == 1
    named = dict(listing.names)

    def name(value: int, folder: str) -> str:
        if named and not binary:
            return named.get(value, "" if value == IGNORED else f"{UNKNOWN}{value}")
        if value == 0:
            return named.get(0, BACKGROUND)
        if binary:
            return folder or next((label for number, label in named.items() if number), OBJECT)
        return "" if value == IGNORED else f"class {value}" if value < IGNORED else f"#{value:06x}"

    return lambda value, folder: "" if (label := name(value, folder)).casefold() in VOID else label


def _unknown(read: _Read, name: Name) -> str:
    unknown = [str(value) for value in read.values if name(value, "").startswith(UNKNOWN)]
    return f"its mask has values outside the list of classes: {listed(unknown)}" if unknown else ""


def _label_images(images: Survey, name: Name, readings: Sequence[_Read], path: Path) -> MaskSurvey:
    first: dict[str, int] = {}  # the least value of each class
    for reading in readings:
        for value in reading.values:
            if class_name := name(value, reading.entry.folder):
                first[class_name] = min(value, first.get(class_name, value))
    if not 2 <= len(first) <= MOST_CLASSES:
        lost = [f"; '{images.dataset.show_path(row.path)}': {row.reason}" for row in images.dataset.rejected]
        what = f"one class only, '{next(iter(first))}'" if len(first) == 1 else f"{len(first)} classes"
        raise UsageError(f"--data: the masks of '{path}' have {what}{lost[0] if lost else ''}", HINT)
    order = sorted(first, key=lambda title: (title != BACKGROUND, first[title], title))
    place = {title: number for number, title in enumerate(order)}
    masks = []
    pixels = np.zeros((len(readings), len(order)), np.int64)
    for row, (entry, size, sha256, values, orientation, *_) in enumerate(readings):
        pairs = [(value, place[class_name]) for value in values if (class_name := name(value, entry.folder))]
        for value, label in pairs:
            pixels[row, label] += values[value]
        drawn = [(place.get(name(value, ""), IGNORED), region) for value, region in entry.regions or ()]
        file = str(entry.mask) if entry.mask else ""
        regions = json.dumps(drawn) if drawn else ""
        masks.append(Mask(sha256, size, file, tuple(pairs), orientation, regions))
    number = (pixels > 0).sum(axis=0)
    dataset = images.dataset
    rarest = [int(min(np.flatnonzero(row), key=lambda label: number[label], default=0)) for row in pixels]
    named = tuple(replace(image, label=label) for image, label in zip(dataset.images, rarest, strict=True))
    # Sorted, so that renamed files give the same fingerprint and find their results in the cache.
    rows = sorted((image.sha256, mask.key) for image, mask in zip(named, masks, strict=True))
    read = replace(dataset, classes=tuple(order), images=named, fingerprint=sha256_json([order, rows]))
    outside = tuple(mask_reading.entry.image.path for mask_reading in readings if mask_reading.outside)
    return MaskSurvey(replace(images, dataset=read), tuple(masks), pixels, outside=outside)
