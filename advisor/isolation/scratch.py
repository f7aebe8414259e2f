"""Temporary folders that are deleted when their owner ends, in whatever way.

TensorFlow writes generated code into temporary files and deletes them when it exits, but not when it crashes or is
killed. So each child process has a folder for its temporary files. The parent deletes the folder of a child that ended.
A child deletes its own folder if its parent is gone. If both were killed at once, the next parent finds the folder
unlocked and deletes it. The same holds for the parent's own temporary folders.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil

VARIABLE = "TMPDIR"
"""The environment variable that :mod:`tempfile` reads first."""

_PREFIX = "advisor-scratch-"
"""Followed by the id of the process that made the folder."""

_LOCKED_WITHIN_S = 60.0


class Scratch:
    """A new folder that this process keeps locked as long as it lives; as a context manager, it yields its path."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Delete the folder, because its owner has ended or needs it no more."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_own() -> None:
    """Delete the folder of this process if it is a child that has one."""
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Delete folders that no living process has locked or is about to lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _may_be_new(folder.name, os.fstat(lock).st_mtime):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _may_be_new(name: str, changed: float) -> bool:
    """Return whether a living process may have made the folder just now, and not locked it yet.

    The time may lie in the future, because clocks are set back.
    """
    maker = name.removeprefix(_PREFIX).partition("-")[0]
    return maker.isdecimal() and psutil.pid_exists(int(maker)) and abs(time.time() - changed) < _LOCKED_WITHIN_S
