"""Read class folders, and split folders with class folders inside."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets import decode
from advisor.datasets.dataset import PARTS, Entry, Listing
from advisor.datasets.layouts.manifest import SUFFIXES

HINT = (
    "a data set is a folder with one sub-folder a class (DIR/cat/1.jpg, DIR/dog/2.jpg), such folders inside train/, "
    "val/ and test/, or a CSV or Parquet manifest with the columns path and label"
)


def list_class_folders(path: Path) -> Listing:
    """List ``DIR/cat/1.jpg``: one sub-folder a class; images may be in deeper folders.

    Raises:
        UsageError: there are no images, or only one class.
    """
    folders = _folders_in(path)
    entries = [Entry(file, folder.name) for folder in folders for file in _images_in(folder)]
    if not entries:
        raise UsageError(f"--data: '{path}' {_nothing(path)}", _hint(path))
    return Listing(path, entries, _several(path, [folder.name for folder in folders]))


def is_split(path: Path) -> bool:
    """Return whether all sub-folders of a folder have names of parts of a split."""
    folders = _folders_in(path)
    return bool(folders) and all(folder.name.casefold() in PARTS for folder in folders)


def list_split_folders(path: Path) -> Listing:
    """List ``DIR/train/cat/1.jpg``, ``DIR/val/...``, ``DIR/test/...``: the user's own split.

    Validation or test may be missing; a single part is no split.

    Raises:
        UsageError: there are no images, or only one class.
    """
    folders = _folders_in(path)
    entries: list[Entry] = []
    classes: list[str] = []
    for folder in folders:
        part = PARTS[folder.name.casefold()] if len(folders) > 1 else ""
        inner = _folders_in(folder)
        classes += [one.name for one in inner]
        entries += [Entry(file, one.name, part) for one in inner for file in _images_in(one)]
    if not entries:
        raise UsageError(f"--data: the parts {_names(folders)} of '{path}' hold no class folders", HINT)
    return Listing(path, entries, _several(path, sorted(set(classes))))


def _several(path: Path, classes: list[str]) -> list[str]:
    if len(classes) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{classes[0]}'", "add a second class's folder")
    return classes


def _nothing(path: Path) -> str:
    loose = any(decode.is_candidate(entry) for entry in path.iterdir() if entry.is_file())
    return "has images but no class folders" if loose else "holds no images"


def _hint(path: Path) -> str:
    manifests = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES]
    return f"give its manifest: --data {manifests[0]}" if manifests else HINT


def _names(folders: list[Path]) -> str:
    return ", ".join(f"'{folder.name}'" for folder in folders)


def _folders_in(root: Path) -> list[Path]:
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


def _images_in(folder: Path) -> list[Path]:
    """Return the files anywhere below ``folder`` that look like images, sorted, without hidden ones.

    Raises:
        UsageError: a folder below cannot be read.
    """
    found = []
    for place, inner, names in os.walk(folder, onerror=_unreadable_folder):
        inner[:] = [name for name in inner if not _ignored(name)]
        found += [Path(place, name) for name in names if not _ignored(name)]
    return sorted(file for file in found if decode.is_candidate(file))


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
