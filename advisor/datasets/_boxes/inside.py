"""List the boxes of images inside files: tables, shards of WebDataset and records of TFDS.

``list_boxes`` calls :func:`list_inside` for such a file, or a folder of them; ``_sources/`` opens
each file, as it does for images with classes.
"""

from dataclasses import replace
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._archives import RECORDS, archives_in, part_in_name
from advisor.datasets._boxes.entries import (
    BoxEntry,
    BoxListing,
    are_corners,
    convert_coco_box,
    make_box,
)
from advisor.datasets._boxes.marks import read_stated_size
from advisor.datasets._dataset import Rejected
from advisor.datasets._sources import SOURCES, find_kind, holds_images, open_source
from advisor.datasets._sources.base import BoxedArchive
from advisor.datasets._table_rows import PARQUET

_NOT_FOUR = (None,) * 4  # Edges of a box that has none, or too many


def find_files_with_images(path: Path) -> list[Path]:
    """Return the files with images that a path names or that are in a folder;
    none for a table with paths.
    """
    if path.is_dir():
        return archives_in(path)
    kind = find_kind(path)
    return [path] if kind in SOURCES and (kind not in PARQUET or holds_images(path)) else []


def list_inside(path: Path) -> BoxListing:
    """List the boxes of images inside files.

    ``datasets`` documents COCO's edges: left, top, width and height. If more boxes fit into their
    images as two corners, they are read as these:
    https://huggingface.co/docs/datasets/object_detection. UsageError: a file has no boxes, or
    cannot be read.
    """
    entries = list[BoxEntry]()
    rejected = list[Rejected]()
    files = find_files_with_images(path)
    named_parts = {part_in_name(file, path) for file in files} - {""}
    # One part alone is a download without its other files, and no split.
    is_split = len(named_parts) > 1
    for file in files:
        archive = open_source(file)
        part = part_in_name(file, path) if is_split else ""
        if not isinstance(archive, BoxedArchive):
            raise UsageError(
                f"--data: boxes inside '{file}' are not read", "unpack it, and name the folder"
            )
        for image in archive.list_objects():
            place = file / image.name
            if image.fault:
                rejected.append(Rejected(place, image.fault))
                continue
            boxes = []
            for number, (label, edges) in enumerate(image.boxes, start=1):
                sides = edges if len(edges) == 4 else _NOT_FOUR
                boxes.append(make_box(label, sides, number))
            entries.append(
                BoxEntry(place, tuple(boxes), place, part, "", read_stated_size(*image.size))
            )
    # TFDS has corners.
    if not all(find_kind(file) in RECORDS for file in files) and not are_corners(entries):
        entries = [
            replace(entry, boxes=tuple(map(convert_coco_box, entry.boxes))) for entry in entries
        ]
    return BoxListing(path if path.is_dir() else path.parent, entries, (), rejected, unit="object")
