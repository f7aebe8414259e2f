"""Run a background load for measurements: processes that only compute."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

# The process ends shortly after its parent.
_BURN = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep ``count`` processors busy as long as the context lasts."""
    command = [sys.executable, "-I", "-S", "-c", _BURN, str(os.getpid())]
    children = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
