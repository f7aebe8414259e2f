"""Run one file for a long time without a pause, and say whether it slows down.

The agent runs it in a child process and returns the median of each of some equal parts of the
time. The fields of :class:`Sustained` are keys of the document of ``advisor benchmark``.
"""

import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.core import Written
from advisor.isolation import SustainedDocument, agent
from advisor.measurement._latency.interpreter_options import InterpreterOptions
from advisor.measurement._latency.timing import DEFAULT
from advisor.measurement._processes import existing_model, run_json

WINDOWS = 30
# Compare the first and last minute, or the first and last fifth of a run below five minutes.
SPAN_S = 60.0
# A difference within 5 % does not count, as in MLPerf Mobile's rule on replication.
SLOWED = 1.05


@dataclass(frozen=True)
class Window:
    """A part of the time."""

    start_s: float  #: seconds from the start of the first run
    runs: int  #: number of runs that began in it
    median_ms: float  #: median of a run in milliseconds


@dataclass(frozen=True)
class Sustained(Written):
    """The latency of one file in a run without a pause."""

    entries = ("*", "first_ms", "last_ms", "ratio")

    threads: int  #: number of threads
    seconds: float  #: length of the run in seconds
    clock: str  #: ``CPU time`` at one thread, otherwise ``wall time``
    span_s: float  #: length of the first and of the last part, which are compared
    windows: tuple[Window, ...]  #: equal parts of the time
    others_cores: float | None  #: processors that other processes kept busy, None if unknown

    @property
    def first_ms(self) -> float:
        """Median of a run in the first part."""
        return self._median_between(0.0, self.span_s)

    @property
    def last_ms(self) -> float:
        """Median of a run in the last part."""
        begin = self.windows[-1].start_s - self.span_s + self.seconds / len(self.windows)
        return self._median_between(begin - 1e-3, math.inf)

    def _median_between(self, start_s: float, end_s: float) -> float:
        """Return the median of the windows that start in a part of the time."""
        medians = []
        for window in self.windows:
            if start_s <= window.start_s < end_s:
                medians.append(window.median_ms)
        return statistics.median(medians)

    @property
    def ratio(self) -> float:
        """Last part divided by first part: 1.3 is 30 % slower at the end."""
        return self.last_ms / self.first_ms

    @property
    def sentence(self) -> str:
        """The result in words, with its figures."""
        spans = (
            f"{self.first_ms:.2f} ms in the first {self.span_s:g} s, {self.last_ms:.2f} ms in the"
            " last"
        )
        if self.ratio > SLOWED:
            return f"slows down by {self.ratio - 1:.0%} in a long run: {spans}"
        return f"keeps its speed: {spans} ({self.ratio - 1:+.1%})"


def run_sustained(
    model: Path | str,
    threads: int,
    seconds: float,
    setup: InterpreterOptions = DEFAULT,
    windows: int = WINDOWS,
) -> Sustained:
    """Run a file for ``seconds`` without a pause in a child process;
    errors are those of :func:`.timing.measure`.
    """
    path = existing_model(model)
    options = ["--threads", str(threads), "--sustained", str(seconds), "--windows", str(windows)]
    script = [agent.__file__, str(path.absolute()), *options, *setup.options()]
    limit_s = seconds * 1.5 + 120
    document = cast("SustainedDocument", run_json(script, limit_s, path.name, setup.python))
    parts = []
    for row in document["windows"]:
        # At several threads there is no CPU time of a run.
        median_ms = (row["cpu_ns"] or row["wall_ns"]) / 1e6
        parts.append(Window(row["start_s"], row["runs"], median_ms))
    clock = "CPU time" if threads == 1 else "wall time"
    span_s = min(SPAN_S, seconds / 5)
    return Sustained(
        threads, seconds, clock, span_s, tuple(parts), document["load"]["others_cores"]
    )
