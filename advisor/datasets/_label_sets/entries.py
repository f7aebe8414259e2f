"""Define the values that describe images with any number of labels before they are opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from advisor.datasets._dataset import Entry, Rejected


@dataclass(frozen=True)
class LabelSetEntry:
    """An image: the classes that it shows, and those of which nothing is known."""

    image: Entry
    there: frozenset[str]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LabelSetListing:
    """The images of tables, or of folders of classes, before their files are opened."""

    root: Path
    entries: tuple[LabelSetEntry, ...]
    classes: frozenset[str]
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    by_columns: bool = False  # each class has a column
