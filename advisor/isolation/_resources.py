"""Measure processors, waits for them and free memory of this machine;
make folders that are removed at the end.
"""

import contextlib
import fcntl
import math
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from advisor.core import UsageError, show_bytes
from advisor.isolation._agent_documents import Block

WAITED_LIMIT = 0.1
"""Share of the time that threads may wait for a processor: with more, other programs disturb a
timing. On an idle machine the share is below 0.01.
"""

GROWS_S = 15.0
"""A job that started less than this many seconds ago has not yet taken the memory
that it is expected to take.
"""

# Reserve for this process, which grows with its evaluations, and for other programs.
KEPT_FREE_BYTES = 300_000_000

GPU_DRIVER: Path = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver for Linux lists its GPUs: a folder each, with a file ``information``."""

_CGROUP = Path("/sys/fs/cgroup")

# The environment variable that tempfile reads first.
TEMPORARY_FOLDER = "TMPDIR"
# Followed by the id of the process that made the folder.
_PREFIX = "advisor-scratch-"

_NEW_S = 60.0
"""Age in seconds below which a folder may not be locked yet,
though the process that made it lives.
"""

_JOB_THREADS = 4
"""Threads of one job at most: on a machine with more cores other jobs run beside it,
and each thread takes memory.
"""


def usable_cores(for_job: bool = False) -> int:
    """Return how many processors this process may use:
    an affinity mask or a quota can grant fewer than exist.

    A job that runs beside others takes a few of them (``for_job``). A part of a processor counts
    as one: a quota of 1.5 lets two jobs run side by side, a quota of 0.5 one.
    """
    there = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    allowed = read_quota_cores()
    granted = there
    if allowed is not None:
        granted = min(there, math.ceil(allowed))
    return min(granted, _JOB_THREADS) if for_job else granted


def waiting_factor() -> float:
    """Return how many times longer than on a free processor the threads
    of this process take for their work.

    The kernel counts for how long each thread ran so far, and for how long it was ready and had no
    processor (schedstat, in nanoseconds). A quota below one processor, whose waits are not counted
    there, is the least factor.
    """
    ran_ns = 0
    waited_ns = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        # A thread may have ended since the list was read.
        with contextlib.suppress(OSError, ValueError):
            thread_ran_ns, thread_waited_ns, *_ = map(
                int, file.read_text(encoding="ascii").split()
            )
            ran_ns += thread_ran_ns
            waited_ns += thread_waited_ns
    by_others = 1.0 + waited_ns / ran_ns if ran_ns else 1.0
    by_quota = 1.0 / part_of_a_core()
    return max(by_others, by_quota)


def part_of_a_core() -> float:
    """Return the part (0-1) of one processor that this process gets by a quota below one;
    1 with a whole one or more.

    Work of one processor takes so many times longer.
    """
    allowed = read_quota_cores()
    return 1.0 if allowed is None else min(1.0, allowed)


def cpu_s_of_tree() -> float:
    """Return the CPU seconds of this process and of all that it started, ended or not."""
    me = psutil.Process()
    seconds = 0.0
    for process in (me, *me.children(recursive=True)):
        # A process may end meanwhile.
        with contextlib.suppress(psutil.Error):
            # User, system, and both of the children that ended.
            seconds += sum(process.cpu_times()[:4])
    return seconds


def read_quota_cores(
    root: Path = _CGROUP, listing: Path = Path("/proc/self/cgroup")
) -> float | None:
    """Return the processors that the CPU quotas of the own control group and those above allow;
    None without one.

    Version 2 has one tree, version 1 one for each controller.
    """
    try:
        rows = listing.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    quotas = list[float]()
    for row in rows:
        _, _, rest = row.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (controllers and "cpu" not in controllers.split(",")):
            continue
        # Only the tree of version 2 has no controllers in its row.
        tree = root / "cpu" if controllers else root
        group = tree / path.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(tree):
                quotas += _read_quota(folder)
    return min(quotas, default=None)


def _read_quota(folder: Path) -> list[float]:
    """Return the processors that the quota of one control group allows,
    in a list that is empty without a quota.
    """
    try:
        if (folder / "cpu.max").is_file():
            allowed, period = (folder / "cpu.max").read_text("ascii").split()
        else:
            allowed = (folder / "cpu.cfs_quota_us").read_text("ascii")
            period = (folder / "cpu.cfs_period_us").read_text("ascii")
        cores = int(allowed) / int(period)
    # The group may not exist, or its file may have "max" in place of a number.
    except (OSError, ValueError, ZeroDivisionError):
        return []
    # Version 1 writes -1 where there is no quota.
    return [cores] if cores > 0 else []


def compute_waited_share(threads: int, blocks: Sequence[Block]) -> float | None:
    """Return the share of the time of blocks that their threads waited for a processor;
    None if it is unknown.
    """
    waits_ns = []
    for block in blocks:
        waited_ns = block.get("waited_ns")
        if waited_ns is None:
            return None
        waits_ns.append(waited_ns)
    return sum(waits_ns) / (threads * sum(block["elapsed_ns"] for block in blocks))


def free_bytes() -> int:
    """Return how many bytes this process and its children may still take,
    within the limit of the cgroup.
    """
    return min(int(psutil.virtual_memory().available), _read_cgroup_room())


def memory_there() -> str:
    """Return in words how much memory is free, and how many addresses ``ulimit -v`` allows."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    allowed = ""
    if limit != resource.RLIM_INFINITY:
        allowed = f", and ulimit -v allows {show_bytes(limit)} of addresses"
    return f"{show_bytes(free_bytes())} are free{allowed}"


def require_memory(what: str, needed_bytes: int, address_bytes: int) -> None:
    """Raise UsageError if memory for work, or the addresses that libraries reserve for it,
    are not there.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if free_bytes() < needed_bytes or (limit != resource.RLIM_INFINITY and limit < address_bytes):
        needs = (
            f"{show_bytes(needed_bytes)} of memory and {show_bytes(address_bytes)} of addresses"
        )
        raise UsageError(
            f"{what} needs {needs}: {memory_there()}", "end other programs, or raise the limit"
        )


def _read_cgroup_room(root: Path = _CGROUP, listing: Path = Path("/proc/self/cgroup")) -> int:
    """Return what is left of the limits of the own cgroup (v2) and those above;
    pages that can be dropped count.
    """
    # More than any machine has: no limit.
    left = 1 << 62
    with contextlib.suppress(OSError):
        group = root / listing.read_text(encoding="utf-8").partition("0::/")[2].strip()
        for folder in (group, *group.parents):
            # A group without a limit has no such file, or "max" in it.
            with contextlib.suppress(OSError, ValueError):
                limit = int((folder / "memory.max").read_text("ascii"))
                used = int((folder / "memory.current").read_text("ascii"))
                rows = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
                droppable = sum(
                    int(row.split()[1]) for row in rows if row.startswith("inactive_file ")
                )
                left = min(left, max(0, limit - used + droppable))
    return left


def no_follow(path: str, flags: int) -> int:
    """Open a file and return its descriptor, also as an ``opener`` of :func:`open`;
    OSError if it is a link.
    """
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


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
        """Return True if a job that takes ``memory_bytes`` may start while ``running`` others
        run.
        """
        if running == 0:
            return True
        now = self._clock()
        self._started = [(start, size) for start, size in self._started if now - start < GROWS_S]
        growing = sum(size for _, size in self._started)
        return self._free() - growing - KEPT_FREE_BYTES >= memory_bytes

    def note_start(self, memory_bytes: int) -> None:
        """Note that a job has started."""
        self._started.append((self._clock(), memory_bytes))


# Temporary folders that are deleted when their owner ends, in whatever way.
#
# TensorFlow writes generated code into temporary files and deletes them when it exits, but not
# when it crashes or is killed. So each child process has a folder for its temporary files. The
# parent deletes the folder of a child that ended. A child deletes its own folder if its parent is
# gone. If both were killed at once, the next parent finds the folder unlocked and deletes it. The
# same holds for the parent's own temporary folders.


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
