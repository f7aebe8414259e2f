"""Find the folders and files of a set with boxes or masks: those of its parts, and by their names.

The readers of every format in this folder, and those of masks and tables of labels, ask here, so
that ``train2017/`` or ``Annotations/`` mean the same for all of them.
"""

from __future__ import annotations

from pathlib import Path

from advisor.core import UsageError
from advisor.datasets import _parts as parts
from advisor.datasets._scan import list_folders
from advisor.store import read_text


def labelled_part_of(name: str) -> str:
    """Return the part of a split that a name means, such as ``train2017``; empty for none.

    A part without labels is none, as it has no boxes.
    """
    part = parts.part_of(name)
    return "" if part == parts.UNLABELLED else part


def list_part_folders(root: Path) -> list[tuple[Path, str]]:
    """Return the sub-folders that are named as parts, each with its part; else ``root``."""
    folders = [(folder, labelled_part_of(folder.name)) for folder in list_folders(root)]
    named = [(folder, part) for folder, part in folders if part]
    return named or [(root, "")]


def folder_in(root: Path, *names: str) -> Path:
    """Return the first sub-folder with one of these names, in any case; else ``root``."""
    inner = {folder.name.casefold(): folder for folder in list_folders(root)}
    return next((inner[name] for name in names if name in inner), root)


def list_files_with_suffix(folder: Path, suffix: str) -> list[Path]:
    """Return the visible files directly in a folder that have this extension, sorted."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(
            f"--data: '{folder}' cannot be read: {error.strerror}", "check its permissions"
        ) from error
    visible = []
    for entry in entries:
        if not entry.name.startswith("."):
            visible.append(entry)
    return [entry for entry in visible if entry.suffix.lower() == suffix]


def read_short_text(path: Path, max_bytes: int = 2**24) -> str:
    """Return the text of a small file; UsageError as of :func:`read_text`."""
    return read_text(path, max_bytes)
