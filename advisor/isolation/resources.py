"""Measure the processors and the free memory of this machine, and decide whether a job may start."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

GROWS_S = 15.0
"""A job that started less than this many seconds ago has not yet taken the memory that it is expected to take."""

KEPT_FREE_BYTES = 300_000_000
"""Reserve for this process, which grows with its evaluations, and for other programs."""

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return how many processors this process may use; a container or an affinity mask can grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_bytes() -> int:
    """Return how many bytes this process and its children may still take, within the limit of the cgroup."""
    return min(int(psutil.virtual_memory().available), _within_cgroup())


def _within_cgroup(root: Path = _CGROUP) -> int:
    """Return what is left of a cgroup's (v2) limit; file pages that the kernel can drop count as free."""
    with contextlib.suppress(OSError, ValueError):
        limit = int((root / "memory.max").read_text(encoding="ascii"))
        used = int((root / "memory.current").read_text(encoding="ascii"))
        rows = (root / "memory.stat").read_text(encoding="ascii").splitlines()
        droppable = sum(int(row.split()[1]) for row in rows if row.startswith("inactive_file "))
        return max(0, limit - used + droppable)
    return 1 << 62


class MemoryGate:
    """Lets a job start if the memory that it is expected to take is free.

    A job may always start if no other runs, because waiting would not free memory.

    Args:
        free: returns the free bytes.
        clock: returns seconds.
    """

    def __init__(self, free: Callable[[], int] = free_bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._clock = free, clock
        self._started: list[tuple[float, int]] = []

    def admits(self, memory_bytes: int, running: int) -> bool:
        """Return True if a job that takes ``memory_bytes`` may start while ``running`` others run."""
        if running == 0:
            return True
        now = self._clock()
        self._started = [(start, size) for start, size in self._started if now - start < GROWS_S]
        growing = sum(size for _, size in self._started)
        return self._free() - growing - KEPT_FREE_BYTES >= memory_bytes

    def note_start(self, memory_bytes: int) -> None:
        """Note that a job has started."""
        self._started.append((self._clock(), memory_bytes))
