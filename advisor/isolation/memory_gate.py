"""How much memory is free here, and whether a job that is expected to take some of it may begin."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil

GROWS_S = 15.0
"""A job that began less than so long ago has not taken yet what it is expected to take."""

KEPT_FREE_BYTES = 300_000_000
"""For this process, which grows with its evaluations, and for whatever else runs here."""

_CGROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int:
    """Return the memory that this process and its children may still take: the machine's, within the cgroup's limit."""
    return min(int(psutil.virtual_memory().available), _within_cgroup())


def _within_cgroup(root: Path = _CGROUP) -> int:
    """Return what is left of a cgroup's (v2) limit; files that the kernel could drop are not in use."""
    with contextlib.suppress(OSError, ValueError):
        limit = int((root / "memory.max").read_text(encoding="ascii"))
        used = int((root / "memory.current").read_text(encoding="ascii"))
        rows = (root / "memory.stat").read_text(encoding="ascii").splitlines()
        droppable = sum(int(row.split()[1]) for row in rows if row.startswith("inactive_file "))
        return max(0, limit - used + droppable)
    return 1 << 62


class MemoryGate:
    """Lets jobs begin as long as what they are expected to take is free.

    A job that runs alone may always begin: waiting would not make more room.

    Args:
        free: gives the free bytes.
        clock: gives seconds.
    """

    def __init__(self, free: Callable[[], int] = free_bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._clock = free, clock
        self._begun: list[tuple[float, int]] = []

    def has(self, memory_bytes: int, running: int) -> bool:
        """True where a job that takes so much may begin beside ``running`` others."""
        if running == 0:
            return True
        now = self._clock()
        self._begun = [(start, size) for start, size in self._begun if now - start < GROWS_S]
        growing = sum(size for _, size in self._begun)
        return self._free() - growing - KEPT_FREE_BYTES >= memory_bytes

    def begin(self, memory_bytes: int) -> None:
        """Note that a job has begun."""
        self._begun.append((self._clock(), memory_bytes))
