"""Define what each kind of file with images must offer, and how its names and objects are read.

:class:`Archive` is the protocol of all kinds; :class:`BoxedArchive`, :class:`LabelSetArchive` and
:class:`FolderArchive` are further ones that some kinds have. The functions below are shared by the
kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, runtime_checkable

from advisor.core import ContentError, UsageError
from advisor.datasets._image_names import is_image_name
from advisor.datasets._read_errors import explain_error
from advisor.datasets._system_folders import is_system_name

REPEATED = "the archive has several files of this name"
MAX_IMAGE_BYTES = 256 * 2**20
"""Largest image that is read, as a file or from one."""

ARCHIVE_SUFFIXES = frozenset({".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"})

OBJECTS = ("objects", "annotations")
"""Usual names of what has the objects in an image, of their boxes, and of their classes."""

BOXES = ("bbox", "bboxes", "box", "boxes")
CLASSES = (
    "category",
    "categories",
    "label",
    "labels",
    "category_name",
    "class",
    "category_id",
    "name",
)


@dataclass(frozen=True, slots=True)
class Member:
    """One image inside a file."""

    name: str  # its address below the file, such as ``cat/1.jpg``
    # Its class as written; None if the file does not say it, so that its folder does.
    label: str | None = None
    fault: str = ""  # why it is left out; empty for an image


@dataclass(frozen=True, slots=True)
class ImageObjects:
    """One image inside a file, with its objects as they are written."""

    name: str  # its address below the file
    boxes: Sequence[tuple[str, Sequence[Any]]] = ()  # class and four numbers of each object
    # Width and height of the image, None if they are not stated.
    size: tuple[Any, Any] = (None, None)
    fault: str = ""  # why it is left out


@dataclass(frozen=True, slots=True)
class ImageLabels:
    """One image inside a file, with all its labels."""

    name: str  # its address below the file
    labels: tuple[str, ...] = ()


@runtime_checkable
class LabelSetArchive(Protocol):
    """A file that holds images with lists of labels."""

    def list_label_sets(self) -> Iterator[ImageLabels]:
        """Yield the images in their order in the file; nothing if it has no lists of labels."""


@runtime_checkable
class BoxedArchive(Protocol):
    """A file that holds images with boxes: edges as COCO has them, or two corners."""

    def list_objects(self) -> Iterator[ImageObjects]:
        """Yield the images in their order in the file; UsageError if it has no objects."""


class Archive(Protocol):
    """A file that holds images: a zip of folders, a shard, a table.

    To add a kind, write a class in a module of this folder, and add a line to ``SOURCES``. Its
    constructor takes the path, and raises UsageError if the file cannot be read as its kind.
    Nothing is ever unpacked.
    """

    def list_members(self) -> Iterator[Member]:
        """Yield the images in their order in the file; one that cannot be read has a fault."""

    def read_member(self, name: str) -> bytes:
        """Return the bytes of one image by its address below the file.

        Threads may read at the same time. Raises OSError or ValueError if there is no such image,
        it is damaged, or it is larger than :data:`MAX_IMAGE_BYTES`.
        """


@runtime_checkable
class FolderArchive(Protocol):
    """A file that holds folders of files, as a zip or tar file does."""

    def system_folders(self) -> Collection[str]:
        """Return the names of the folders of operating systems in it, which are not read."""

    def inner_archives(self) -> Sequence[str]:
        """Return the names of the archives in it, which are not read."""


def name_fault(name: str) -> str:
    """Return why a name inside an archive is not used; empty if it is a path below the archive."""
    # A backslash separates folders on Windows, so a name with one may lead elsewhere there.
    is_odd = not name or "\0" in name or "\\" in name
    if is_odd or name.startswith("/") or ".." in PurePosixPath(name).parts:
        return "its name leads out of the archive"
    return ""


def is_hidden(name: str) -> bool:
    """Return whether a part of a path is hidden, or one that an operating system made."""
    return any(is_system_name(part) and part != ".." for part in PurePosixPath(name).parts)


def find_system_folder(name: str) -> str:
    """Return the system folder that a file inside an archive is in; empty for none.

    A hidden folder counts if it directly holds an image.
    """
    *folders, file = PurePosixPath(name).parts
    for folder in folders:
        if not is_system_name(folder):
            continue
        holds_image = folder == folders[-1] and is_image_name(file)
        if holds_image or not folder.startswith("."):
            return folder
    return ""


def is_archive_name(name: str) -> bool:
    """Return whether a file has the name of an archive."""
    return PurePosixPath(name).suffix.casefold() in ARCHIVE_SUFFIXES


def normalise_name(name: str) -> str:
    """Return a name as a path has it: without ``./`` and repeated slashes."""
    return str(PurePosixPath(name))


def find_repeated_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names that occur more than once: which of the files is meant, nothing says."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def within_limit(size: int) -> int:
    """Return a size in bytes; ValueError if it is above :data:`MAX_IMAGE_BYTES`, or zero."""
    if size > MAX_IMAGE_BYTES:
        raise ContentError(
            f"the image has {size / 1e6:.0f} MB, above the limit of {MAX_IMAGE_BYTES / 1e6:.0f} MB"
        )
    if size == 0:
        raise ContentError("the image is empty")
    return size


def read_objects(written: Any, names: Sequence[str] = ()) -> list[tuple[str, Sequence[Any]]]:
    """Return class and edges of a list of objects, or of one object of lists.

    Numbers of classes get their ``names``; what is missing is empty, and the readers of boxes say
    so.
    """
    pairs: list[tuple[Any, Any]] = []
    if isinstance(written, Mapping):
        pairs += zip_longest(
            _find_first(written, BOXES) or (), _find_first(written, CLASSES) or ()
        )
    elif isinstance(written, list):
        for entry in written:
            if isinstance(entry, Mapping):
                pairs.append((_find_first(entry, BOXES), _find_first(entry, CLASSES)))
    objects: list[tuple[str, Sequence[Any]]] = []
    for edges, label in pairs:
        readable = edges if isinstance(edges, list | tuple) else ()
        objects.append((name_class(label, names), readable))
    return objects


def _find_first(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((row[key] for key in keys if row.get(key) is not None), None)


def name_class(value: object, names: Sequence[str]) -> str:
    """Return the name of a class by its number, or as written; empty for none, or below 0."""
    if value is None or (isinstance(value, int) and value < 0):
        return ""
    if not names or not isinstance(value, int):
        return str(value).strip()
    if value < len(names):
        return names[value]
    return ""


def refuse_file(file: Path, kind: str, error: Exception, hint: str = "") -> UsageError:
    """Return the error of a file that cannot be read as its kind."""
    what = f"--data: '{file}' cannot be read as {kind}: {explain_error(error)}"
    return UsageError(what, hint or "fetch or write the file again")
