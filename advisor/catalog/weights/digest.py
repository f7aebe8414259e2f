"""Files known by their SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path


class Unavailable(Exception):
    """One place does not have the weights; the message says why, and the next place is tried."""


class HashMismatch(Unavailable):
    """A file that is not the one on the card: it is not used."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what} has sha256 {found}, expected {expected}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check(path: Path, expected: str, what: str) -> str:
    """Return the file's hash.

    Raises:
        HashMismatch: it is not ``expected`` (an empty ``expected`` vouches for nothing and takes any file).
    """
    found = sha256_of(path)
    if expected and found != expected:
        raise HashMismatch(what, expected, found)
    return found
