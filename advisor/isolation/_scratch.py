"""Temporary folders that are deleted when their owner ends, in whatever way.

TensorFlow writes generated code into temporary files and deletes them when it exits, but not when
it crashes or is killed. So each child process has a folder for its temporary files. The parent
deletes the folder of a child that ended. A child deletes its own folder if its parent is gone. If
both were killed at once, the next parent finds the folder unlocked and deletes it. The same holds
for the parent's own temporary folders. Later versions find these folders by their names.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil

# The environment variable that tempfile reads first.
TEMPORARY_FOLDER = "TMPDIR"
# Followed by the id of the process that made the folder.
_PREFIX = "advisor-scratch-"

_NEW_S = 60.0
"""Age in seconds below which a folder may not be locked yet,
though the process that made it lives.
"""


def no_follow(path: str, flags: int) -> int:
    """Open a file and return its descriptor, also as an ``opener`` of ``open``;
    OSError if it is a link.
    """
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


class Scratch:
    """A new folder that this process keeps locked as long as it lives;
    as a context manager, it yields its path.
    """

    def __init__(self) -> None:
        sweep_folders()
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


def sweep_folders() -> None:
    """Delete folders that no living process has locked or is about to lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # It is locked, or was deleted by another process meanwhile.
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A living process may have made it just now, and not locked it yet.
                # Clocks are set back, too.
                maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
                is_new = abs(time.time() - os.fstat(lock).st_mtime) < _NEW_S
                if not (is_new and maker.isdecimal() and psutil.pid_exists(int(maker))):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
