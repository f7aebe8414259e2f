"""Record the SHA-256 of files whose cards have another hash, and check later downloads against it."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.catalog.cards import MemberFile
from advisor.catalog.weights.digest import HashMismatch
from advisor.store.files import write_atomically


def fully_known(root: Path, member: MemberFile) -> MemberFile:
    """``member`` with its SHA-256, where its card or the cache at ``root`` has it; else as it is.

    Its other hashes are left out then: they say no more.
    """
    if member.sha256 or not member.key:
        return member
    try:
        found = _record(root, member).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return member
    # A damaged record is as good as none: the file is checked by what its card has, and recorded again.
    return MemberFile(member.path, found) if re.fullmatch(r"[0-9a-f]{64}", found) else member


def remember(root: Path, member: MemberFile, sha256: str, what: str) -> None:
    """Record that ``member`` has the hash ``sha256``, if its card does not say so.

    Raises:
        HashMismatch: it was recorded with another one.
    """
    known = fully_known(root, member).sha256
    if known and known != sha256:
        raise HashMismatch(f"{what}, recorded when it first came", known, sha256)
    if member.sha256 or not member.key:
        return
    path = _record(root, member)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{sha256}\n")


def _record(root: Path, member: MemberFile) -> Path:
    return root / "weights" / "known" / member.key
