"""Read class folders, and split folders with class folders inside."""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.dataset import PARTS, Entry, Listing
from advisor.datasets.images import is_candidate
from advisor.datasets.layouts.manifest import SUFFIXES

UPPER, DEEPEST = "*", "**"
"""Last names of a path that say what a class is: each folder in it, or each folder that directly holds images."""

NESTED = 0.5
"""Above this share of images in deeper folders it is not clear which folders are the classes."""

SHOWN = 3
"""Names in a message, at most."""

HINT = (
    "a data set is a folder with one sub-folder a class (DIR/cat/1.jpg, DIR/dog/2.jpg), such folders inside train/, "
    "val/ and test/, or a CSV or Parquet manifest with the columns path and label"
)


def list_class_folders(path: Path, depth: str = "") -> Listing:
    """List ``DIR/cat/1.jpg``: one sub-folder a class; images may be in deeper folders.

    ``depth`` is :data:`UPPER` or :data:`DEEPEST` if the user says which folders are the classes, else empty. Raises
    UsageError if there are no images, only one class, or it is not clear which folders are the classes.
    """
    folders = folders_in(path)
    _refuse_mixed(path, folders)
    found = [(file, folder) for folder in folders for file in images_in(folder)]
    if not found:
        raise UsageError(f"--data: '{path}' {_nothing(path)}", _hint(path))
    entries, classes = _labelled(path, found, folders, depth)
    return Listing(path, entries, _several(path, classes))


def is_split(path: Path) -> bool:
    """Return whether all sub-folders of a folder have names of parts of a split."""
    folders = folders_in(path)
    return bool(folders) and all(folder.name.casefold() in PARTS for folder in folders)


def list_split_folders(path: Path, depth: str = "") -> Listing:
    """List ``DIR/train/cat/1.jpg``, ``DIR/val/...``, ``DIR/test/...``: the user's own split.

    Validation or test may be missing; a single part is no split. ``depth`` and errors as of :func:`list_class_folders`.
    """
    folders = folders_in(path)
    inner = [(one, folder) for folder in folders for one in folders_in(folder)]
    found = [(file, one) for one, _ in inner for file in images_in(one)]
    if not found:
        raise UsageError(f"--data: the parts {_names(folders)} of '{path}' hold no class folders", HINT)
    entries, classes = _labelled(path, found, [one for one, _ in inner], depth)
    if len(folders) > 1:
        part_of = {one: PARTS[folder.name.casefold()] for one, folder in inner}
        entries = [replace(entry, part=part_of[one]) for entry, (_, one) in zip(entries, found, strict=True)]
    return Listing(path, entries, _several(path, classes))


def _labelled(
    path: Path, found: Sequence[tuple[Path, Path]], folders: Sequence[Path], depth: str
) -> tuple[list[Entry], list[str]]:
    """Return the entries of files with their class folders, and the sorted names of the classes."""
    if not depth:
        _refuse_nested(path, found)
    if depth == DEEPEST:
        _refuse_homonyms(found)
        entries = [Entry(file, file.parent.name) for file, _ in found]
        return entries, sorted({entry.label for entry in entries})
    return [Entry(file, folder.name) for file, folder in found], sorted({folder.name for folder in folders})


def _refuse_nested(path: Path, found: Sequence[tuple[Path, Path]]) -> None:
    """Refuse ``DIR/Fruit/Apple/1.jpg``: the deeper folders look like classes, unless their names, such as ``images``,
    recur in several class folders.
    """
    upper = {folder.name for _, folder in found}
    places = {file.parent for file, folder in found if file.parent != folder}
    names = {place.name for place in places}
    nested = sum(file.parent != folder for file, folder in found)
    recur = len({(file.parent.name, folder.name) for file, folder in found if file.parent != folder}) - len(names)
    if nested <= NESTED * len(found) or len(names) <= len(upper) or recur > len(names) / 2:
        return
    raise UsageError(
        f"--data: are the classes of '{path}' {_some(upper)}, or the {len(names)} deeper folders {_some(names)}?",
        f"write --data '{path / DEEPEST}' for the deeper folders, or --data '{path / UPPER}' for the upper ones, "
        "both with the quotes; or list the images in a manifest",
    )


def _refuse_homonyms(found: Sequence[tuple[Path, Path]]) -> None:
    """Refuse deepest folders of one name in several places: ``Fruit/Other`` and ``Packages/Other`` are two classes."""
    places: dict[str, set[str]] = {}
    for file, folder in found:
        places.setdefault(file.parent.name, set()).add(str(file.parent.relative_to(folder.parent)))
    for name, several in sorted(places.items()):
        if len(several) > 1:
            raise UsageError(
                f"--data: the class '{name}' would be several folders: {_some(several)}",
                "rename them, or list the images in a manifest",
            )


def _refuse_mixed(path: Path, folders: Sequence[Path]) -> None:
    """Refuse two parts or more of a split beside other folders: a model would learn to tell the parts."""
    parts = [folder for folder in folders if folder.name.casefold() in PARTS and folders_in(folder)]
    if len({PARTS[folder.name.casefold()] for folder in parts}) < 2:
        return
    others = [folder for folder in folders if folder not in parts]
    trained = min(parts, key=lambda folder: PARTS[folder.name.casefold()] != "train")
    raise UsageError(
        f"--data: '{path}' has the parts {_names(parts)} of a split beside {_names(others)}",
        f"move {_names(others)} away, or use one part alone: --data {trained}; or list the images in a manifest",
    )


def _several(path: Path, classes: list[str]) -> list[str]:
    if len(classes) == 1:
        raise UsageError(f"--data: '{path}' has one class only, '{classes[0]}'", "add a second class's folder")
    return classes


def _nothing(path: Path) -> str:
    loose = any(is_candidate(entry) for entry in path.iterdir() if entry.is_file())
    return "has images but no class folders" if loose else "holds no images"


def _hint(path: Path) -> str:
    manifests = [entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in SUFFIXES]
    return f"give its manifest: --data {manifests[0]}" if manifests else HINT


def _names(folders: Sequence[Path]) -> str:
    return ", ".join(f"'{folder.name}'" for folder in folders)


def _some(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def folders_in(root: Path) -> list[Path]:
    """Return the folders directly inside ``root``, sorted, without hidden ones.

    Raises UsageError if the folder cannot be read, or a name in it is not valid UTF-8.
    """
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not _ignored(entry.name))
    except OSError as error:
        raise UsageError(f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions") from error
    for folder in folders:
        _require_text(folder)
    return folders


def images_in(folder: Path) -> list[Path]:
    """Return the files anywhere below ``folder`` that look like images, sorted, without hidden ones."""
    found = []
    for place, inner, names in os.walk(folder, onerror=_unreadable_folder):
        inner[:] = [name for name in inner if not _ignored(name)]
        found += [Path(place, name) for name in names if not _ignored(name)]
    return sorted(file for file in found if is_candidate(file))


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
