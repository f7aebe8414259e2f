"""Check whether the machine is quiet enough for timing, and say why not; or run a background load."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.units import plural
from advisor.isolation.agent import Load
from advisor.isolation.process import ChildProcess
from advisor.measurement.host import read_text

OBSERVED_S = 0.5
PATIENCE_S = 5.0
TOLERATED = 0.5  # processors that others may take from the threads: the usual load of a desktop
# With these drivers, `powersave` still raises the frequency during work (kernel pages of intel_pstate and amd-pstate).
SCALING_POWERSAVE = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})

# The process ends shortly after its parent.
_BURN = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"


@dataclass(frozen=True)
class Conditions:
    """The state of the machine before a measurement.

    Attributes:
        cores: number of processors that this process may use.
        others_cores: how many of them other processes kept busy, None if unknown.
        governor: frequency governor of the first processor, empty if there is none.
        driver: its frequency driver.
        quota_cores: processors that the quota of a container allows, None if there is none.
    """

    cores: int
    others_cores: float | None
    governor: str = ""
    driver: str = ""
    quota_cores: float | None = None

    def objections(self, threads: int) -> tuple[str, ...]:
        """Return the reasons why a timing with this many threads would be meaningless."""
        found = []
        if self.others_cores is not None and self.others_cores > max(0, self.cores - threads) + TOLERATED:
            busy = f"{self.others_cores:.1f} of {self.cores} processors busy"
            found.append(f"other processes keep {busy}, and the timing needs {plural(threads, 'thread')}")
        if self.governor == "powersave" and self.driver not in SCALING_POWERSAVE:
            found.append(f"the frequency governor '{self.governor}' holds the processors at their lowest frequency")
        if self.quota_cores is not None and self.quota_cores < threads:
            found.append(f"the container may use {self.quota_cores:g} processors, fewer than the {threads} asked for")
        return tuple(found)


def observe(seconds: float = OBSERVED_S) -> Conditions:
    """Observe the machine for ``seconds`` and return its conditions."""
    load = Load()
    time.sleep(seconds)
    seen = load.result()
    frequency = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    return Conditions(
        cores=seen["cores"],
        others_cores=seen["others_cores"],
        governor=read_text(frequency / "scaling_governor"),
        driver=read_text(frequency / "scaling_driver"),
        quota_cores=quota(read_text(Path("/sys/fs/cgroup/cpu.max"))),
    )


def require_quiet(threads: Sequence[int], force: bool, patience_s: float = PATIENCE_S) -> Conditions:
    """Return the conditions as soon as the machine is quiet enough for timing; wait for a few seconds.

    Args:
        threads: the thread counts to time.
        force: whether to return at once, even if the machine is busy.
        patience_s: how long to wait.

    Raises:
        UsageError: the machine is not quiet enough, and ``force`` is not set.
    """
    end = time.monotonic() + patience_s
    while True:
        conditions = observe()
        objections = conditions.objections(max(threads))
        if force or not objections:
            return conditions
        if time.monotonic() >= end:
            raise UsageError(
                f"not timed: {'; '.join(objections)}",
                "stop other programs or use fewer threads; with --force, advisor measures, and the verdict says so",
            )


def quota(text: str) -> float | None:
    """Return how many processors a cgroup's ``cpu.max`` (``<quota> <period>`` or ``max <period>``) allows."""
    fields = text.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]) / int(fields[1])


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep ``count`` processors busy as long as the context lasts."""
    command = [sys.executable, "-I", "-S", "-c", _BURN, str(os.getpid())]
    children = [ChildProcess(command) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
