"""Tell how much memory is free, and let a job start only if what it will take is free.

The limit of the control group counts like the memory of the machine.
"""

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from advisor.isolation._control_groups import LISTING, ROOT, list_groups

GROWS_S = 15.0
"""A job that started less than this many seconds ago has not yet taken the memory
that it is expected to take.
"""

# Reserve for this process, which grows with its evaluations, and for other programs.
KEPT_FREE_BYTES = 300_000_000

NO_LIMIT = 1 << 62
"""More bytes than any machine has."""

VERSION_2 = ("memory.max", "memory.current", "inactive_file")
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""The files of a control group with its limit and with what is used, and the row of its
``memory.stat`` with the pages of files that were not used lately.
"""


def free_bytes() -> int:
    """Return how many bytes this process and its children may still take,
    within the limit of the cgroup.
    """
    return min(int(psutil.virtual_memory().available), _read_cgroup_room())


def _read_cgroup_room(root: Path = ROOT, listing: Path = LISTING) -> int:
    """Return what is left of the limits of the own control group and those above."""
    rooms = [_read_room(folder) for folder in list_groups("memory", root, listing)]
    return min(rooms, default=NO_LIMIT)


def _read_room(folder: Path) -> int:
    """Return the bytes that are left of the limit of one control group.

    Pages of files that were not used lately count as left: the kernel drops them first.
    """
    is_second = (folder / VERSION_2[0]).is_file()
    limit_file, used_file, droppable_row = VERSION_2 if is_second else VERSION_1
    try:
        limit = int((folder / limit_file).read_text("ascii"))
        used = int((folder / used_file).read_text("ascii"))
        rows = (folder / "memory.stat").read_text("ascii").splitlines()
    # The group may not exist, or its file may have "max" in place of a number.
    except (OSError, ValueError):
        return NO_LIMIT
    droppable = 0
    for row in rows:
        name, _, size = row.partition(" ")
        if name == droppable_row:
            droppable = int(size)
    return min(NO_LIMIT, max(0, limit - used + droppable))


class MemoryGate:
    """Lets a job start if the memory that it is expected to take is free.

    A job may always start if no other runs, because waiting would not free memory.
    """

    def __init__(
        self, free: Callable[[], int] = free_bytes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._free = free
        self._clock = clock
        self._started: list[tuple[float, int]] = []

    def admits(self, memory_bytes: int, running: int) -> bool:
        """Return True if a job of ``memory_bytes`` may start while ``running`` others run."""
        if running == 0:
            return True
        now = self._clock()
        self._started = [(start, size) for start, size in self._started if now - start < GROWS_S]
        growing = sum(size for _, size in self._started)
        return self._free() - growing - KEPT_FREE_BYTES >= memory_bytes

    def note_start(self, memory_bytes: int) -> None:
        """Note that a job has started."""
        self._started.append((self._clock(), memory_bytes))
