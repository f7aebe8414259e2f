"""Measure whether a file keeps its speed: run it without a pause and compare the last part with the first."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from advisor.devices.connections import agent
from advisor.devices.connections.agent import SustainedDocument
from advisor.measurement.latency.timing import DEFAULT, Setup
from advisor.measurement.processes.child import run_json
from advisor.measurement.processes.model_file import existing_model

WINDOWS = 30
SPAN_S = 60.0  # compare the first and last minute, or the first and last fifth of a run below five minutes
SLOWED = 1.05  # a difference within 5 % does not count, as in MLPerf Mobile's rule on replication


@dataclass(frozen=True)
class Window:
    """A part of the time.

    Attributes:
        start_s: seconds from the start of the first run.
        runs: number of runs that began in it.
        median_ms: median of a run in milliseconds.
    """

    start_s: float
    runs: int
    median_ms: float


@dataclass(frozen=True)
class Sustained:
    """The latency of one file in a run without a pause.

    Attributes:
        threads: number of threads.
        seconds: length of the run in seconds.
        clock: ``CPU time`` at one thread, otherwise ``wall time``.
        span_s: length of the first and of the last part, which are compared.
        windows: equal parts of the time.
        others_cores: processors that other processes kept busy, None if unknown.
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
        """Last part divided by first part: 1.3 is 30 % slower at the end."""
        return self.last_ms / self.first_ms

    @property
    def sentence(self) -> str:
        """The result in words, with its figures."""
        spans = f"{self.first_ms:.2f} ms in the first {self.span_s:g} s, {self.last_ms:.2f} ms in the last"
        if self.ratio > SLOWED:
            return f"slows down by {self.ratio - 1:.0%} in a long run: {spans}"
        return f"keeps its speed: {spans} ({self.ratio - 1:+.1%})"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {**asdict(self), "first_ms": self.first_ms, "last_ms": self.last_ms, "ratio": self.ratio}


def sustain(
    model: Path | str, threads: int, seconds: float, setup: Setup = DEFAULT, windows: int = WINDOWS
) -> Sustained:
    """Run a file for ``seconds`` without a pause in a child process.

    Raises:
        UsageError: the file is missing.
        StageError: it cannot be loaded or run.
    """
    path = existing_model(model)
    options = ["--threads", str(threads), "--sustained", str(seconds), "--windows", str(windows), *setup.options()]
    script = [agent.__file__, str(path.absolute()), *options]
    document = cast("SustainedDocument", run_json(script, seconds * 1.5 + 120, path.name, setup.python))
    return Sustained(
        threads=threads,
        seconds=seconds,
        clock="CPU time" if threads == 1 else "wall time",
        span_s=min(SPAN_S, seconds / 5),
        windows=tuple(
            Window(row["start_s"], row["runs"], (row["cpu_ns"] or row["wall_ns"]) / 1e6) for row in document["windows"]
        ),
        others_cores=document["load"]["others_cores"],
    )
