"""Does a file keep its speed? It runs without a rest, and the last part of that time is held against the first."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.devices.connections import agent
from advisor.measurement.latency.timing import DEFAULT, Setup
from advisor.measurement.processes.child import existing_model, run_json

WINDOWS = 30
SPAN_S = 60.0  # first and last minute are compared; a fifth of the time where it is shorter than five minutes
SLOWED = 1.05  # within 5 % counts as the same, as MLPerf Mobile's rule on replication


@dataclass(frozen=True)
class Window:
    """A part of the time: when it began, its runs and the median of a run in milliseconds."""

    start_s: float
    runs: int
    median_ms: float


@dataclass(frozen=True)
class Sustained:
    """How one file did while it ran without a rest.

    Attributes:
        threads: number of threads.
        seconds: how long.
        clock: ``CPU time`` at one thread, which other processes hardly touch, else ``wall time``.
        span_s: how long the first and the last part are that are compared.
        windows: equal parts of the time.
        others_cores: processors that other processes kept busy meanwhile, None where unknown.
    """

    threads: int
    seconds: float
    clock: str
    span_s: float
    windows: tuple[Window, ...]
    others_cores: float | None

    @property
    def first_ms(self) -> float:
        """Median of a run in the first part."""
        return statistics.median(row.median_ms for row in self.windows if row.start_s < self.span_s)

    @property
    def last_ms(self) -> float:
        """Median of a run in the last part."""
        begin = self.windows[-1].start_s - self.span_s + self.seconds / len(self.windows)
        return statistics.median(row.median_ms for row in self.windows if row.start_s >= begin - 1e-3)

    @property
    def ratio(self) -> float:
        """Last part / first part: 1.3 is 30 % slower at the end."""
        return self.last_ms / self.first_ms

    @property
    def sentence(self) -> str:
        """What came of it, with the figures."""
        spans = f"{self.first_ms:.2f} ms in the first {self.span_s:g} s, {self.last_ms:.2f} ms in the last"
        if self.ratio > SLOWED:
            return f"slows down by {self.ratio - 1:.0%} when it runs on: {spans}"
        return f"keeps its speed: {spans} ({self.ratio - 1:+.1%})"


def sustain(
    model: Path | str, threads: int, seconds: float, setup: Setup = DEFAULT, windows: int = WINDOWS
) -> Sustained:
    """Run a file for ``seconds`` without a rest, in a child process.

    Raises:
        UsageError: the file is missing.
        StageError: it cannot be loaded or run.
    """
    path = existing_model(model)
    options = ["--threads", str(threads), "--sustained", str(seconds), "--windows", str(windows), *setup.options()]
    arguments = [str(path.absolute()), *options]
    document = run_json(Path(agent.__file__), arguments, seconds * 1.5 + 120, path.name, setup.python)
    by_cpu = threads == 1
    return Sustained(
        threads=threads,
        seconds=seconds,
        clock="CPU time" if by_cpu else "wall time",
        span_s=min(SPAN_S, seconds / 5),
        windows=_windows(document["windows"], "cpu_ns" if by_cpu else "wall_ns"),
        others_cores=document["load"]["others_cores"],
    )


def _windows(rows: Sequence[dict[str, Any]], clock: str) -> tuple[Window, ...]:
    return tuple(Window(row["start_s"], row["runs"], row[clock] / 1e6) for row in rows)
