"""Record which results of the cache each run or process uses, so that no eviction removes them.

Every user of results adds their keys to a record in ``uses/`` before it looks for them
(:class:`Lease`), and holds the record's lock as long as it lives. A search holds one lease for its
run, other commands one for the process. Records and marks of kept runs are files on the disks of
users: their names and their lines stay readable for later versions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from advisor.core import UsageError
from advisor.store._cache_entries import list_folder
from advisor.store._files import sha256_json, write_atomically

_USES = "uses"
_KEPT = ".kept"
# Who uses results, see :class:`Lease`.
_RECORD = re.compile(r"run-[0-9a-f]{16}|process-\d+-[0-9a-f]{8}")
_MOST_RECORD_BYTES = 100_000_000  # A million keys


@dataclass(frozen=True)
class CacheUse:
    """The results that a run, or another process, used."""

    run: str  # folder of the run; empty for another process
    keys: frozenset[str]
    live: bool  # the process still works
    kept: bool  # the user keeps the results

    @property
    def state(self) -> str:
        """The states of the run: running, kept and gone, joined by commas; empty if none holds."""
        words = {"running": self.live, "kept": self.kept, "gone": not Path(self.run).is_dir()}
        return ", ".join(word for word, holds in words.items() if holds)

    @classmethod
    def keep_run(cls, root: Path, run: Path, keep: bool = True) -> CacheUse:
        """Keep the results that a run used, or let them go again.

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
        unused = cls(name, frozenset(), live=False, kept=False)
        return next((use for use in list_uses(root) if use.run == name), unused)


class Lease:
    """A record of the results that one run or process uses: none goes before :meth:`release`."""

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
        """Record a key; call it before you look for the result.

        Nothing is recorded on a full disk or in a cache that is read only: the result may then go,
        and is made again.
        """
        with self._mutex, contextlib.suppress(OSError, UsageError):
            if key in self.keys:
                return
            self.keys.add(key)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Under the lock of the cache: an eviction between the record
            # and its lock would see a dead process.
            with lock_cache(self.root):
                self._lock.acquire()
                is_new = not self._file.exists()
                with self._file.open("a", encoding="utf-8") as file:
                    # The first line is the run, empty for a process without one.
                    if is_new:
                        file.write(f"{self._run.resolve() if self._run else ''}\n")
                    file.write(f"{key}\n")

    def release(self) -> None:
        """Let the results go; what a run used stays known, so that it can be kept."""
        with self._mutex, contextlib.suppress(OSError, UsageError), lock_cache(self.root):
            self._lock.release(force=True)
            # The record of a run stays, because the user may want to keep what the run used.
            if self._run is None:
                for file in (self._file, Path(f"{self._file}.lock")):
                    file.unlink(missing_ok=True)


@cache
def get_process_lease(root: Path, _process: int) -> Lease:
    """Return the lease of a process, for results of no run; it ends with the process."""
    return Lease(root)


def _record_name(run: Path) -> str:
    return f"run-{sha256_json(str(run.resolve()))[:16]}"


@contextlib.contextmanager
def lock_cache(root: Path) -> Iterator[None]:
    """Hold the lock of the cache in the block: records are written and results go under it."""
    lock = find_folder_of_uses(root) / ".lock"
    if lock.is_symlink() or lock.is_dir():
        raise UsageError(f"{lock} is no plain file: the cache locks itself with it", "remove it")
    with FileLock(lock):
        yield


def find_folder_of_uses(root: Path) -> Path:
    """Return the folder of records, or a link to it; UsageError if a file has its name."""
    uses = root / _USES
    if os.path.lexists(uses) and not uses.is_dir():
        raise UsageError(
            f"{uses} is no folder: the cache keeps there who uses its results",
            "move it to another place",
        )
    return uses


def list_uses(root: Path) -> tuple[CacheUse, ...]:
    """Return who uses which results, and remove records of ended processes and of runs gone.

    In a cache that is read only they stay, and nothing says which processes are at work.
    """
    if not os.path.lexists(root / _USES):
        return ()
    try:
        with lock_cache(root):
            return read_uses(root)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        return read_uses(root, read_only=True)


def read_uses(root: Path, read_only: bool = False) -> tuple[CacheUse, ...]:
    """Return the uses as :func:`list_uses` does, where the caller has the lock of the cache."""
    uses = []
    for file in _list_records(root):
        run, *keys = _read_record(file)
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


def _list_records(root: Path) -> list[Path]:
    """Return the records that :class:`Lease` wrote, and none of the other files beside them."""
    records = []
    for path in list_folder(root / _USES):
        if _RECORD.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            records.append(path)
    return records


def _read_record(record: Path) -> list[str]:
    """Return the run of a record, then its keys; an empty run alone if it is no record."""
    if record.stat().st_size > _MOST_RECORD_BYTES:
        return [""]
    return record.read_text(encoding="utf-8", errors="replace").splitlines() or [""]


def _is_live(record: Path) -> bool:
    try:
        with FileLock(f"{record}.lock", timeout=0):
            return False
    except Timeout:
        return True
