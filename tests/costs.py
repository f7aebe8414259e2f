"""Print what a test run cost: its slowest tests, and the seconds of each folder."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import psutil
import pytest

SLOWEST = 25  # Tests that are printed
PROPERTY = "cpu_s"  # What a worker sends with the report of a test
SHORT_S = 0.5  # A test that takes less is counted with the next one: a look at all processes costs milliseconds

Seconds = dict[psutil.Process, tuple[float, float]]
"""CPU seconds of each process: its own, and these with those of its children that ended."""


@dataclass
class Cost:
    """Seconds of a test or a folder: by the clock, and of all processors that it used."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    set_up_s: float = 0.0  #: the part of the wall time before the test itself


class CostReport:
    """Measures each test with its set-up and tear-down, and prints the sums at the end.

    CPU seconds count the worker and its child processes, also those of a fork server: the summary of a busy machine
    can then be compared with that of an idle one. A set-up that is shared counts for the test that came first.
    """

    def __init__(self) -> None:
        self._tests: dict[str, Cost] = defaultdict(Cost)
        self._looked_at = 0.0
        self._seconds: Seconds = {}
        self._with_children: bool | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the CPU seconds before a test: those after the last one, if they count the same processes."""
        if self._with_children != _starts_processes(item):
            self._look(item)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
        """Send the CPU seconds of a test with its last report."""
        report: pytest.TestReport = yield
        if call.when == "teardown" and time.monotonic() - self._looked_at > SHORT_S:
            before = self._seconds
            self._look(item)
            report.user_properties.append((PROPERTY, _spent_s(before, self._seconds)))
        return report

    def _look(self, item: pytest.Item) -> None:
        self._with_children = _starts_processes(item)
        self._seconds = _cpu_seconds(self._with_children)
        self._looked_at = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the reports of a test; with several workers, the controller gets those of all."""
        cost = self._tests[report.nodeid]
        cost.wall_s += report.duration
        if report.when == "setup":
            cost.set_up_s += report.duration
        cost.cpu_s += sum(value for name, value in report.user_properties if name == PROPERTY)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the slowest tests, then the folders."""
        folders: dict[str, Cost] = defaultdict(Cost)
        for name, cost in self._tests.items():
            folder = folders["/".join(PurePosixPath(name.partition("::")[0]).parts[:2])]
            folder.wall_s += cost.wall_s
            folder.cpu_s += cost.cpu_s
            folder.set_up_s += cost.set_up_s
        terminalreporter.section(f"the {SLOWEST} slowest tests, then the folders, in seconds")
        terminalreporter.write_line("  wall set-up    CPU")
        slowest = sorted(self._tests.items(), key=lambda item: item[1].wall_s, reverse=True)[:SLOWEST]
        by_cpu = sorted(folders.items(), key=lambda item: item[1].cpu_s, reverse=True)
        for name, cost in [*slowest, *by_cpu]:
            terminalreporter.write_line(f"{cost.wall_s:6.1f} {cost.set_up_s:6.1f} {cost.cpu_s:6.1f}  {name}")


def _starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("unit") is None


def _cpu_seconds(with_children: bool) -> Seconds:
    """Return the CPU seconds of this process, and of its living descendants where they are asked for."""
    seconds: Seconds = {}
    this = psutil.Process()
    for process in [this, *(this.children(recursive=True) if with_children else ())]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds[process] = (sum(times[:2]), sum(times[:4]))
    return seconds


def _spent_s(before: Seconds, now: Seconds) -> float:
    """Return the CPU seconds between two looks, without those of processes that ended and whose parent ended first."""
    alone_s, with_ended_s = (
        sum(now[process][place] - before.get(process, (0.0, 0.0))[place] for process in now) for place in (0, 1)
    )
    return max(alone_s, with_ended_s - sum(before[process][1] for process in before.keys() - now.keys()))
