"""Find the shipped catalogue files: at the root of a checkout, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def catalogue_files() -> tuple[Path, ...]:
    """Return the shipped ``catalogs/*.yaml``, in the order of their names."""
    return tuple(sorted(catalogue_folder().glob("*.yaml")))


def catalogue_folder() -> Path:
    """Folder of the shipped catalogue."""
    # An installed package carries its data inside; only a checkout lacks that folder.
    installed = _PACKAGE / "_data" / "catalogs"
    return installed if installed.is_dir() else _PACKAGE.parent / "catalogs"
