"""Read images with boxes: Pascal VOC, COCO, YOLO and tables."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.boxes.coco import coco_files, list_coco
from advisor.datasets.boxes.values import Box, BoxEntry, BoxFault, BoxListing, list_table, screened
from advisor.datasets.boxes.voc import is_voc, list_voc
from advisor.datasets.boxes.yolo import NAMES, YAML, is_yolo, list_yolo
from advisor.datasets.layouts import missing_hint
from advisor.datasets.layouts.manifest import SUFFIXES

__all__ = ["Box", "BoxEntry", "BoxFault", "BoxListing", "formats_of", "list_boxes"]

HINT = (
    "boxes come as Pascal VOC (Annotations/ and JPEGImages/), COCO (a JSON file beside images/), YOLO (images/, "
    "labels/ and data.yaml), or a table with the columns path,label,xmin,ymin,xmax,ymax"
)


def list_boxes(path: Path) -> BoxListing:
    """List the images of a set with their boxes, whatever its format; boxes that cannot be right are left out.

    A file says which format counts: a table, a COCO file, or YOLO's class names. If all images are in one part of a
    split, there is no split. Raises UsageError if the path does not exist, no format or more than one fits, or the data
    cannot be read.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", missing_hint(path, HINT))
    listing = screened(_folder(path) if path.is_dir() else _file(path))
    if not listing.entries and not listing.rejected:
        raise UsageError(f"--data: '{path}' names no image", HINT)
    if len({entry.part for entry in listing.entries}) > 1:
        return listing
    return replace(listing, entries=[replace(entry, part="") for entry in listing.entries])


def _file(path: Path) -> BoxListing:
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return list_table(path)
    if suffix == ".json":
        return list_coco(path)
    if suffix in YAML or path.name in NAMES:
        return list_yolo(path)
    raise UsageError(f"--data: '{path}' is a file, but neither a table, nor a COCO file, nor YOLO's class names", HINT)


def formats_of(path: Path) -> dict[str, Callable[[Path], BoxListing]]:
    """Return the formats of boxes that a folder surely has, by their names, with what reads them."""
    found = {
        "Pascal VOC (XML files)": (is_voc(path), list_voc),
        "COCO (JSON files)": (bool(coco_files(path, sure=True)), list_coco),
        "YOLO (labels or class names)": (is_yolo(path), list_yolo),
    }
    return {name: read for name, (there, read) in found.items() if there}


def _folder(path: Path) -> BoxListing:
    formats = formats_of(path)
    if not formats and coco_files(path):
        return list_coco(path)
    if len(formats) == 1:
        return next(iter(formats.values()))(path)
    if formats:
        raise UsageError(
            f"--data: '{path}' has annotations in {len(formats)} formats: {', '.join(formats)}",
            "name the COCO file or YOLO's data.yaml instead of the folder, or move the other annotations away",
        )
    tables = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES)
    hint = f"give its table: --data {tables[0]}" if tables else HINT
    raise UsageError(f"--data: '{path}' has no boxes in a known format", hint)
