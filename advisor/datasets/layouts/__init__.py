"""Read the layouts of labelled images: class folders, split folders, manifests."""

from __future__ import annotations

from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.datasets.layouts.folders import HINT, ClassFolders, SplitFolders
from advisor.datasets.layouts.layout import Entry, Layout, Listing
from advisor.datasets.layouts.manifest import Manifest

__all__ = ["LAYOUTS", "Entry", "Layout", "Listing", "list_files"]

LAYOUTS: tuple[Layout, ...] = (Manifest(), SplitFolders(), ClassFolders())
"""The layouts in the order in which they are tried; the first that fits is used."""


def list_files(path: Path) -> Listing:
    """List the labelled files of a data set, whatever its layout.

    Raises:
        UsageError: the path does not exist, no layout fits, or the data cannot be read.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", _missing_hint(path))
    for layout in LAYOUTS:
        if layout.fits(path):
            return layout.list_files(path)
    raise UsageError(f"--data: '{path}' is a file, neither a folder nor a manifest", HINT)


def _missing_hint(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(path.name, siblings)}; {HINT}"
