"""List the boxes of images inside files: tables, shards of WebDataset and records of TFDS.

``list_boxes`` calls :func:`list_inside` for such a file, or a folder of them; ``_sources/`` opens
each file, as it does for images with classes. An image keeps its place as its name
(``FILE/NAME``), because the split and runs of earlier searches name images by it.
"""

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
    """Return the files with images below a folder, or the path itself if it is such a file."""
    if path.is_dir():
        return archives_in(path)
    kind = find_kind(path)
    # A table without images has their paths, and another reader takes it.
    has_images = kind in SOURCES and (kind not in PARQUET or holds_images(path))
    return [path] if has_images else []


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
            size = read_stated_size(*image.size)
            entries.append(BoxEntry(place, tuple(boxes), place, part, "", size))
    is_tfds = all(find_kind(file) in RECORDS for file in files)
    # TFDS has corners.
    if not is_tfds and not are_corners(entries):
        entries = [entry.convert_boxes(convert_coco_box) for entry in entries]
    root = path if path.is_dir() else path.parent
    return BoxListing(root, entries, (), rejected, unit="object")
