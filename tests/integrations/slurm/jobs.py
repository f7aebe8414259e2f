"""Jobs that the batch system runs in the tests."""

import os
import time
from pathlib import Path

from tests.processes import until


def process() -> int:
    """Return the process that runs the job."""
    return os.getppid()


def note_and_wait(started: str, last: str) -> int:
    """Note in a folder which job began it, wait for a file, and return which job ended it."""
    Path(started, str(os.getppid())).touch()
    until(Path(last).exists)
    return os.getppid()


def take(gigabytes: float) -> int:
    """Take memory and wait until somebody ends the process."""
    held = bytearray(os.urandom(1024)) * int(gigabytes * 1e9 / 1024)
    time.sleep(600)
    return len(held)
