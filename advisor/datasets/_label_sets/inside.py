"""List the labels of images inside tables: Parquet and Arrow, as Hugging Face writes them.

``tables.py`` calls :func:`list_inside` for such a file, or a folder of them; ``_sources/`` opens
each file, as it does for images with classes.
"""

from __future__ import annotations

from pathlib import Path

from advisor.datasets._archives import part_in_name
from advisor.datasets._boxes.inside import find_files_with_images
from advisor.datasets._dataset import Entry
from advisor.datasets._label_sets.cells import are_flags, describe_flags, name_flags
from advisor.datasets._label_sets.entries import LabelSetEntry, LabelSetListing
from advisor.datasets._sources import open_source
from advisor.datasets._sources.base import LabelSetArchive


def list_inside(path: Path) -> LabelSetListing | None:
    """List the images of tables with lists of labels; None if no file has such lists.

    Raises UsageError if a file cannot be read.
    """
    files = find_files_with_images(path)
    named_parts = {part_in_name(file, path) for file in files} - {""}
    # One part alone is a download without its other files, and no split.
    is_split = len(named_parts) > 1
    images = []
    for file in files:
        archive = open_source(file)
        part = part_in_name(file, path) if is_split else ""
        if not isinstance(archive, LabelSetArchive):
            continue
        for image in archive.list_label_sets():
            images.append((Entry(file / image.name, "", part), image.labels))
    if not images:
        return None
    is_by_place = are_flags(list(dict(images).values()))
    entries = []
    for entry, labels in images:
        names = name_flags(labels) if is_by_place else frozenset(labels)
        entries.append(LabelSetEntry(entry, names))
    classes = frozenset[str]().union(*(entry.there for entry in entries))
    notes = (describe_flags(path.name),) if is_by_place else ()
    root = path if path.is_dir() else path.parent
    return LabelSetListing(root, tuple(entries), classes, notes=notes)
