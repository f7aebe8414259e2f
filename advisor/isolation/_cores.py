"""Tell which processors this process is granted, and how long its threads wait for one.

Searches choose the number of jobs by :func:`usable_cores`; timings count as disturbed from
:data:`WAITED_LIMIT` on. Affinity masks, quotas of control groups and other programs all count.
"""

import contextlib
import math
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from advisor.isolation._agent_documents import Block
from advisor.isolation._control_groups import LISTING, ROOT, list_groups
from advisor.isolation._process import TimedOut, run_program

WAITED_LIMIT = 0.1
"""Share of the time that threads may wait for a processor: with more, other programs disturb a
timing. On an idle machine the share is below 0.01.
"""

GPU_DRIVER: Path = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver for Linux lists its GPUs: a folder each, with a file ``information``."""

MOST_SLOWDOWN = 10.0
"""Largest factor that :func:`measure_slowdown` returns: a longer wait is a disturbance."""

_JOB_THREADS = 4
"""Threads of one job at most: on a machine with more cores other jobs run beside it,
and each thread takes memory.
"""

_PROBE_CPU_S = 0.05
"""CPU seconds of each process that measures how long jobs wait: some ten turns of a scheduler."""

_PROBE_TIMEOUT_S = 5.0

_PROBE = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.setsid()
        began, used = time.perf_counter(), time.process_time()
        while time.process_time() < used + float(sys.argv[2]):
            sum(range(10_000))
        took_s = time.perf_counter() - began
        os.write(1, b"%f\\n" % (took_s / (time.process_time() - used)))
        os._exit(0)
for _ in range(int(sys.argv[1])):
    os.wait()
"""
"""Starts as many processes as its first argument says, each in a session of its own, as jobs have.
Each works for the CPU seconds of the second argument and prints its wall seconds over them.
"""


def usable_cores(for_job: bool = False) -> int:
    """Return how many processors this process may use:
    an affinity mask or a quota can grant fewer than exist.

    A job that runs beside others takes a few of them (``for_job``). A part of a processor counts
    as one: a quota of 1.5 lets two jobs run side by side, a quota of 0.5 one.
    """
    if hasattr(os, "sched_getaffinity"):
        granted = len(os.sched_getaffinity(0))
    else:
        granted = os.cpu_count() or 1
    quota = read_quota_cores()
    if quota is not None:
        granted = min(granted, math.ceil(quota))
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
    quota = read_quota_cores()
    return 1.0 if quota is None else min(1.0, quota)


def measure_slowdown(jobs: int) -> float:
    """Return the wall seconds that ``jobs`` side by side take now for a CPU second, at least 1.

    Processes like those of jobs work for a moment. How busy other programs keep the processors
    would not tell it: a scheduler may share them by program, by session or by control group.
    """
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(jobs), str(_PROBE_CPU_S)]
    try:
        finished = run_program(command, timeout_s=_PROBE_TIMEOUT_S)
    except TimedOut:
        return MOST_SLOWDOWN
    factors = list(map(float, finished.stdout.split()))
    if not factors:
        return 1.0
    return min(MOST_SLOWDOWN, max(1.0, statistics.fmean(factors)))


def read_quota_cores(root: Path = ROOT, listing: Path = LISTING) -> float | None:
    """Return the processors that the CPU quotas of the own control group and those above allow;
    None without one.
    """
    quotas = list[float]()
    for folder in list_groups("cpu", root, listing):
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
