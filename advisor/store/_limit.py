"""Keep the cache within a limit: what is in it, which runs use it, and what goes first.

Every user of results adds their keys to a record in ``uses/`` before it looks for them, and holds
the record's lock as long as it lives. An eviction reads the records under one lock, and renames
what goes under the same lock. So a result is either found by its user and stays, or it is gone and
is made again.
"""

import contextlib
import errno
import logging
import os
import re
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from advisor.core import UsageError, plural, show_bytes, units
from advisor.store._files import sha256_json, write_atomically

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

MOST_BYTES = 20_000_000_000
_DISK_SHARE = 10  # The default limit is at most this part of the disk
_GOING = ".going-"  # Begin of the name of a result that an eviction removes
_PARTS = ("", ".checkpoints", ".sha256")  # A result, its checkpoints and its hashes, by suffix
_USES = "uses"
_KEPT = ".kept"
# A folder of results: the name of a stage and its version.
_STAGE = re.compile(r"[a-z][a-z_]*-\d+")
# Who uses results, see :class:`Lease`.
_RECORD = re.compile(r"run-[0-9a-f]{16}|process-\d+-[0-9a-f]{8}")
_MOST_RECORD_BYTES = 100_000_000  # A million keys
_RESULT = re.compile(r"[0-9a-f]{64}")  # A result: the hash of its inputs

_log = logging.getLogger(__name__)


def limit_bytes(root: Path, size: int | None = None) -> int:
    """Return the limit of the cache in bytes:
    the one given, ``$ADVISOR_CACHE_SIZE``, or the default.

    The default is 20 GB, or a tenth of the disk if this is less.
    UsageError if the environment variable is no size.
    """
    if size is not None:
        return size
    text = os.environ.get("ADVISOR_CACHE_SIZE")
    if text:
        return units.size_bytes(text, "ADVISOR_CACHE_SIZE")
    return min(MOST_BYTES, shutil.disk_usage(root).total // _DISK_SHARE)


@dataclass(frozen=True)
class CacheEntry:
    """A result with its checkpoints, or a download."""

    key: str  # path below the cache
    kind: str  # stage of a result, or folder of a download
    size_bytes: int
    used_s: float  # when it was last used, in seconds since 1970


@dataclass(frozen=True)
class CacheUse:
    """The results that a run, or another process, used."""

    run: str  # folder of the run; empty for another process
    keys: frozenset[str]
    live: bool  # the process still works
    kept: bool  # the user keeps the results

    @property
    def state(self) -> str:
        """The states of the run: running, kept or gone, joined by commas;
        empty for a finished one.
        """
        words = {"running": self.live, "kept": self.kept, "gone": not Path(self.run).is_dir()}
        return ", ".join(word for word, holds in words.items() if holds)


@dataclass(frozen=True)
class Evicted:
    """What an eviction did."""

    count: int  # entries removed
    size_bytes: int  # their size
    left_bytes: int  # size of the cache afterwards
    held_bytes: int  # of it, results of running searches and kept runs
    limit_bytes: int

    @property
    def sentence(self) -> str:
        """What was removed, and why the cache is still larger than its limit if it is."""
        done = f"removed {plural(self.count, 'entry', 'entries')} ({show_bytes(self.size_bytes)})"
        text = f"{done}; the cache has {show_bytes(self.left_bytes)}"
        if self.left_bytes <= self.limit_bytes:
            return text
        held = (
            f"running searches and kept runs hold {show_bytes(self.held_bytes)}, the rest are"
            " downloads"
        )
        return f"{text}, more than its limit of {show_bytes(self.limit_bytes)}: {held}"


class Lease:
    """A record of the results that one run or process uses;
    none of them goes before :meth:`release`.
    """

    def __init__(self, root: Path, run: Path | None = None) -> None:
        self.root = root
        self.keys = set[str]()
        # The number of a process comes again after a while,
        # so random letters tell two processes apart.
        name = _record_name(run) if run else f"process-{os.getpid()}-{os.urandom(4).hex()}"
        self._file = root / _USES / name
        self._run = run
        self._mutex = threading.Lock()
        self._lock = FileLock(f"{self._file}.lock", thread_local=False)

    def add(self, key: str) -> None:
        """Record a key before its result is looked for.

        A full disk or a cache that is read only changes nothing:
        the result may then go, and is made again.
        """
        with self._mutex, contextlib.suppress(OSError, UsageError):
            if key in self.keys:
                return
            self.keys.add(key)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Under the lock of the cache: an eviction between the record
            # and its lock would see a dead process.
            with _lock_cache(self.root):
                self._lock.acquire()
                is_new = not self._file.exists()
                with self._file.open("a", encoding="utf-8") as file:
                    # The first line is the run, empty for a process without one.
                    if is_new:
                        file.write(f"{self._run.resolve() if self._run else ''}\n")
                    file.write(f"{key}\n")

    def release(self) -> None:
        """Let the results go; what a run used stays known, so that it can be kept."""
        with self._mutex, contextlib.suppress(OSError, UsageError), _lock_cache(self.root):
            self._lock.release(force=True)
            # The record of a run stays, because the user may want to keep what the run used.
            if self._run is None:
                for file in (self._file, Path(f"{self._file}.lock")):
                    file.unlink(missing_ok=True)


@cache
def hold_of_process(root: Path, _process: int) -> Lease:
    """Return the hold of a process for what belongs to no run; it ends with the process."""
    return Lease(root)


def _record_name(run: Path) -> str:
    return f"run-{sha256_json(str(run.resolve()))[:16]}"


@contextlib.contextmanager
def _lock_cache(root: Path) -> Iterator[None]:
    lock = _folder_of_uses(root) / ".lock"
    if lock.is_symlink() or lock.is_dir():
        raise UsageError(f"{lock} is no plain file: the cache locks itself with it", "remove it")
    with FileLock(lock):
        yield


def _folder_of_uses(root: Path) -> Path:
    """Return the folder of records, which may be a link to one;
    UsageError if something else has its name.
    """
    uses = root / _USES
    if os.path.lexists(uses) and not uses.is_dir():
        raise UsageError(
            f"{uses} is no folder: the cache keeps there who uses its results",
            "move it to another place",
        )
    return uses


def entries_of(root: Path) -> tuple[CacheEntry, ...]:
    """Return everything in the cache at ``root`` but locks and small records, in no order.

    What the cache did not name itself is no entry, and neither is what a link leads to:
    it is never removed.
    """
    entries = []
    for stage in _list_folder(root / RESULTS):
        if stage.is_symlink() or not _STAGE.fullmatch(stage.name):
            continue
        parts: dict[str, list[Path]] = defaultdict(list)
        for path in _list_folder(stage):
            name, _, suffix = path.name.partition(".")
            if _RESULT.fullmatch(name) and (not suffix or f".{suffix}" in _PARTS):
                parts[name].append(path)
        kind = stage.name.rpartition("-")[0] or stage.name
        for name, paths in parts.items():
            entries.append(_describe_entry(f"{RESULTS}/{stage.name}/{name}", kind, paths))
    for kind in DOWNLOADS:
        if (root / kind).is_symlink():
            continue
        for path in _list_folder(root / kind):
            if path.suffix != ".lock" and not path.name.startswith("."):
                entries.append(_describe_entry(f"{kind}/{path.name}", kind, [path]))
    return tuple(entries)


def _list_folder(folder: Path) -> list[Path]:
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
    """Return the size of each file and folder below a folder. A cache has thousands:
    ``rglob`` takes twice as long.
    """
    sizes = []
    with os.scandir(folder) as entries:
        for entry in entries:
            sizes.append(entry.stat(follow_symlinks=False).st_size)
            if entry.is_dir(follow_symlinks=False):
                sizes += _list_sizes(entry.path)
    return sizes


def uses_of(root: Path) -> tuple[CacheUse, ...]:
    """Return who uses which results;
    records of processes that ended, and of runs that are gone, are removed.

    In a cache that is read only they stay, and nothing says which processes are at work.
    """
    if not os.path.lexists(root / _USES):
        return ()
    try:
        with _lock_cache(root):
            return _read_uses(root)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return _read_uses(root, read_only=True)


def _read_uses(root: Path, read_only: bool = False) -> tuple[CacheUse, ...]:
    uses = []
    for file in _records(root):
        run, *keys = _lines(file)
        live = not read_only and _is_live(file)
        keep = file.with_suffix(_KEPT).exists()
        if live or keep or (run and os.path.isdir(run)):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            uses.append(CacheUse(run, frozenset(keys), live, keep))
            continue
        # Nobody can ask for these results by their run any more,
        # so the record would only grow the folder.
        if not read_only:
            file.unlink(missing_ok=True)
            Path(f"{file}.lock").unlink(missing_ok=True)
    return tuple(uses)


def _records(root: Path) -> list[Path]:
    """Return the records that :class:`Lease` wrote:
    their folder may be a link to one that has other files too.
    """
    records = [path for path in _list_folder(root / _USES) if _RECORD.fullmatch(path.name)]
    plain_files = [path for path in records if not path.is_symlink()]
    return [path for path in plain_files if path.is_file()]


def _lines(record: Path) -> list[str]:
    """Return the run of a record, and its keys; no run and no key if it is too large to be one."""
    if record.stat().st_size > _MOST_RECORD_BYTES:
        return [""]
    return record.read_text(encoding="utf-8", errors="replace").splitlines() or [""]


def _is_live(record: Path) -> bool:
    try:
        with FileLock(f"{record}.lock", timeout=0):
            return False
    except Timeout:
        return True


def keep_run(root: Path, run: Path, keep: bool = True) -> CacheUse:
    """Keep the results that a run used, or let them go again;
    UsageError if the cache has no record of the run.
    """
    file = root / _USES / _record_name(run)
    if not file.is_file():
        raise UsageError(
            f"the cache does not know what '{run}' used",
            "name a run that was searched with this cache (see advisor cache), or set"
            " ADVISOR_CACHE_DIR to its cache",
        )
    mark = file.with_suffix(_KEPT)
    if keep:
        write_atomically(mark, "")
    else:
        mark.unlink(missing_ok=True)
    name = str(run.resolve())
    unused = CacheUse(name, frozenset(), live=False, kept=False)
    return next((use for use in uses_of(root) if use.run == name), unused)


def evict_results(root: Path, most_bytes: int, kinds: Iterable[str] = ()) -> Evicted:
    """Remove the least recently used results until the cache has at most ``most_bytes``.

    Results that a running process or a kept run uses stay. With ``kinds``, only these go, all of
    them, downloads too if nothing runs. A process that is killed here leaves renamed folders,
    which the next eviction removes.
    """
    _sweep(root)
    wanted = set(kinds)
    renamed = list[Path]()
    _folder_of_uses(root).mkdir(parents=True, exist_ok=True)
    count = 0
    freed_bytes = 0
    with _lock_cache(root):
        users = _read_uses(root)
        entries = entries_of(root)
        is_running = any(use.live for use in users)
        held: set[str] = set()
        for use in users:
            if use.live or use.kept:
                held |= use.keys
        left_bytes = sum_bytes(entries)
        for entry in sorted(entries, key=lambda entry: (entry.used_s, entry.key)):
            is_result = entry.key.startswith(f"{RESULTS}/")
            goes = is_result and left_bytes > most_bytes
            # Of downloads, nothing records which of them a running search still reads.
            if wanted:
                goes = entry.kind in wanted and (is_result or not is_running)
            if not goes or entry.key in held:
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
    held_bytes = sum_bytes(entry for entry in entries if entry.key in held)
    return Evicted(count, freed_bytes, left_bytes, held_bytes, most_bytes)


def _set_aside(place: Path) -> list[Path]:
    """Rename the parts of an entry, the result first: without it the others say nothing.
    Return the new paths.
    """
    aside = []
    for suffix in _PARTS:
        part = Path(f"{place}{suffix}")
        there = place.with_name(f"{_GOING}{place.name}-{os.urandom(4).hex()}{suffix}")
        with contextlib.suppress(OSError):  # there is none, or it is another user's
            part.rename(there)
            aside.append(there)
    return aside


def _sweep(root: Path) -> None:
    """Remove what evictions left that were killed, or that met an error."""
    folders = [*_list_folder(root / RESULTS), *(root / kind for kind in DOWNLOADS)]
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


@dataclass(frozen=True)
class CacheShare:
    """The entries of one kind, or those that one run used."""

    name: str
    entries: tuple[CacheEntry, ...]
    state: str = ""  # of a run: running, kept or gone
    alone: tuple[CacheEntry, ...] = ()  # entries that no other run used

    @property
    def size_bytes(self) -> int:
        """Size of the entries."""
        return sum_bytes(self.entries)

    @property
    def alone_bytes(self) -> int:
        """Size of the entries that no other run used."""
        return sum_bytes(self.alone)

    @property
    def last_used(self) -> str:
        """When one of the entries was last used, in local time; empty without entries."""
        if not self.entries:
            return ""
        last = max(entry.used_s for entry in self.entries)
        return datetime.fromtimestamp(last, UTC).astimezone().isoformat(" ", "minutes")[:16]

    def to_json(self) -> dict[str, object]:
        """Return the number of entries, their size, and when they were last used."""
        return {
            "entries": len(self.entries),
            "size_bytes": self.size_bytes,
            "last_used": self.last_used,
        }


@dataclass(frozen=True)
class CacheContents:
    """What is in the cache."""

    root: Path
    limit_bytes: int
    entries: tuple[CacheEntry, ...]
    uses: tuple[CacheUse, ...]

    @classmethod
    def read(cls, root: Path, size: int | None = None) -> Self:
        """Read what is in the cache; its limit is ``size`` bytes,
        or :func:`limit_bytes`'s default.
        """
        return cls(root, limit_bytes(root, size), entries_of(root), uses_of(root))

    def evict(self, kinds: Iterable[str] = ()) -> Evicted:
        """Remove results until the cache is within its limit, or all of some kinds,
        see :func:`evict_results`.
        """
        return evict_results(self.root, self.limit_bytes, kinds)

    @property
    def size_bytes(self) -> int:
        """Size of all entries."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def by_kind(self) -> Mapping[str, tuple[CacheEntry, ...]]:
        """The entries of each kind, the largest kind first; of equal size, by name."""
        kinds: dict[str, list[CacheEntry]] = defaultdict(list)
        for entry in self.entries:
            kinds[entry.kind].append(entry)
        largest_first = sorted(kinds, key=lambda kind: (-sum_bytes(kinds[kind]), kind))
        return {kind: tuple(kinds[kind]) for kind in largest_first}

    def used_by(self, use: CacheUse) -> tuple[CacheEntry, ...]:
        """Return the entries that a run used and that are still there."""
        return tuple(entry for entry in self.entries if entry.key in use.keys)

    def used_only_by(self, use: CacheUse) -> tuple[CacheEntry, ...]:
        """Return those that no other run used."""
        others = frozenset[str]().union(*(other.keys for other in self.uses if other is not use))
        return tuple(entry for entry in self.used_by(use) if entry.key not in others)

    @property
    def kinds(self) -> tuple[CacheShare, ...]:
        """The entries by kind, the largest kind first."""
        return tuple(CacheShare(kind, entries) for kind, entries in self.by_kind.items())

    @property
    def runs(self) -> tuple[CacheShare, ...]:
        """The entries that each run used, by its folder."""
        shares = []
        for use in sorted(self.uses, key=lambda use: use.run):
            # Uses without a folder are those of other processes.
            if use.run:
                shares.append(
                    CacheShare(use.run, self.used_by(use), use.state, self.used_only_by(use))
                )
        return tuple(shares)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; sizes are bytes."""
        runs = []
        for run in self.runs:
            runs.append(
                {
                    "run": run.name,
                    "state": run.state,
                    **run.to_json(),
                    "alone_bytes": run.alone_bytes,
                }
            )
        return {
            "root": str(self.root),
            "size_bytes": self.size_bytes,
            "limit_bytes": self.limit_bytes,
            "kinds": [{"kind": kind.name, **kind.to_json()} for kind in self.kinds],
            "runs": runs,
        }


def sum_bytes(entries: Iterable[CacheEntry]) -> int:
    """Return the size of some entries in bytes."""
    return sum(entry.size_bytes for entry in entries)


def warn_if_too_small(entries: Iterable[CacheEntry], hold: Lease, most_bytes: int) -> None:
    """Log what the limit must be for the same command to find all its results again,
    if it is below that.
    """
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
            *map(show_bytes, (needed, most_bytes, needed)),
        )
