"""List images with masks before the files are opened: folders, masks beside images, tables, COCO.

``survey.py`` calls :func:`list_masks`. Image and mask belong together by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.core import UsageError, require_extra
from advisor.datasets._boxes.coco import (
    find_coco_files,
    find_image_base,
    read_coco_images,
    read_coco_lists,
)
from advisor.datasets._boxes.entries import ONE_CLASS
from advisor.datasets._boxes.set_folders import (
    folder_in,
    labelled_part_of,
    list_part_folders,
    read_short_text,
)
from advisor.datasets._category_files import make_key, require_beside
from advisor.datasets._column_search import SUFFIXES
from advisor.datasets._dataset import Entry, Rejected
from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
from advisor.datasets._manifests import read_entry, read_rows
from advisor.datasets._masks.mask import IGNORED_LABEL
from advisor.datasets._scan import images_in
from advisor.store import labels_in

BACKGROUND = "background"
IMAGES = ("images", "image", "imgs", "jpegimages", "photos")
MASKS = ("masks", "mask", "segmentationclass", "ground_truth", "annotations", "labels", "gt")
ENDINGS = ("_mask", "-mask", "_masks", "_label", "_labels", "_labelids", "_gt", "_seg")
NAMES = ("classes.txt", "labels.txt", "labelmap.txt")
HINT = (
    "put photographs into DIR/images and masks of equal names into DIR/masks, as PNG files whose"
    " values are classes; DIR/classes.txt names the classes, the first line that of value 0. A"
    " table with the columns image and mask, and COCO with segmentation, are read too"
)
TABLE = ManifestColumns(
    {
        "path": ("path", "image", "file", "filename"),
        "label": ("mask", "mask_path", "label"),
        **SPLIT,
    },
    ("path", "label"),
    "columns: image, mask and, optionally, split (train, validation, test) and group; paths are"
    " relative to the table",
)


Key = tuple[str, ...]
"""Part, folder and name, which image and mask of a pair have in common."""


@dataclass(frozen=True)
class MaskEntry:
    """An image of a listing, with a mask or with regions; with neither if it has no mask."""

    image: Entry
    mask: Path | None = None  # the file of the mask
    # Class of the pixels that are not zero, where folders have the names of classes.
    folder: str = ""
    # Of COCO: the class of each region, and its polygons or run lengths.
    regions: tuple[tuple[int, Any], ...] | None = None


@dataclass(frozen=True)
class MaskListing:
    """Images with masks before the files are opened."""

    root: Path  # paths in reports are relative to it
    entries: Sequence[MaskEntry]  # the images
    # The class of each value; empty if no file names them.
    names: Mapping[int, str] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()


def list_masks(path: Path) -> MaskListing:
    """List images with masks in any layout.

    UsageError if the path does not exist, or no layout fits.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", HINT)
    if path.is_file():
        if path.suffix.lower() in SUFFIXES:
            return _list_table(path)
        return _list_coco(path)
    listing = _list_folders(path)
    if any(entry.mask for entry in listing.entries):
        return listing
    if not find_coco_files(path, sure=True):
        raise UsageError(f"--data: '{path}' has no image with a mask of its name", HINT)
    return _list_coco(path)


def _list_table(path: Path) -> MaskListing:
    entries = []
    for number, row in read_rows(path, TABLE):
        entry = read_entry(path, number, row, TABLE)
        mask = None
        if entry.label.strip():
            mask = path.parent / entry.label.strip()
        entries.append(MaskEntry(replace(entry, label=ONE_CLASS), mask))
    return MaskListing(path.parent, entries, _read_names(path.parent))


def _list_folders(root: Path) -> MaskListing:
    """List folders of images and of masks, in ``root`` or its parts; or masks beside images."""
    images: dict[Key, Path] = {}
    masks: dict[Key, Path] = {}
    for base, part in dict.fromkeys([(root, ""), *list_part_folders(root)]):
        photos = folder_in(base, *IMAGES)
        truth = folder_in(base, *MASKS)
        if truth != base:
            for file in images_in(photos):
                if truth not in file.parents:
                    images[part, *_make_key(file, photos)] = file
            for file in images_in(truth):
                masks[part, *_make_key(file, truth)] = file
    if not masks:
        _find_masks_beside(root, images, masks)
    classes = set()
    for _, folder, *_ in masks:
        if folder and not labelled_part_of(folder):
            classes.add(folder)
    entries = []
    for key, file in images.items():
        part, folder, *_ = key
        class_folder = ""
        if classes and folder and not labelled_part_of(folder):
            class_folder = file.parent.name
        image = Entry(file, ONE_CLASS, part or labelled_part_of(folder))
        entries.append(MaskEntry(image, masks.get(key), class_folder))
    rejected = []
    for key, file in masks.items():
        if key not in images:
            rejected.append(Rejected(file, "a mask without an image of its name"))
    return MaskListing(root, entries, _read_names(root), tuple(rejected))


def _find_masks_beside(root: Path, images: dict[Key, Path], masks: dict[Key, Path]) -> None:
    """Add the images below a folder and the masks beside them, which have marks in their names."""
    for file in images_in(root):
        name = _make_key(file, root)
        part = labelled_part_of(file.relative_to(root).parts[0])
        has_mark = name[-1] != file.stem.casefold()
        is_second_png = file.suffix.lower() == ".png" and (part, *name) in images
        if has_mark or is_second_png:
            masks[part, *name] = file
        else:
            images[part, *name] = file


def _make_key(file: Path, base: Path) -> Key:
    """Return folder and name that image and mask have in common: without the mark of a mask."""
    stem = file.stem.casefold()
    ending = next(filter(stem.endswith, ENDINGS), "")
    folder = file.parent.relative_to(base).as_posix().casefold()
    return "" if folder == "." else folder, stem.removesuffix(ending)


def _read_names(root: Path) -> dict[int, str]:
    """Return the class of each value: one a line from value 0 on, or of CVAT with colours."""
    file = next((root / name for name in NAMES if (root / name).is_file()), None)
    if file is None:
        return {}
    lines = []
    for line in read_short_text(require_beside(file)).splitlines():
        # CVAT begins its file with a comment that names the columns.
        if line.strip() and not line.startswith("#"):
            lines.append(line.strip())
    if file.name != "labelmap.txt":
        return dict(enumerate(labels_in("\n".join(lines))))
    names = {}
    for line in lines:
        # The empty text is for a line without a colon, which then fails as a colour.
        name, colour, *_ = [*line.split(":"), ""]
        try:
            red, green, blue = map(int, colour.split(","))
        except ValueError:
            raise UsageError(
                f"--data: '{file}' has the line '{line}'", "write name:red,green,blue::"
            ) from None
        is_grey = red == green == blue
        value = red if is_grey else (red << 16) + (green << 8) + blue
        names[value] = name
    return names


def _list_coco(path: Path) -> MaskListing:
    require_extra(
        "pycocotools",
        "detection",
        "masks of COCO are drawn by pycocotools, which is not installed",
    )
    files = [(path, labelled_part_of(path.stem))]
    root = path.parent.parent if path.parent.name == "annotations" else path.parent
    if path.is_dir():
        files = find_coco_files(path)
        root = path
    entries = list[MaskEntry]()
    rejected = list[Rejected]()
    names = {0: BACKGROUND}
    label_of: dict[str, int] = {}
    for file, part in files:
        content = read_coco_lists(file)
        categories = {}
        for category in content["categories"]:
            name = str(category.get("name"))
            categories[make_key(category.get("id"))] = name
        for name in categories.values():
            # Files of several parts may number a class differently, so its name decides.
            label_of.setdefault(name, len(label_of) + 1)
        images = read_coco_images(file, content["images"], rejected)
        base = find_image_base(file, part, root, [row["file_name"] for row in images.values()])
        regions: dict[str, list[tuple[int, Any]]] = {key: [] for key in images}
        for annotation in content["annotations"]:
            image = make_key(annotation.get("image_id"))
            segmentation = annotation.get("segmentation")
            if image not in regions or not segmentation:
                continue
            name = categories.get(make_key(annotation.get("category_id")), "")
            label = label_of.get(name, IGNORED_LABEL)
            # A crowd of COCO is one region around objects that nobody told apart.
            if annotation.get("iscrowd"):
                label = IGNORED_LABEL
            regions[image].append((label, segmentation))
        for key, row in images.items():
            entry = Entry(base / row["file_name"], ONE_CLASS, part)
            entries.append(MaskEntry(entry, regions=tuple(regions[key])))
    if not any(entry.regions for entry in entries):
        raise UsageError(f"--data: '{path}' has no annotation with a segmentation", HINT)
    names.update({label: name for name, label in label_of.items()})
    return MaskListing(root, entries, names, tuple(rejected))
