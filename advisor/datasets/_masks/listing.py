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


@dataclass(frozen=True)
class MaskEntry:
    """An image of a listing."""

    image: Entry
    mask: Path | None = None
    # Class of the pixels that are not zero, where folders have the names of classes.
    folder: str = ""
    regions: tuple[tuple[int, Any], ...] | None = None  # of COCO


@dataclass(frozen=True)
class MaskListing:
    """Images with masks before the files are opened."""

    root: Path
    entries: Sequence[MaskEntry]
    # The class of each value; empty if no file names them.
    names: Mapping[int, str] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()


def list_masks(path: Path) -> MaskListing:
    """List images with masks in any layout; UsageError:
    the path does not exist, or no layout fits.
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
    """List folders of images and of masks, in ``root`` or in those of its parts;
    or masks beside their images.
    """
    images = dict[tuple[str, ...], Path]()
    masks = dict[tuple[str, ...], Path]()
    for base, part in dict.fromkeys([(root, ""), *list_part_folders(root)]):
        photos = folder_in(base, *IMAGES)
        truth = folder_in(base, *MASKS)
        if truth != base:
            images |= {
                (part, *_make_key(file, photos)): file
                for file in images_in(photos)
                if truth not in file.parents
            }
            masks |= {(part, *_make_key(file, truth)): file for file in images_in(truth)}
    for file in () if masks else images_in(root):
        name = _make_key(file, root)
        part = labelled_part_of(file.relative_to(root).parts[0])
        marked = name[-1] != file.stem.casefold() or (
            file.suffix.lower() == ".png" and (part, *name) in images
        )
        (masks if marked else images)[part, *name] = file
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
        entries.append(
            MaskEntry(
                Entry(file, ONE_CLASS, part or labelled_part_of(folder)),
                masks.get(key),
                class_folder,
            )
        )
    alone = []
    for key, file in masks.items():
        if key not in images:
            alone.append(Rejected(file, "a mask without an image of its name"))
    return MaskListing(root, entries, _read_names(root), tuple(alone))


def _make_key(file: Path, base: Path) -> tuple[str, ...]:
    """Return folder and name of a file without what marks a mask,
    which image and mask have in common.
    """
    stem = file.stem.casefold()
    ending = next(filter(stem.endswith, ENDINGS), "")
    folder = file.parent.relative_to(base).as_posix().casefold()
    return "" if folder == "." else folder, stem.removesuffix(ending)


def _read_names(root: Path) -> dict[int, str]:
    """Return the classes that a file names:
    one a line from value 0 on, or of CVAT with their colours.
    """
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
        names[red if red == green == blue else (red << 16) + (green << 8) + blue] = name
    return names


def _list_coco(path: Path) -> MaskListing:
    require_extra(
        "pycocotools",
        "detection",
        "masks of COCO are drawn by pycocotools, which is not installed",
    )
    root = path
    if not path.is_dir():
        root = path.parent.parent if path.parent.name == "annotations" else path.parent
    entries = list[MaskEntry]()
    rejected = list[Rejected]()
    names = {0: BACKGROUND}
    place: dict[str, int] = {}
    for file, part in (
        find_coco_files(path) if path.is_dir() else [(path, labelled_part_of(path.stem))]
    ):
        content = read_coco_lists(file)
        categories = {
            make_key(one.get("id")): str(one.get("name")) for one in content["categories"]
        }
        for name in categories.values():
            # Files of several parts may number a class differently, so its name decides.
            place.setdefault(name, len(place) + 1)
        images = read_coco_images(file, content["images"], rejected)
        base = find_image_base(file, part, root, [one["file_name"] for one in images.values()])
        regions: dict[str, list[tuple[int, Any]]] = {key: [] for key in images}
        for one in content["annotations"]:
            image = make_key(one.get("image_id"))
            segmentation = one.get("segmentation")
            if image in regions and segmentation:
                label = place.get(
                    categories.get(make_key(one.get("category_id")), ""), IGNORED_LABEL
                )
                # A crowd of COCO is one region around objects that nobody told apart.
                regions[image].append(
                    (IGNORED_LABEL if one.get("iscrowd") else label, segmentation)
                )
        for key, one in images.items():
            entry = Entry(base / one["file_name"], ONE_CLASS, part)
            entries.append(MaskEntry(entry, regions=tuple(regions[key])))
    if not any(entry.regions for entry in entries):
        raise UsageError(f"--data: '{path}' has no annotation with a segmentation", HINT)
    return MaskListing(
        root, entries, names | {number: name for name, number in place.items()}, tuple(rejected)
    )
