"""List what is in the cache: results of stages, which can be computed again, and downloads.

The names of folders and the form of names of results are those of caches on the disks of users;
what has another name is no entry, and is never removed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RESULTS = "artifacts"
"""The folder of results, which can be computed again."""

DOWNLOADS = (
    "weights",
    "packages",
    "runtimes",
    "shipped",
    "partial",
    "catalogues",
    "predictors",
    "runs",
)
"""The folders of what may not come back without a network, and two small indexes."""

# Suffixes of a result, of its checkpoints and of its hashes.
PARTS_OF_RESULT = ("", ".checkpoints", ".sha256")
# A folder of results: the name of a stage and its version.
_STAGE = re.compile(r"[a-z][a-z_]*-\d+")
_RESULT = re.compile(r"[0-9a-f]{64}")  # A result: the hash of its inputs


@dataclass(frozen=True)
class CacheEntry:
    """A result with its checkpoints, or a download."""

    key: str  # path below the cache
    kind: str  # stage of a result, or folder of a download
    size_bytes: int
    used_s: float  # when it was last used, in seconds since 1970


def list_entries(root: Path) -> tuple[CacheEntry, ...]:
    """Return everything in the cache at ``root`` but locks and small records, in no order.

    What the cache did not name itself is no entry, and neither is what a link leads to.
    """
    entries = []
    for stage in list_folder(root / RESULTS):
        if stage.is_symlink() or not _STAGE.fullmatch(stage.name):
            continue
        parts: dict[str, list[Path]] = defaultdict(list)
        for path in list_folder(stage):
            name, _, suffix = path.name.partition(".")
            if _RESULT.fullmatch(name) and (not suffix or f".{suffix}" in PARTS_OF_RESULT):
                parts[name].append(path)
        kind = stage.name.rpartition("-")[0] or stage.name
        for name, paths in parts.items():
            entries.append(_describe_entry(f"{RESULTS}/{stage.name}/{name}", kind, paths))
    for kind in DOWNLOADS:
        if (root / kind).is_symlink():
            continue
        for path in list_folder(root / kind):
            if path.suffix != ".lock" and not path.name.startswith("."):
                entries.append(_describe_entry(f"{kind}/{path.name}", kind, [path]))
    return tuple(entries)


def list_folder(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is not there."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _describe_entry(key: str, kind: str, paths: Iterable[Path]) -> CacheEntry:
    sizes = [0]
    used = [0.0]
    for path in paths:
        with contextlib.suppress(OSError):  # removed meanwhile
            # Only the result is touched when it is used, and not its hashes.
            used_at = 0.0 if path.suffix == ".sha256" else path.lstat().st_mtime
            used.append(used_at)
            sizes += [path.lstat().st_size] if path.is_file() else _list_sizes(path)
    return CacheEntry(key, kind, sum(sizes), max(used))


def _list_sizes(folder: str | Path) -> list[int]:
    """Return the size of each file and folder below a folder.

    A cache has thousands of files, and ``rglob`` takes twice as long.
    """
    sizes = []
    with os.scandir(folder) as entries:
        for entry in entries:
            sizes.append(entry.stat(follow_symlinks=False).st_size)
            if entry.is_dir(follow_symlinks=False):
                sizes += _list_sizes(entry.path)
    return sizes


def sum_bytes(entries: Iterable[CacheEntry]) -> int:
    """Return the size of some entries in bytes."""
    return sum(entry.size_bytes for entry in entries)
