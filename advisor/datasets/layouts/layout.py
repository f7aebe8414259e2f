"""Define the listing that every layout returns: files with their labels, before any file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.datasets.dataset import Rejected

PARTS = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "holdout", "testing": "holdout", "holdout": "holdout", "hold-out": "holdout",
}  # fmt: skip
"""Usual names of the parts of a split, and their names here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a listing.

    Attributes:
        path: the file; it may be missing, or not an image.
        label: its class as written.
        part: ``train``, ``validation``, ``holdout`` or empty.
        group: images of one group stay on one side of a split; empty for none.
    """

    path: Path
    label: str
    part: str = ""
    group: str = ""


@dataclass(frozen=True)
class Listing:
    """A data set before its files are opened.

    Attributes:
        root: paths in reports are relative to it.
        entries: the files.
        classes: class names that exist even without a file.
        rejected: entries without an image or a label.
    """

    root: Path
    entries: Sequence[Entry]
    classes: Sequence[str] = ()
    rejected: Sequence[Rejected] = ()
