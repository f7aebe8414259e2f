"""List the folders and images below a folder."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets import decode


def folders_in(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises:
        UsageError: the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not _ignored(entry.name))
    except OSError as error:
        raise UsageError(f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions") from error
    for folder in folders:
        _require_text(folder)
    return folders


def images_in(folder: Path) -> list[Path]:
    """Return the files anywhere below ``folder`` that look like images, sorted, without hidden ones.

    Raises:
        UsageError: a folder below cannot be read.
    """
    found = []
    for place, inner, names in os.walk(folder, onerror=_unreadable_folder):
        inner[:] = [name for name in inner if not _ignored(name)]
        found += [Path(place, name) for name in names if not _ignored(name)]
    return sorted(file for file in found if decode.is_candidate(file))


def loose_images(root: Path) -> bool:
    """Return whether ``root`` itself has images."""
    return any(decode.is_candidate(entry) for entry in root.iterdir() if entry.is_file())


def _ignored(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _require_text(folder: Path) -> None:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"--data: the class folder {os.fsencode(folder.name)!r} has a name that is not valid UTF-8", "rename it"
        ) from None


def _unreadable_folder(error: OSError) -> None:
    raise UsageError(f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions")
