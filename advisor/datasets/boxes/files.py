"""Find the files of a set with boxes: its parts, its images, and the place of an image."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.dataset import PARTS
from advisor.datasets.layouts.folders import folders_in
from advisor.store.yamlfile import read_text

_YEAR = re.compile(r"[_-]?\d+$")


def part_of(name: str) -> str:
    """Return the part of a split that a name means, such as ``train2017`` or ``instances_val``; empty for none."""
    plain = _YEAR.sub("", name.casefold()).removeprefix("instances_")
    return PARTS.get(plain, "")


def part_folders(root: Path) -> list[tuple[Path, str]]:
    """Return the sub-folders that are named as parts, each with its part; the folder itself if there are none."""
    found = [(folder, part) for folder in folders_in(root) if (part := part_of(folder.name))]
    return found or [(root, "")]


def folder_in(root: Path, *names: str) -> Path:
    """Return the first sub-folder with one of these names, in any case; ``root`` if there is none."""
    inner = {folder.name.casefold(): folder for folder in folders_in(root)}
    return next((inner[name] for name in names if name in inner), root)


def files_in(folder: Path, suffix: str) -> list[Path]:
    """Return the files directly in a folder that have this extension, sorted, without hidden ones.

    Raises:
        UsageError: the folder cannot be read.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"--data: '{folder}' cannot be read: {error.strerror}", "check its permissions") from error
    return [entry for entry in entries if entry.suffix.lower() == suffix and not entry.name.startswith(".")]


def text_of(path: Path, max_bytes: int = 2**24) -> str:
    """Return the text of a file without a byte order mark.

    Raises:
        UsageError: the file cannot be read, is no plain file, too large or not UTF-8.
    """
    return read_text(path, max_bytes).removeprefix("\ufeff")


def is_there(path: Path) -> bool:
    """Return whether a file exists, False for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:  # the name is too long
        return False
