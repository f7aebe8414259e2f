"""List folders of classes as labels: an image that is in several folders has several labels.

``tables.py`` calls this for a folder without a table. Images in several folders are links or
copies.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from advisor.core import listed
from advisor.datasets._checks.findings import phrase_count
from advisor.datasets._dataset import Entry, Rejected
from advisor.datasets._label_sets.entries import LabelSetEntry, LabelSetListing
from advisor.datasets._layouts import list_files
from advisor.store import sha256_file


def list_class_folders(path: Path) -> LabelSetListing:
    """List the images of folders of classes, each image once with the names of its folders.

    Raises UsageError if no folder can be a class.
    """
    listing = list_files(path)
    copies = defaultdict[str, list[Entry]](list)
    for entry in listing.entries:
        copies[_name_content(entry.path)].append(entry)
    entries = []
    rejected = list(listing.rejected)
    several = 0
    for same in copies.values():
        image = same[0]
        parts = sorted({entry.part for entry in same})
        if len(parts) > 1:
            rejected.append(
                Rejected(image.path, f"it is in several parts of the split: {listed(parts)}")
            )
            continue
        labels = frozenset(entry.label for entry in same)
        several += len(labels) > 1
        entries.append(LabelSetEntry(image, labels))
    shared = phrase_count(several, "image is", "images are")
    note = f"The labels of an image are the folders that it is in: {shared} in several."
    classes = frozenset(listing.classes) | {entry.label for entry in listing.entries}
    return LabelSetListing(path, tuple(entries), classes, tuple(rejected), (*listing.notes, note))


def _name_content(path: Path) -> str:
    """Return the hash of a file, which its copies have in common; its path if it is missing."""
    try:
        return sha256_file(path)
    except OSError:
        return str(path)
