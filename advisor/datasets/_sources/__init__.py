"""Find and open images inside other files, which are never unpacked.

The address of such an image is a path that goes on behind the file: ``photos.zip/cat/1.jpg``. So
every room keeps a path, in this process and in others, and only the code that opens a path asks
here. To add a kind of file, write a class as :class:`.base.Archive` says, and add a line to
:data:`SOURCES`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from advisor.datasets._sources.base import Archive
from advisor.datasets._sources.isolated import choose_opener, holds_images
from advisor.datasets._sources.shards import Shard
from advisor.datasets._sources.zipped import ZipFile

__all__ = [
    "SOURCES",
    "Address",
    "Stamp",
    "address_of",
    "find_kind",
    "holds_images",
    "open_source",
    "read_stamp",
]

SOURCES: Mapping[str, Callable[[Path], Archive]] = MappingProxyType(
    {
        ".zip": ZipFile,
        ".tar": Shard,
        ".tfrecord": choose_opener("TFRecord"),
        ".array_record": choose_opener("TFRecord"),
        ".arrow": choose_opener("Arrow"),
        ".parquet": choose_opener("Parquet"),
        ".pq": choose_opener("Parquet"),
    }
)
"""The reader of each kind of file, by its extension."""

# In the path of an image in a file.
_INSIDE = re.compile(rf"({'|'.join(map(re.escape, SOURCES))})(-\d+-of-\d+)?/")
_SHARD = re.compile(r"-\d+-of-\d+$")
Stamp = tuple[int, int]  # Size in bytes and time of change in ns
# Files that a process keeps open;
# the headers of a shard of 10,000 images take 0.1 s to read again.
_OPEN = 256


@dataclass(frozen=True)
class Address:
    """The place of an image inside a file."""

    file: Path
    name: str
    stamp: Stamp  # of the file

    @property
    def archive(self) -> Archive:
        """The file, opened once in a process as long as it does not change."""
        return _open_once(self.file, self.stamp)

    def read(self) -> bytes:
        """Return the bytes of the image.

        Raises what :meth:`.base.Archive.read_member` raises, and UsageError.
        """
        return self.archive.read_member(self.name)


def address_of(path: Path) -> Address | None:
    """Return where a path leads that goes on behind a file; None for the path of a file or folder.

    Raises OSError if the file cannot be looked at.
    """
    if not _INSIDE.search(str(path).lower()):
        return None
    for file in path.parents:
        if find_kind(file) in SOURCES and file.is_file():
            return Address(file, path.relative_to(file).as_posix(), read_stamp(file))
    return None


def find_kind(file: Path) -> str:
    """Return the extension of a file in lower case, without the number of a shard."""
    return _SHARD.sub("", file.suffix.lower())


def open_source(file: Path) -> Archive:
    """Return a file with images, opened; UsageError if it is not as its extension says."""
    try:
        return _open_once(file, read_stamp(file))
    except OSError:
        return SOURCES[find_kind(file)](file)  # it says what is wrong


def read_stamp(path: Path) -> Stamp:
    """Return the size and the time of change of a file; OSError if it is missing."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@lru_cache(maxsize=_OPEN)
def _open_once(file: Path, _stamp: Stamp) -> Archive:
    return SOURCES[find_kind(file)](file)
