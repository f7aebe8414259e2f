"""A folder of labelled pictures, one sub-folder a class: read, checked file by file, fingerprinted."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError, nearest
from advisor.datasets import decode

MIN_PICTURES_PER_CLASS = 8
MAX_UNREADABLE_SHARE = 0.2
_SPLIT_NAMES = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})
_LAYOUT_HINT = (
    "a data folder holds one sub-folder a class, each with that class's pictures: DIR/cat/1.jpg, DIR/dog/2.jpg"
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Picture:
    """One readable picture: its file, the index of its class, and the SHA-256 of the file's bytes."""

    path: Path
    label: int
    sha256: str


@dataclass(frozen=True)
class Rejected:
    """One file that was left out, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Dataset:
    """The pictures that can be used.

    Attributes:
        root: the folder that was read.
        classes: class names, sorted; a label is an index into them.
        pictures: the readable pictures, sorted by path.
        rejected: the files left out with their reasons, sorted by path.
        fingerprint: SHA-256 over the sorted (class, file hash) pairs: equal for equal data wherever it lies.
    """

    root: Path
    classes: tuple[str, ...]
    pictures: tuple[Picture, ...]
    rejected: tuple[Rejected, ...]
    fingerprint: str

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each picture."""
        return tuple(picture.label for picture in self.pictures)

    @property
    def counts(self) -> tuple[int, ...]:
        """Readable pictures per class, in the order of ``classes``."""
        found = Counter(self.labels)
        return tuple(found[label] for label in range(len(self.classes)))


def read_folder(path: Path | str, progress: Progress | None = None) -> Dataset:
    """Read a folder with one sub-folder a class; pictures may be nested deeper inside a class's folder.

    Every file is hashed and decoded to its last byte, in parallel threads. Hidden files and folders are ignored, and
    so are files that are no pictures by name or content.

    Args:
        path: the data folder.
        progress: called with (files done, files found).

    Raises:
        UsageError: the folder is missing, a file, empty, has one class, a class with fewer than
            ``MIN_PICTURES_PER_CLASS`` readable pictures, or more than ``MAX_UNREADABLE_SHARE`` unreadable files.
    """
    root = _checked_root(Path(path))
    folders = _class_folders(root)
    files = [(file, label) for label, folder in enumerate(folders) for file in _files(folder)]
    _require_classes(root, folders, files)
    verdicts = _inspect([file for file, _ in files], progress)
    pictures = []
    rejected = []
    for (file, label), (digest, reason) in zip(files, verdicts, strict=True):
        if reason:
            rejected.append(Rejected(file, reason))
        else:
            pictures.append(Picture(file, label, digest))
    classes = tuple(folder.name for folder in folders)
    dataset = Dataset(root, classes, tuple(pictures), tuple(rejected), fingerprint(classes, pictures))
    _require_readable(dataset)
    _require_pictures(dataset)
    return dataset


def fingerprint(classes: Sequence[str], pictures: Sequence[Picture]) -> str:
    """SHA-256 over the sorted (class name, file hash) pairs."""
    rows = sorted((classes[picture.label], picture.sha256) for picture in pictures)
    digest = hashlib.sha256()
    for name, sha256 in rows:
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()


def _checked_root(root: Path) -> Path:
    if not root.exists():
        raise UsageError(f"--data: the folder '{root}' does not exist", _missing_hint(root))
    if not root.is_dir():
        raise UsageError(f"--data: '{root}' is a file, not a folder", _LAYOUT_HINT)
    return root


def _missing_hint(root: Path) -> str:
    try:
        siblings = [entry.name for entry in root.parent.iterdir() if entry.is_dir()]
    except OSError:
        siblings = []
    return f"check the path{nearest(root.name, siblings)}; {_LAYOUT_HINT}"


def _class_folders(root: Path) -> list[Path]:
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not _ignored(entry.name))
    except OSError as error:
        raise UsageError(f"--data: '{root}' cannot be read: {error.strerror}", "check its permissions") from error
    for folder in folders:
        _require_text(folder)
    _require_distinct([folder.name for folder in folders])
    return folders


def _require_text(folder: Path) -> None:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"--data: the class folder {os.fsencode(folder.name)!r} has a name that is not valid UTF-8", "rename it"
        ) from None


def _require_distinct(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.split()).casefold()
        if plain in seen:
            raise UsageError(
                f"--data: the classes '{seen[plain]}' and '{name}' differ only by case or blanks",
                "merge the two folders or rename one",
            )
        seen[plain] = name


def _ignored(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _files(folder: Path) -> list[Path]:
    found = []
    for place, inner, names in os.walk(folder, onerror=_unreadable_folder):
        inner[:] = [name for name in inner if not _ignored(name)]
        found += [Path(place, name) for name in names if not _ignored(name)]
    return sorted(file for file in found if decode.is_candidate(file))


def _unreadable_folder(error: OSError) -> None:
    raise UsageError(f"--data: '{error.filename}' cannot be read: {error.strerror}", "check its permissions")


def _require_classes(root: Path, folders: Sequence[Path], files: Sequence[tuple[Path, int]]) -> None:
    if not files:
        loose = any(decode.is_candidate(entry) for entry in root.iterdir() if entry.is_file())
        what = "has pictures but no class folders" if loose else "holds no pictures"
        raise UsageError(f"--data: '{root}' {what}", _LAYOUT_HINT)
    if all(folder.name.casefold() in _SPLIT_NAMES for folder in folders):
        names = ", ".join(f"'{folder.name}'" for folder in folders)
        raise UsageError(
            f"--data: '{root}' holds {names}, which are parts of a split and not classes",
            f"give one of them: --data {folders[-1] if len(folders) == 1 else _training_part(folders)}",
        )
    if len(folders) == 1:
        raise UsageError(f"--data: '{root}' has one class only, '{folders[0].name}'", "add a second class's folder")


def _training_part(folders: Sequence[Path]) -> Path:
    return next((folder for folder in folders if folder.name.casefold().startswith("train")), folders[0])


def _inspect(files: Sequence[Path], progress: Progress | None) -> list[tuple[str, str]]:
    verdicts = []
    with decode.quiet(), ThreadPoolExecutor(max_workers=_workers()) as pool:
        for done, verdict in enumerate(pool.map(decode.inspect, files), start=1):
            verdicts.append(verdict)
            if progress:
                progress(done, len(files))
    return verdicts


def _workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _require_readable(dataset: Dataset) -> None:
    bad, total = len(dataset.rejected), len(dataset.rejected) + len(dataset.pictures)
    if bad <= MAX_UNREADABLE_SHARE * total:
        return
    examples = "; ".join(f"'{row.path.relative_to(dataset.root)}': {row.reason}" for row in dataset.rejected[:3])
    raise UsageError(
        f"--data: {bad} of {total} pictures in '{dataset.root}' cannot be read ({100 * bad / total:.0f} %, "
        f"the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %): {examples}",
        "replace or remove the unreadable files; was the folder copied completely?",
    )


def _require_pictures(dataset: Dataset) -> None:
    rows = zip(dataset.classes, dataset.counts, strict=True)
    small = [f"'{name}' ({count})" for name, count in rows if count < MIN_PICTURES_PER_CLASS]
    if small:
        raise UsageError(
            f"--data: fewer than {MIN_PICTURES_PER_CLASS} readable pictures in {', '.join(small)}",
            f"add pictures (at least {MIN_PICTURES_PER_CLASS} a class, better 50) or remove the class's folder",
        )
