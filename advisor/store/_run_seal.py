"""Read and make the seal of a run: the hashes of its files, in its manifest.

``RunFolder`` writes it with the manifest, and ``_run_integrity.py`` compares it. How a hash is
computed must stay: runs on the disks of users have theirs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.core import UsageError, parse
from advisor.store._files import sha256_json
from advisor.store._jsonfile import read_json

SEAL = "seal"


@dataclass(frozen=True)
class Seal:
    """The hashes that a manifest states of a run's other files.

    While a search runs, these may be newer.
    """

    lines: int = 0  # number of lines of the evaluations that have a hash
    head: str = ""  # hash of the last of them
    files: Mapping[str, str] = field(default_factory=dict)  # hash of each other file by its path
    hash: str = ""  # hash of the manifest without this entry; empty if there is no seal
    whole: bool = True  # the manifest has this hash


def with_hash(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the hash of its other content in its seal."""
    document: dict[str, Any] = json.loads(json.dumps(manifest))
    document[SEAL].pop("hash", None)
    document[SEAL]["hash"] = sha256_json(document)
    return document


def read_seal(manifest: Path) -> Seal:
    """Return the seal of a manifest; an empty one if it has none, or is missing or damaged."""
    with contextlib.suppress(UsageError, LookupError, TypeError, ValueError, AttributeError):
        document: Any = read_json(manifest)
        if with_hash(document)[SEAL] != document[SEAL]:
            return Seal(hash=str(document[SEAL]), whole=False)
        seal: Seal = parse(Seal, document[SEAL])
        return seal
    return Seal()
