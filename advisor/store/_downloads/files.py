"""Describe files to fetch and check them by their hash; find them in a mirror and in the cache.

The catalogue describes its weights with a :class:`WeightSource`, and asks :class:`Mirror` and
:class:`DownloadCache` before any origin. The cache records the SHA-256 of files whose cards have
another hash, and checks later downloads against it. The folders of cache and mirror are those on
the disks of users: their names must stay.
"""

import hashlib
import logging
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from advisor.core import UsageError, WeightsFile, without_password
from advisor.store._cache import cache_root
from advisor.store._files import sha256_file, write_atomically
from advisor.store._yamlfile import read_text

_log = logging.getLogger(__name__)

SourceKind = Literal["url", "huggingface", "pypi", "npm", "file"]

#: Called as ``progress(file name, bytes so far, bytes in all or None)``.
Progress = Callable[[str, int, int | None], None]

_MIRRORS = "a mirror is a folder, a file or an http(s) URL"


@dataclass(frozen=True, slots=True)
class MemberFile:
    """One file of weights and its hash.

    If a source publishes no SHA-256, another hash is used, or that of the archive. The SHA-256 is
    then recorded when the file first arrives, and later copies must have it. A file with no hash
    is never downloaded: only a user's own copy is used.
    """

    path: str  #: its path inside an archive, or the plain file name
    sha256: str = ""  #: its hash
    size_bytes: int | None = None  #: its size, None if it is not known
    sha384: str = ""  #: its SHA-384, as strong as SHA-256
    #: the first digits of the hash, as PyTorch writes them into file names;
    #: detects damage, not forgery.
    sha256_prefix: str = ""
    md5: str = ""  #: its MD5; detects damage, not forgery
    archive: str = ""  #: hash of the archive it comes in

    @property
    def name(self) -> str:
        """The base name, as in a mirror folder."""
        return PurePosixPath(self.path).name

    @property
    def checkable(self) -> bool:
        """True if the file has its own hash, so that it can be checked without its archive."""
        return bool(self.sha256 or self.sha384 or self.sha256_prefix or self.md5)

    @property
    def strong(self) -> bool:
        """True if its hash is a secure one, so that it cannot be forged."""
        return bool(self.sha256 or self.sha384)

    @property
    def key(self) -> str:
        """The file's hash as a file name; empty if it has none."""
        if self.sha256:
            return self.sha256
        for kind in ("sha384", "sha256_prefix", "md5"):
            if getattr(self, kind):
                return f"{kind}-{getattr(self, kind)}"
        return f"{self.archive}-{self.name}" if self.archive else ""


@dataclass(frozen=True, slots=True)
class WeightSource:
    """One place that holds the card's weights, and how they are read."""

    kind: SourceKind  #: kind of place
    #: how the file is read, one of ``FORMATS`` of :mod:`advisor.catalog._weights.readers`
    format: str
    port: str  #: the rule that puts the tensors into the Keras graph
    file: MemberFile  #: the file of weights
    #: further files that the reader needs beside the first
    companions: tuple[MemberFile, ...] = ()
    url: str = ""  #: an address
    package: str = ""  #: name of a package, or of a Hugging Face repository
    version: str = ""  #: its version, or its revision
    archive: str = ""  #: name of the package's file; ``archive_sha256`` picks it, too
    archive_sha256: str = ""  #: hash of the package's file
    archive_sha384: str = ""  #: its SHA-384
    licence: str = ""  #: licence of the weights, if it is not that of the card

    @property
    def members(self) -> tuple[MemberFile, ...]:
        """Every file of the source, the first one first."""
        return (self.file, *self.companions)

    @property
    def package_file(self) -> MemberFile:
        """The archive as a file, described by the weights that it is fetched for."""
        return MemberFile(self.file.name, self.archive_sha256, sha384=self.archive_sha384)

    @property
    def label(self) -> str:
        """The source in a few words, for tables and errors."""
        if self.kind in ("url", "file"):
            return without_password(self.url) or self.file.path
        return f"{self.kind}:{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The options of a fetch; ADVISOR_MIRROR and ADVISOR_CACHE_DIR stand in for None."""

    offline: bool = False  # opens no socket
    mirror: Path | str | None = None  # a folder, a file or an http(s) URL of the user's
    cache: Path | None = None  # the root of the cache
    progress: Progress | None = None  # called as bytes arrive
    ends_at: float = math.inf  # seconds of the monotonic clock at which downloads end

    @property
    def cache_root(self) -> Path:
        """The folder that holds every cached file."""
        if self.cache is None:
            return cache_root()
        return Path(self.cache)

    @property
    def mirror_url(self) -> str | None:
        """The mirror, if it is an http(s) URL; UsageError if no server can have this address."""
        text = self._mirror_text()
        try:
            if text and urlsplit(text).scheme in ("http", "https"):
                return text.rstrip("/")
            return None
        except ValueError as error:
            raise UsageError(
                f"the mirror '{without_password(text or '')}' is not a valid address ({error})",
                _MIRRORS,
            ) from error

    @property
    def mirror_path(self) -> Path | None:
        """The mirror, where it is a folder or a file (``UsageError``: it does not exist)."""
        text = self._mirror_text()
        if not text or self.mirror_url is not None:
            return None
        path = Path(os.path.expanduser(text.removeprefix("file://")))  # noqa: PTH111 -- an unknown user is no error
        if not path.exists():
            shown = without_password(text)
            raise UsageError(f"the mirror '{shown}' does not exist", _MIRRORS)
        return path

    def report(self, name: str, done: int, total: int | None) -> None:
        """Tell the listener, if there is one, how far a file is."""
        if self.progress is not None:
            self.progress(name, done, total)

    def _mirror_text(self) -> str | None:
        if self.mirror:
            return str(self.mirror)
        return os.environ.get("ADVISOR_MIRROR")


class Unavailable(Exception):
    """A source does not have the weights; the message says why, and the next source is tried."""


class HashMismatch(Unavailable):
    """A file that is not the one on the card; it is not used."""

    def __init__(self, what: str, expected: str, actual: str, kind: str = "sha256") -> None:
        super().__init__(f"{what} has {kind} {actual}, expected {expected}")


def check_hash(path: Path, member: MemberFile, what: str) -> str:
    """Return a file's SHA-256; HashMismatch if a hash or prefix of the card is another one.

    ``what`` names the file in the error.
    """
    sha256 = sha256_file(path)
    if member.sha256 and sha256 != member.sha256:
        raise HashMismatch(what, member.sha256, sha256)
    if not sha256.startswith(member.sha256_prefix):
        raise HashMismatch(what, f"one that begins with {member.sha256_prefix}", sha256)
    for kind, expected in (("sha384", member.sha384), ("md5", member.md5)):
        if expected:
            # Machines that forbid MD5 for security still allow it to detect a damaged file.
            with path.open("rb") as stream:
                digest = hashlib.file_digest(
                    stream, partial(hashlib.new, kind, usedforsecurity=False)
                ).hexdigest()
            if digest != expected:
                raise HashMismatch(what, expected, digest, kind)
    return sha256


@contextmanager
def lock_file(lock: Path, ends_at: float) -> Iterator[None]:
    """Hold a lock in the block; ``Unavailable`` if another process has it until ``ends_at``.

    ``ends_at`` is in seconds of the monotonic clock.
    """
    file_lock = FileLock(lock)
    try:
        timeout = -1 if ends_at == math.inf else max(0.0, ends_at - time.monotonic())
        file_lock.acquire(timeout=timeout)
    except Timeout:
        raise Unavailable("another process still fetches it") from None
    try:
        yield
    finally:
        file_lock.release()


class Mirror:
    """A user's folder (files named by hash, by their own name, or a copied cache) or one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, source: WeightSource) -> WeightsFile | None:
        """Return the source's file, checked with its companions beside it; None for no file."""
        path = self._locate(source.file)
        if path is None:
            return None
        sha256 = check_hash(path, source.file, str(path))
        for member in source.companions:
            beside = path.parent / member.name
            if not beside.is_file():
                raise Unavailable(
                    f"{path.parent} lacks {member.name}, which belongs to {path.name}"
                )
            check_hash(beside, member, str(beside))
        return WeightsFile(
            path, sha256, f"mirror {self._path}", source.file.path, source.format, source.port
        )

    def archive(self, source: WeightSource) -> Path | None:
        """Return the archive that holds the source's file, where the mirror has it by its name."""
        path = self._path if self._path.is_file() else self._path / source.archive
        if source.archive and path.name == source.archive and path.is_file():
            return path
        return None

    def holds(self, source: WeightSource) -> bool:
        """Return whether the mirror has a file of the source's name, whatever its hash."""
        return self._locate(source.file) is not None

    def _locate(self, member: MemberFile) -> Path | None:
        if self._path.is_file():
            if self._path.name in (member.name, member.sha256):
                return self._path
            return None
        inside = [member.name]
        sha256 = _add_known_hash(self._path, member).sha256
        if sha256:
            inside += [sha256, f"{sha256}/{member.name}", f"weights/{sha256}/{member.name}"]
        return next((self._path / name for name in inside if (self._path / name).is_file()), None)


class DownloadCache:
    """The folder ``<root>/weights/<sha256>/<name>``; each file is written as a whole."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, source: WeightSource) -> WeightsFile | None:
        """Return the source's file, checked again, or None.

        A damaged file is ignored with a warning.
        """
        folder = self._folder(source)
        if folder is None:
            return None
        paths = [folder / member.name for member in source.members]
        if not all(map(Path.is_file, paths)):
            return None
        try:
            for member, path in zip(source.members, paths, strict=True):
                check_hash(path, _add_known_hash(self._root, member), str(path))
        except HashMismatch as damaged:
            _log.warning("cached weights are damaged and not used: %s", damaged)
            return None
        return _describe_weights(source, folder, "cache")

    def holds(self, source: WeightSource) -> bool:
        """Return whether the source's file was kept here; it is checked again when it is used."""
        folder = self._folder(source)
        return folder is not None and (folder / source.file.name).is_file()

    def find_or_fill(
        self,
        source: WeightSource,
        origin: str,
        fill: Callable[[Path], None],
        ends_at: float = math.inf,
    ) -> WeightsFile:
        """Return the source's file; if it is missing, ``fill`` puts all members into a folder.

        Of two processes that need it, the second waits and finds it filled. ``origin`` is the
        place that ``fill`` gets it from, in a few words. Raises ``Unavailable`` if another process
        still fetches it at ``ends_at`` of the monotonic clock.
        """
        locks = self._root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with lock_file(locks / f"{source.file.key or source.file.name}.lock", ends_at):
            present = self.find(source)
            if present is not None:
                return present
            prefix = f"fetch-{source.file.key or source.file.name}-"
            for left in self._root.glob(f"{escape(prefix)}*"):
                shutil.rmtree(left, ignore_errors=True)  # of a killed process: the lock is ours
            with tempfile.TemporaryDirectory(dir=self._root, prefix=prefix) as folder:
                fill(Path(folder))
                return self._keep(source, Path(folder), origin)

    def _keep(self, source: WeightSource, folder: Path, origin: str) -> WeightsFile:
        """Check the files in ``folder`` and move them into the cache."""
        whats = [f"{member.path} from {origin}" for member in source.members]
        hashes = []
        for member, what in zip(source.members, whats, strict=True):
            hashes.append(check_hash(folder / member.name, member, what))
        for member, sha256, what in zip(source.members, hashes, whats, strict=True):
            known = _add_known_hash(self._root, member).sha256
            if known and known != sha256:
                raise HashMismatch(f"{what}, recorded when it first came", known, sha256)
            if not member.sha256 and member.key:
                path = _record_path(self._root, member)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, f"{sha256}\n")
        target = self._root / "weights" / hashes[0]
        target.mkdir(parents=True, exist_ok=True)
        for member in source.members:
            path = target / member.name
            if path.exists():
                # Only a file that was found damaged is in the way here: it is kept for inspection.
                path.replace(path.with_name(f"{path.name}.damaged"))
            # The folder of weights may be a link to another disk.
            # A copy that a kill cuts is found by its hash.
            shutil.move(folder / member.name, path)
        return _describe_weights(source, target, origin)

    def _folder(self, source: WeightSource) -> Path | None:
        sha256 = _add_known_hash(self._root, source.file).sha256
        return self._root / "weights" / sha256 if sha256 else None


def _describe_weights(source: WeightSource, folder: Path, origin: str) -> WeightsFile:
    """Return the source's file in its ``folder``, which is named by its hash."""
    return WeightsFile(
        folder / source.file.name,
        folder.name,
        origin,
        source.file.path,
        source.format,
        source.port,
    )


def _add_known_hash(root: Path, member: MemberFile) -> MemberFile:
    """Return a member with its SHA-256 alone if the cache recorded it; else as it is."""
    if member.sha256 or not member.key:
        return member
    try:
        recorded = read_text(_record_path(root, member)).strip()
    except UsageError:
        return member
    # A damaged record is as good as none:
    # the file is checked by what its card has, and recorded again.
    if re.fullmatch(r"[0-9a-f]{64}", recorded):
        return MemberFile(member.path, recorded)
    return member


def require_proof(url: str, member: MemberFile, root: Path) -> None:
    """Refuse a file that others on the network can forge: ``Unavailable``.

    It comes without encryption, and has no secure hash.
    """
    parts = urlsplit(url)
    is_open = parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost")
    if is_open and not _add_known_hash(root, member).strong:
        raise Unavailable(
            f"{without_password(url)}: an MD5 or a part of a hash proves nothing over http: use"
            " https, or --mirror DIR"
        )


def _record_path(root: Path, member: MemberFile) -> Path:
    """Return the file that keeps the hash which a member had when it first came."""
    return root / "weights" / "known" / member.key
