"""Run a program as a slower machine would: with a quota of CPU time, and on fewer cores.

The kernel's control groups give the quota (version 2, or version 1 with its controller ``cpu``), which needs the rights
of the administrator. A program with half of the CPU time of two cores takes about as long as on two cores of half the
speed; its caches and its memory stay as fast as they are.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
WEIGHT = 100  # Of the program over that of one process of another program
LEAVING_S = 10.0
"""Seconds in which the processes of a program that has ended leave its group."""


@dataclass(frozen=True)
class Speed:
    """A machine to run as: ``share`` (0-1) of the CPU time of ``cores`` cores; None for all cores."""

    share: float = 1.0
    cores: int | None = None

    @property
    def used_cores(self) -> list[int]:
        """The numbers of the cores that a program may use; SystemExit if there are fewer."""
        usable = sorted(os.sched_getaffinity(0))
        if self.cores is not None and self.cores > len(usable):
            raise SystemExit(f"--cores: this machine has {len(usable)} cores, not {self.cores}")
        return usable[: self.cores]

    @property
    def name(self) -> str:
        """Its name in a row, such as ``speed 0.5, 1 core``; empty for the whole machine."""
        parts = [f"speed {self.share:g}"] if self.share < 1.0 else []
        if self.cores is not None:
            parts.append(f"{self.cores} core{'' if self.cores == 1 else 's'}")
        return ", ".join(parts)


WHOLE = Speed()
"""The whole machine."""


@contextlib.contextmanager
def limited(speed: Speed) -> Iterator[None]:
    """Limit this process and what it starts; the limits end with the block. SystemExit where no quota can be set."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, speed.used_cores)
    try:
        with _with_quota(round(speed.share * len(speed.used_cores) * PERIOD_US)) if speed.share < 1.0 else _free():
            yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _free() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _with_quota(quota_us: int) -> Iterator[None]:
    """Move this process into a group with so many microseconds of CPU time in each period, and back."""
    version_2 = (GROUPS / "cgroup.controllers").is_file()
    root = GROUPS if version_2 else GROUPS / "cpu"
    group = root / f"advisor-speed-{os.getpid()}"
    try:
        group.mkdir()
        # The program gets its whole quota beside others: one process of theirs would weigh as much as the group.
        weight = ("cpu.weight", 100 * WEIGHT) if version_2 else ("cpu.shares", 1024 * WEIGHT)
        (group / weight[0]).write_text(str(weight[1]))
        if version_2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise SystemExit(f"--speed needs a control group of the kernel in '{root}': {error.strerror}") from error
    try:
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        _remove(group)


def _remove(group: Path) -> None:
    until = time.monotonic() + LEAVING_S
    while group.exists() and time.monotonic() < until:
        try:
            group.rmdir()
        except OSError:  # a process of the program is about to end
            time.sleep(0.1)
