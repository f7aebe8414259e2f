"""A temporary folder of a child's own: what it leaves there goes with it, however it ends.

TensorFlow writes the code that it generates into temporary files and removes them when it exits; a child that crashes
or is killed does not. The parent removes the folder of a child that ended; a child removes its own when it ends because
its parent is gone; and where both were killed at once, the next parent finds the folder unlocked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

VARIABLE = "TMPDIR"
"""Where :mod:`tempfile` looks first."""

_PREFIX = "advisor-child-"
_LOCKED_WITHIN_S = 60.0


class Scratch:
    """A new folder, locked as long as this process lives."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._remaining = threading.Semaphore()

    def remove(self) -> None:
        """Remove it, for its child ended; once, whichever thread is first."""
        if self._remaining.acquire(blocking=False):
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)


def remove_own() -> None:
    """Remove the folder that this process was given as a child; nothing where it was given none."""
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Remove folders that no living process has locked, or is about to lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_mtime < time.time() - _LOCKED_WITHIN_S:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
