"""Read a zip file of class folders, in any order and without unpacking it.

Names and sizes in the file are untrusted: a name must not lead out, and content that is far larger
than the file is refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from advisor.core import UNREADABLE_ZIP, ContentError
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources.base import (
    REPEATED,
    Member,
    find_repeated_names,
    find_system_folder,
    is_archive_name,
    is_hidden,
    name_fault,
    normalise_name,
    refuse_file,
    within_limit,
)
from advisor.store import guess_encodings

SHARED = "it shares its bytes with another file of the archive"
INFLATED = "its content is far larger than what the archive has of it (a decompression bomb?)"

# Of the size of a large file and its compressed size: Deflate reaches 1,032, BZIP2 a million.
_MOST_RATIO = 2000
_LARGE_BYTES = 16 * 2**20
_IS_UTF8 = 0x800  # Bit of the flags of a file: its name is UTF-8
_MOST_NAMES = 50  # That tell the code page of all
# The upper bits of the external attributes are the Unix type of the file:
# 0 unknown, 8 a regular file.
_FILE_TYPE_BIT = 28
_REGULAR = (0, 8)
_LOCAL_HEADER_BYTES = 30  # Without the name


class ZipFile:
    """Reads images of a zip file by their names. The directory at its end says where each is."""

    def __init__(self, file: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except UNREADABLE_ZIP as error:
            raise refuse_file(file, "a zip file", error) from None
        written = _read_names(self._zip.infolist())
        self._written = dict(zip(map(normalise_name, written), written, strict=True))
        names = list(map(normalise_name, written))
        self._infos = dict(zip(names, self._zip.infolist(), strict=True))
        self._repeated = find_repeated_names(names)
        self._shared = _find_overlapping(self._zip.infolist())

    def list_members(self) -> Iterator[Member]:
        """See :class:`.base.Archive`. Folders, links and hidden files are no images."""
        for name, info in self._infos.items():
            kind = info.external_attr >> _FILE_TYPE_BIT
            if not info.filename.endswith("/") and not is_hidden(name) and kind in _REGULAR:
                fault = name_fault(self._written[name]) or self._fault(name)
                yield Member(name, fault=fault)

    def system_folders(self) -> Collection[str]:
        """See :class:`.base.FolderArchive`."""
        return set(filter(None, map(find_system_folder, self._infos)))

    def inner_archives(self) -> Sequence[str]:
        """See :class:`.base.FolderArchive`."""
        archives = filter(is_archive_name, self._infos)
        return [name for name in archives if not is_hidden(name)]

    def _fault(self, name: str) -> str:
        """Return why the content of a file is not used; empty if it is."""
        if name in self._repeated:
            return REPEATED
        info = self._infos[name]
        if info.header_offset in self._shared:
            return SHARED
        if info.file_size > _LARGE_BYTES and info.file_size > _MOST_RATIO * info.compress_size:
            return INFLATED
        return "it is encrypted" if info.flag_bits & 1 else ""

    def read_member(self, name: str) -> bytes:
        """See :class:`.base.Archive`."""
        try:
            info = self._infos[name]
            fault = self._fault(name)
            if fault:
                raise ContentError(fault)
            size = within_limit(info.file_size)
            with self._zip.open(info) as stream:
                data = stream.read(size + 1)
        except KeyError:
            raise FileNotFoundError(f"the zip file has no '{name}'") from None
        except UNREADABLE_ZIP as error:
            raise ContentError(f"damaged: {explain_error(error)}") from None
        if len(data) != size:
            raise ContentError("damaged: its size is not the one in the directory of the zip file")
        return data


def _read_names(infos: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Return the names of the files in a zip file, with slashes between those of folders.

    A name without the flag for UTF-8 is UTF-8 all the same if its bytes are: macOS writes it so.
    Otherwise it is in a code page of DOS; Python assumes 437. If it seems to be another one, no
    class may have the wrong name: names of folders keep the bytes, as those in a tar file do.
    """
    unsure = {}
    for info in infos:
        # A field beside the name has it in UTF-8.
        with suppress(UnicodeEncodeError):
            if not info.flag_bits & _IS_UTF8 and not info.filename.isascii():
                unsure[info.filename] = info.filename.encode("cp437")
    # One program wrote all names, so those that are no UTF-8 are guessed together:
    # one alone says little.
    others = [data for data in unsure.values() if not _is_utf8(data)][:_MOST_NAMES]
    guesses = guess_encodings(others)
    are_dos = bool(guesses) and guesses[0][1] == b"\n".join(others).decode("cp437")
    names = []
    for info in infos:
        data = unsure.get(info.filename)
        name = info.filename
        # Folders name classes, and files do not:
        # a wrong letter in the name of a file alone does no harm.
        may_stay = are_dos or PurePosixPath(name).parent.as_posix().isascii()
        if data is not None and (_is_utf8(data) or not may_stay):
            name = data.decode("utf-8", "surrogateescape")
        # Some programs on Windows write backslashes.
        names.append(name.replace("\\", "/"))
    return names


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _find_overlapping(infos: Sequence[zipfile.ZipInfo]) -> frozenset[int]:
    """Return the places of files that begin before another one ends.

    In such a way a small archive can have terabytes of files.
    """
    offsets = set[int]()
    last = -1  # the place of the file that ends last
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            offsets |= {last, info.header_offset}
        own_end = (
            info.header_offset + _LOCAL_HEADER_BYTES + len(info.orig_filename) + info.compress_size
        )
        if own_end > end:
            last = info.header_offset
            end = own_end
    return frozenset(offsets)
