"""Download an address and check its files: the part that all network sources share."""

import gzip
import stat
import tarfile
import zipfile
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from filelock import FileLock

from advisor.downloads.download import MAX_DOWNLOAD_BYTES, Download, version_file
from advisor.downloads.files import FetchOptions, HashMismatch, MemberFile, Unavailable, WeightSource, check, redacted
from advisor.downloads.tool_config import package_index
from advisor.downloads.transport import Client, Transport
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


CONNECT_TIMEOUT_S = 3.0


def fetch_file(client: Client, url: str, wanted: MemberFile, target: Path, options: FetchOptions) -> None:
    """Fetch ``url`` into ``target`` and check it; an interrupted download is continued by the next call.

    Raises:
        Unavailable: the download failed, or is another file than ``wanted``.
    """
    part = options.cache_root / "partial" / wanted.key
    part.parent.mkdir(parents=True, exist_ok=True)
    # Two cards may want two members of one archive at the same time.
    with FileLock(part.with_name(f"{wanted.key}.lock")):
        _fetch_alone(client, url, wanted, part, options)
        part.replace(target)
        version_file(part).unlink(missing_ok=True)


def _fetch_alone(client: Client, url: str, wanted: MemberFile, part: Path, options: FetchOptions) -> None:
    continued = part.exists()
    most_bytes = wanted.size_bytes or MAX_DOWNLOAD_BYTES
    Download(client, url, part, partial(options.report, wanted.name), most_bytes).run()
    try:
        check(part, wanted, redacted(url))
    except HashMismatch:
        # The file is kept for inspection; the next call starts again.
        part.replace(part.with_name(f"{wanted.key}.rejected"))
        if not continued:
            raise
        _fetch_alone(client, url, wanted, part, options)


def fetch_archive(client: Client, url: str, source: WeightSource, folder: Path, options: FetchOptions) -> None:
    """Fetch the source's archive from ``url`` and put its members into ``folder``.

    Without a hash of its own the archive is only unpacked, within bounds: then every member must have one.

    Raises:
        Unavailable: the download failed, is another archive, or lacks a member.
    """
    archive = folder / "archive"
    if source.package_file.checkable:
        fetch_file(client, url, source.package_file, archive, options)
    else:
        require_hashes(source)
        Download(client, url, archive, partial(options.report, source.file.name)).run()
    unpack(archive, source, folder)
    archive.unlink()


def unpack(archive: Path, source: WeightSource, folder: Path) -> None:
    """Put the source's members of ``archive`` into ``folder``, each under its base name."""
    for member in source.members:
        extract_member(archive, member.path, folder / member.name, member.size_bytes)


def require_hashes(source: WeightSource) -> None:
    """Raise an error for files without a hash, which cannot be checked.

    Raises:
        Unavailable: the card has no hash of one of them.
    """
    for member in source.members:
        if not member.checkable:
            raise Unavailable("its hash is not known, so it is taken from a user's mirror folder only")


def refuse_offline(options: FetchOptions) -> None:
    """Raise an error if the network is not allowed.

    Raises:
        Unavailable: the user asked for no network.
    """
    if options.offline:
        raise Unavailable("not asked: offline")


def home_transport(tokens: tuple[tuple[str, str], ...] = ()) -> Transport:
    """Return how to reach any server: a proxy and a company's certificates hold for all, credentials for one alone."""
    known = package_index().transport
    return Transport(
        known.proxy,
        known.ca_file,
        known.client_cert,
        known.trusted_hosts,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        tokens=tokens,
    )


def client_for(url: str, tokens: tuple[tuple[str, str], ...] = ()) -> Client:
    """Return a client for the server of ``url``.

    Raises:
        Unavailable: the server did not answer, now or earlier in this process.
    """
    parts, transport = urlsplit(url), home_transport(tokens)
    closed = contact(f"{parts.scheme}://{parts.netloc}", transport)
    if closed:
        raise Unavailable(closed)
    return Client(transport)


@lru_cache(maxsize=256)
def contact(origin: str, transport: Transport) -> str:
    """Return why no server answers at ``origin`` (``scheme://host``); empty if one does.

    Any answer counts, an error page too. Each server is tried once in a process, so that one that is not there costs
    one short wait, not one for each file.
    """
    try:
        with Client(transport) as client, client.deadline() as deadline, client.get(origin, {}, deadline, follow=False):
            return ""
    except Unavailable as error:
        return str(error)
