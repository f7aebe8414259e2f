"""Keep the cache within a limit: remove the results that nobody has used for longest.

``ArtifactCache`` evicts before, during and after a search, and ``advisor cache clean`` on request.
An eviction reads the records of ``_cache_uses.py`` under one lock, and renames what goes under the
same lock. So a result is either found by its user and stays, or it is gone and is made again.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.core import plural, show_bytes, units
from advisor.store._cache_entries import (
    DOWNLOADS,
    PARTS_OF_RESULT,
    RESULTS,
    CacheEntry,
    list_entries,
    list_folder,
    sum_bytes,
)
from advisor.store._cache_uses import (
    Lease,
    find_folder_of_uses,
    lock_cache,
    read_uses,
)

MOST_BYTES = 20_000_000_000
_DISK_SHARE = 10  # The default limit is at most this part of the disk
_GOING = ".going-"  # Begin of the name of a result that an eviction removes

_log = logging.getLogger(__name__)


def limit_bytes(root: Path, size: int | None = None) -> int:
    """Return the limit of the cache in bytes: ``size``, ``$ADVISOR_CACHE_SIZE``, or the default.

    The default is 20 GB, or a tenth of the disk if this is less. UsageError if the environment
    variable is no size.
    """
    if size is not None:
        return size
    text = os.environ.get("ADVISOR_CACHE_SIZE")
    if text:
        return units.size_bytes(text, "ADVISOR_CACHE_SIZE")
    return min(MOST_BYTES, shutil.disk_usage(root).total // _DISK_SHARE)


@dataclass(frozen=True)
class Evicted:
    """The outcome of an eviction."""

    count: int  # entries removed
    size_bytes: int  # their size
    left_bytes: int  # size of the cache afterwards
    held_bytes: int  # of it, results of running searches and kept runs
    limit_bytes: int

    @property
    def sentence(self) -> str:
        """The entries that were removed, and why the cache still exceeds its limit if it does."""
        done = f"removed {plural(self.count, 'entry', 'entries')} ({show_bytes(self.size_bytes)})"
        text = f"{done}; the cache has {show_bytes(self.left_bytes)}"
        if self.left_bytes <= self.limit_bytes:
            return text
        held = (
            f"running searches and kept runs hold {show_bytes(self.held_bytes)}, the rest are"
            " downloads"
        )
        return f"{text}, more than its limit of {show_bytes(self.limit_bytes)}: {held}"


def evict_results(root: Path, most_bytes: int, kinds: Iterable[str] = ()) -> Evicted:
    """Remove the least recently used results until the cache has at most ``most_bytes``.

    Results that a running process or a kept run uses stay. With ``kinds``, only these go, all of
    them, downloads too if nothing runs. A process that is killed here leaves renamed folders,
    which the next eviction removes.
    """
    _sweep_remainders(root)
    wanted = set(kinds)
    renamed = list[Path]()
    find_folder_of_uses(root).mkdir(parents=True, exist_ok=True)
    count = 0
    freed_bytes = 0
    with lock_cache(root):
        uses = read_uses(root)
        entries = list_entries(root)
        is_running = any(use.live for use in uses)
        held_keys: set[str] = set()
        for use in uses:
            if use.live or use.kept:
                held_keys |= use.keys
        left_bytes = sum_bytes(entries)
        for entry in sorted(entries, key=lambda entry: (entry.used_s, entry.key)):
            is_result = entry.key.startswith(f"{RESULTS}/")
            goes = is_result and left_bytes > most_bytes
            # Of downloads, nothing records which of them a running search still reads.
            if wanted:
                goes = entry.kind in wanted and (is_result or not is_running)
            if not goes or entry.key in held_keys:
                continue
            parts = _set_aside(root / entry.key)
            # Another user's file cannot be renamed, so it stays.
            if parts:
                renamed += parts
                count += 1
                freed_bytes += entry.size_bytes
                left_bytes -= entry.size_bytes
    # Outside of the lock: what was renamed cannot be found, and a large folder takes seconds.
    for path in renamed:
        _remove(path)
    held_bytes = sum_bytes(entry for entry in entries if entry.key in held_keys)
    return Evicted(count, freed_bytes, left_bytes, held_bytes, most_bytes)


def _set_aside(place: Path) -> list[Path]:
    """Rename the parts of an entry, the result first, and return the new paths.

    Without the result, its checkpoints and hashes are found by nobody.
    """
    renamed = []
    for suffix in PARTS_OF_RESULT:
        part = Path(f"{place}{suffix}")
        target = place.with_name(f"{_GOING}{place.name}-{os.urandom(4).hex()}{suffix}")
        with contextlib.suppress(OSError):  # there is no such part, or it is another user's
            part.rename(target)
            renamed.append(target)
    return renamed


def _sweep_remainders(root: Path) -> None:
    """Remove the renamed entries of evictions that were killed, or that met an error."""
    folders = [*list_folder(root / RESULTS), *(root / kind for kind in DOWNLOADS)]
    for folder in folders:
        # What a link leads to is no part of the cache.
        if not folder.is_symlink():
            for remainder in folder.glob(f"{_GOING}*"):
                _remove(remainder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def warn_if_too_small(entries: Iterable[CacheEntry], hold: Lease, most_bytes: int) -> None:
    """Warn if the limit is too small for the same command to find all its results again."""
    needed = 0
    for entry in entries:
        is_download = not entry.key.startswith(f"{RESULTS}/")
        if is_download or entry.key in hold.keys:
            needed += entry.size_bytes
    if needed > most_bytes:
        _log.warning(
            "this command needs %s of the cache, downloads included, and the limit is %s: some of"
            " its results go, and the next one computes them again; set --cache-size to %s or"
            " more",
            show_bytes(needed),
            show_bytes(most_bytes),
            show_bytes(needed),
        )
