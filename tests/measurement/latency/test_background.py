"""A background load ends with its context, and with whoever started it."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from advisor.measurement.latency.background import busy_processes

pytestmark = pytest.mark.integration


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "range(100_000)" in " ".join(child.cmdline())]


def ended(pid: int, seconds: float = 30.0) -> bool:
    """Wait for a process that is not ours to end; one that nobody collected yet has ended, too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_so_many_run_and_none_is_left() -> None:
    with busy_processes(2):
        assert len(children()) == 2
    assert children() == []


def test_an_exception_leaves_none() -> None:
    with pytest.raises(KeyError), busy_processes(1):
        raise KeyError
    assert children() == []


def test_they_end_when_their_starter_was_killed() -> None:
    code = (
        "import os, signal\nfrom advisor.measurement.latency import background\nimport psutil\n"
        "with background.busy_processes(1):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended(int(done.stdout))
