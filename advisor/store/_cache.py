"""Cache the results of stages by the hash of their inputs.

The engine asks :meth:`ArtifactCache.get` for each stage, with a function that makes the result if
it is not there. A result is a folder named by its stage, version and inputs, and is never changed.
Other names of folders would make all cached results of users worthless.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from glob import escape
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from advisor.core import StageError, UsageError
from advisor.store._cache_entries import RESULTS, list_entries, sum_bytes
from advisor.store._cache_uses import Lease, get_process_lease
from advisor.store._files import (
    find_changed_file,
    full_disk_error,
    is_full_disk,
    is_unchanged,
    sha256_json,
    write_atomically,
    write_hashes,
)
from advisor.store._limit import evict_results, limit_bytes, warn_if_too_small
from advisor.store._yamlfile import read_text

_log = logging.getLogger(__name__)

# Least seconds between two looks at the size of the cache: one takes about 0.1 s.
_TRIM_EVERY_S = 60.0
_MOST_HOLDER_BYTES = 1000  # Of the file that names the maker of a result
_MAKING = ".making-"  # The beginning of the name of an unfinished result; its key follows


def cache_root() -> Path:
    """Return the folder of all caches: ``$ADVISOR_CACHE_DIR``, or the user's cache folder."""
    chosen = os.environ.get("ADVISOR_CACHE_DIR")
    if not chosen:
        return user_cache_path("advisor")
    return Path(os.path.expanduser(chosen))  # noqa: PTH111 -- an unknown user is no error


class ArtifactCache:
    """Stores each stage result as a folder of files, which is written once and never changed.

    The results that it returns stay until its ``hold`` is released, or until this process ends.
    New results make the cache remove the least recently used ones beyond ``most_bytes``, if there
    is such a limit.
    """

    def __init__(
        self, root: Path | None = None, hold: Lease | None = None, most_bytes: int | None = None
    ) -> None:
        self.root = root or cache_root() / RESULTS
        self._hold = hold or (
            get_process_lease(self.root.parent, os.getpid()) if root is None else None
        )
        self._most_bytes = most_bytes
        self._trimmed_s = time.monotonic()

    @staticmethod
    def require_folder() -> None:
        """Make the folder of all caches, and remove unfinished results that nobody makes any more.

        UsageError: the folder or files in it cannot be made, or its limit is no size.
        """
        root = cache_root()
        hint = "set ADVISOR_CACHE_DIR to a folder that you can write to"
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the cache '{root}' cannot be made ({error.strerror or error})", hint
            ) from None
        if not os.access(root, os.W_OK | os.X_OK):
            raise UsageError(f"the cache '{root}' cannot be written to", hint)
        limit_bytes(root)
        for unfinished in root.glob(f"artifacts/*/{_MAKING}*"):
            key = unfinished.name.removeprefix(_MAKING).rpartition("-")[0]
            # A result whose lock is free is made by nobody: its maker was killed.
            with (
                contextlib.suppress(Timeout, OSError),
                FileLock(unfinished.with_name(f"{key}.lock"), timeout=0),
            ):
                shutil.rmtree(unfinished, ignore_errors=True)

    def folder(self, stage: str, inputs: Mapping[str, object]) -> Path:
        """Return the folder for the result of ``stage`` with ``inputs``; it may not exist."""
        return self.root / stage / sha256_json(dict(inputs))

    def has(self, folder: Path) -> bool:
        """Return whether a result is there with the content that was written; it then stays."""
        if self._hold is not None:
            self._hold.add(f"{RESULTS}/{folder.relative_to(self.root).as_posix()}")
        return is_unchanged(folder)

    def get(
        self,
        stage: str,
        inputs: Mapping[str, object],
        make: Callable[[Path], None],
        waits: Callable[[str], None] = lambda _: None,
    ) -> Path:
        """Return the folder with a stage's result; ``make(folder)`` fills it if it is missing or
        changed.

        ``stage`` is the name and version of the stage, such as ``convert-1``; ``inputs`` is every
        input that the result depends on, as JSON values. If two processes need the same result,
        only one makes it; ``waits`` is called with the name of the other, such as ``process 123``.
        If ``make`` raises, no folder is left. StageError if the disk is full.
        """
        folder = self.folder(stage, inputs)
        if self.has(folder):
            return folder
        try:
            result = fill_folder(folder, make, waits)
            self._trim()
            return result
        except (OSError, StageError) as error:
            if is_full_disk(error):
                raise full_disk_error(self.root) from error
            raise

    def _trim(self) -> None:
        # Sizes of the whole cache are read for this,
        # which would cost more than most results if done after each.
        if self._most_bytes is not None and time.monotonic() - self._trimmed_s > _TRIM_EVERY_S:
            self._trimmed_s = time.monotonic()
            evict_results(self.root.parent, self._most_bytes)

    @classmethod
    @contextlib.contextmanager
    def open_limited(
        cls, size_bytes: int | None, run: Path | None = None
    ) -> Iterator[ArtifactCache]:
        """Give a cache that keeps its results for the block, and is within its limit around it.

        ``run`` is the folder of the run that uses it. The limit is ``size_bytes``; None is
        :func:`limit_bytes`'s default.
        """
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        hold = Lease(root, run)
        most = limit_bytes(root, size_bytes)
        _try_to_evict(root, most)
        try:
            yield cls(root / RESULTS, hold, most)
        finally:
            # From here on the results of this run may go, too: its lease protected them.
            hold.release()
            entries = list_entries(root)
            warn_if_too_small(entries, hold, most)
            if sum_bytes(entries) > most:
                _try_to_evict(root, most)


def _try_to_evict(root: Path, most_bytes: int) -> None:
    try:
        evict_results(root, most_bytes)
    except OSError as error:  # the search itself can go on
        _log.warning(
            "the cache '%s' could not be brought within its limit: %s",
            root,
            error.strerror or error,
        )


def fill_folder(
    folder: Path, make: Callable[[Path], None], waits: Callable[[str], None] = lambda _: None
) -> Path:
    """Return a folder; ``make`` fills it in a temporary place if it does not exist or has changed.

    See :meth:`ArtifactCache.get`.
    """
    # The usual case needs no lock: a complete result is only ever replaced as a whole.
    if is_unchanged(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _hold_lock(folder, waits):
        # Another process may have made it while this one waited for the lock.
        if folder.is_dir() and find_changed_file(folder) is None:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        for abandoned in folder.parent.glob(f"{_MAKING}{escape(folder.name)}-*"):
            # Its maker was killed: the lock is ours.
            shutil.rmtree(abandoned, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{_MAKING}{folder.name}-", dir=folder.parent))
        try:
            make(unfinished)
            for file in unfinished.iterdir():
                if file.is_file():
                    # Runs contain hard links to these files, so nobody may change them.
                    file.chmod(0o444)
            write_hashes(unfinished, folder)
            # The name appears in one step, so that a reader never sees a half-written result.
            unfinished.rename(folder)
        # Also after an interrupt: what is left would count towards the limit
        # of the cache until a next search sweeps it.
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return folder


@contextlib.contextmanager
def _hold_lock(folder: Path, waits: Callable[[str], None]) -> Iterator[None]:
    """Hold a folder's lock, and write the holder's name next to it."""
    lock = FileLock(f"{folder}.lock")
    holder = Path(f"{folder}.holder")
    try:
        # Most locks are free: only one that another process holds is worth a message.
        lock.acquire(timeout=0)
    except Timeout:
        with contextlib.suppress(UsageError):
            waits(read_text(holder, _MOST_HOLDER_BYTES, errors="replace"))
        lock.acquire()
    try:
        write_atomically(holder, f"process {os.getpid()}")  # never through a link
        yield
    finally:
        # In this order: after the release, the next holder writes its name into this file.
        holder.unlink(missing_ok=True)
        lock.release()
