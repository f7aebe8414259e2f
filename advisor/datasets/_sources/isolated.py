"""Open files that native code reads in a child process, so that a damaged one ends only the child.

Arrow, Parquet and protocol buffers are read by native libraries. A damaged file can crash them,
and a small one can name values that take gigabytes. A process that is a child already reads
directly: it has limits of its own. The child finds functions by their names, ``module:function``:
those below "What follows runs in the child" must keep them.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from advisor.core import ContentError, StageError, UsageError
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.base import (
    Archive,
    BoxedArchive,
    ImageLabels,
    ImageObjects,
    LabelSetArchive,
    Member,
    refuse_file,
)
from advisor.isolation import IN_CHILD

LONGEST_LABEL = 1001  # Characters of a label that are passed on: one more than a label may have
# Memory of the child: two row groups of a table, decoded, and what is made of them.
MOST_BYTES = 4_000_000_000
# Seconds in which a file is opened and listed, and one image is read.
LISTED_S = 600.0
READ_S = 60.0

_PACKAGE = __name__.rpartition(".")[0]
_KINDS = {
    "Parquet": "tables:ParquetTable",
    "Arrow": "tables:ArrowTable",
    "TFRecord": "records:RecordFile",
}
_OPEN = 64  # Files that the child keeps open


class NativeReader:
    """The child process that reads files for all threads of this one, one call at a time."""

    def __init__(self) -> None:
        # A process that is a child needs none.
        from advisor.isolation import ChildPool

        self._children = ChildPool(Path(os.devnull), most_bytes=MOST_BYTES)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self._stop)

    def _stop(self) -> None:
        if os.getpid() == self._owner:  # and no fork of it
            self._children.close()

    def call(self, function: str, *arguments: object, limit_s: float = LISTED_S) -> Any:
        """Call ``module:function`` of this folder; StageError if the child crashed."""
        from advisor.isolation import CallLimits

        limits = CallLimits(limit_s, MOST_BYTES)
        # The child outlives a change of the folder that paths count from.
        values = (str(Path.cwd()), function, arguments)
        with self._lock:
            return self._children.call(f"{__name__}:call_in_folder", *values, limits=limits)


def native_reader() -> NativeReader:
    """Return the reader of this process; its child starts at the first call."""
    return _reader_of(os.getpid())


@cache
def _reader_of(_process: int) -> NativeReader:
    return NativeReader()


def choose_opener(kind: str) -> Callable[[Path], Archive]:
    """Return the function that opens a file of a kind, in a child process if this is none."""

    def open_file(file: Path) -> Archive:
        return _open(file, kind) if os.environ.get(IN_CHILD) else IsolatedArchive(file, kind)

    return open_file


class IsolatedArchive:
    """A file that a child process reads. A file that ended the child is given up."""

    def __init__(self, file: Path, kind: str) -> None:
        self._file = file
        self._kind = kind
        self._fault = ""
        self._ask_reader("isolated:open_archive")

    def list_members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`."""
        yield from self._ask_reader("isolated:list_members")

    def list_objects(self) -> Iterator[ImageObjects]:
        """See :class:`.base.BoxedArchive`."""
        yield from self._ask_reader("isolated:list_objects")

    def list_label_sets(self) -> Iterator[ImageLabels]:
        """See :class:`.base.LabelSetArchive`."""
        yield from self._ask_reader("isolated:list_label_sets")

    def read_member(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        if self._fault:
            raise ContentError(self._fault)
        try:
            content = native_reader().call(
                "isolated:read_member", self._file, self._kind, name, limit_s=READ_S
            )
        # Each further image of the file would end another child,
        # and a set can have a million of them.
        except StageError as error:
            self._fault = f"damaged: the reader of '{self._file.name}' {error.message}"
            raise ContentError(self._fault) from None
        if isinstance(content, str):
            raise ContentError(content)
        return bytes(content)

    def _ask_reader(self, function: str) -> Any:
        return read_natively(self._file, self._kind, function, self._kind)


def read_natively(file: Path, kind: str, function: str, *arguments: object) -> Any:
    """Call ``module:function`` of this folder with a file, in the child or here if this is one.

    Raises UsageError if it is no regular file, if the child crashed or exceeded a limit, and what
    the function raises.
    """
    if not file.is_file():  # a pipe would never end
        raise refuse_file(file, kind, ContentError("it is no regular file"))
    if os.environ.get(IN_CHILD):
        return _call_here(function, (file, *arguments))
    try:
        return native_reader().call(function, file, *arguments)
    except StageError as error:
        raise refuse_file(file, kind, ContentError(f"its reader {error.message}")) from None


def holds_images(file: Path) -> bool:
    """Return whether a Parquet file has the bytes of images; False without pyarrow."""
    if os.environ.get(IN_CHILD):
        return bool(_call_here("tables:has_image_column", (file,)))
    try:
        return bool(native_reader().call("tables:has_image_column", file))
    except StageError:  # the reader of manifests says what is wrong
        return False


def _open(file: Path, kind: str) -> Archive:
    archive: Archive = _call_here(_KINDS[kind], (file,))
    return archive


def _call_here(function: str, arguments: Sequence[object]) -> Any:
    module, _, name = function.partition(":")
    return getattr(import_module(f"{_PACKAGE}.{module}"), name)(*arguments)


# What follows runs in the child.


def call_in_folder(folder: str, function: str, arguments: Sequence[object]) -> Any:
    """Call ``module:function`` of this folder, with paths that count from another folder."""
    os.chdir(folder)
    return _call_here(function, arguments)


@lru_cache(maxsize=_OPEN)
def _open_once(kind: str, file: Path, _changed_ns: int) -> Archive:
    return _open(file, kind)


def open_archive(file: Path, kind: str) -> None:
    """Open a file; UsageError if it cannot be read as its kind."""
    _find_archive(file, kind)


def list_members(file: Path, kind: str) -> Sequence[Member]:
    """Return the images of a file; labels that are too long are cut."""
    labels: dict[str, str] = {}
    members = []
    for member in _find_archive(file, kind).list_members():
        if member.label is None:
            members.append(member)
            continue
        label = member.label[:LONGEST_LABEL]
        # One object for equal labels: a message to another process has it once.
        members.append(replace(member, label=labels.setdefault(label, label)))
    return members


def list_objects(file: Path, kind: str) -> Sequence[ImageObjects]:
    """Return the images of a file with their objects."""
    archive = _find_archive(file, kind)
    return list(archive.list_objects()) if isinstance(archive, BoxedArchive) else []


def list_label_sets(file: Path, kind: str) -> Sequence[ImageLabels]:
    """Return the images of a file with their labels; labels that are too long are cut."""
    archive = _find_archive(file, kind)
    if not isinstance(archive, LabelSetArchive):
        return []
    images = []
    for image in archive.list_label_sets():
        labels = tuple(label[:LONGEST_LABEL] for label in image.labels)
        images.append(ImageLabels(image.name, labels))
    return images


def read_member(file: Path, kind: str, name: str) -> bytes | str:
    """Return the bytes of an image, or why they cannot be had."""
    # Returned and not raised: one damaged image is left out,
    # while an error would give up the whole file.
    try:
        return _find_archive(file, kind).read_member(name)
    except UsageError as error:
        return error.message
    except (OSError, ValueError) as error:
        return explain_error(error)


def _find_archive(file: Path, kind: str) -> Archive:
    try:
        changed_ns = file.stat().st_mtime_ns
    except OSError as error:
        raise refuse_file(file, kind, error) from None
    return _open_once(kind, file, changed_ns)
