"""What every layout of a data set gives: a listing of files with their labels, before any file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from advisor.datasets.dataset import Rejected

PARTS = {
    "train": "train", "training": "train",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
    "test": "holdout", "testing": "holdout", "holdout": "holdout", "hold-out": "holdout",
}  # fmt: skip
"""What people call the parts of a split, and what they are called here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as listed.

    Attributes:
        path: the file; it may be missing or no image.
        label: its class as it is written.
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
        root: paths are shown from here.
        entries: the files.
        classes: class names that must exist even where they have no file.
        rejected: what was listed and names no image with a class.
    """

    root: Path
    entries: Sequence[Entry]
    classes: Sequence[str] = ()
    rejected: Sequence[Rejected] = ()


class Layout(Protocol):
    """One way to lay out labelled images."""

    def fits(self, path: Path) -> bool:
        """True where ``path``, which exists, is laid out so."""
        ...

    def list_files(self, path: Path) -> Listing:
        """List its files.

        Raises:
            UsageError: it cannot be read, or holds nothing that can be used.
        """
        ...
