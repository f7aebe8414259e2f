"""Check files by their hash: SHA-256, or another one that their authors published."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.catalog.cards import MemberFile
from advisor.store.files import sha256_file


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
