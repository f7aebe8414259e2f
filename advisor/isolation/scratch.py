"""Give each child process a temporary folder that is deleted when the child ends, in whatever way.

TensorFlow writes generated code into temporary files and deletes them when it exits, but not when it crashes or is
killed. The parent deletes the folder of a child that ended. A child deletes its own folder if its parent is gone. If
both were killed at once, the next parent finds the folder unlocked and deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

VARIABLE = "TMPDIR"
"""The environment variable that :mod:`tempfile` reads first."""

_PREFIX = "advisor-child-"
_LOCKED_WITHIN_S = 60.0


class Scratch:
    """A new folder that this process keeps locked as long as it lives."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Delete the folder, because its child has ended."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_own() -> None:
    """Delete the folder of this process if it is a child that has one."""
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Delete folders that no living process has locked or is about to lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_mtime < time.time() - _LOCKED_WITHIN_S:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
