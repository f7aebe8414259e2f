"""A program that runs as a slower machine would."""

import os
import time

import pytest

from benchmarks import speed
from benchmarks.speed import Speed, limited


def spin(seconds: float) -> float:
    """Compute for some seconds by the clock, and return the CPU seconds that the process got."""
    until, began = time.monotonic() + seconds, time.process_time()
    while time.monotonic() < until:
        pass
    return time.process_time() - began


def may_set_quota() -> bool:
    root = speed.GROUPS if (speed.GROUPS / "cgroup.controllers").is_file() else speed.GROUPS / "cpu"
    return os.geteuid() == 0 and os.access(root, os.W_OK)


@pytest.mark.skipif(not may_set_quota(), reason="control groups of this machine cannot be written")
def test_a_quota_gives_its_share_of_the_cpu_time_and_ends_with_the_block() -> None:
    with limited(Speed(0.25, cores=1)):
        assert os.sched_getaffinity(0) == {min(os.sched_getaffinity(0))}
        assert spin(0.6) < 0.4
    assert not list(speed.GROUPS.glob(f"**/advisor-speed-{os.getpid()}"))
