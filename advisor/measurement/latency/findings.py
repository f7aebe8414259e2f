"""The results of ``advisor benchmark`` as values: one for each file, and the ratios between files."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from advisor.core.codec import Written
from advisor.core.units import plural
from advisor.isolation import agent
from advisor.isolation.agent import SustainedDocument
from advisor.measurement import host
from advisor.measurement.latency.end_to_end import Conditions, Pipeline
from advisor.measurement.latency.results import LatencyResult, ModelTiming, Ratio
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
class Sustained(Written):
    """The latency of one file in a run without a pause.

    Attributes:
        threads: number of threads.
        seconds: length of the run in seconds.
        clock: ``CPU time`` at one thread, otherwise ``wall time``.
        span_s: length of the first and of the last part, which are compared.
        windows: equal parts of the time.
        others_cores: processors that other processes kept busy, None if unknown.
    """

    entries = ("*", "first_ms", "last_ms", "ratio")

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


SCHEMA_VERSION = 1


@dataclass(frozen=True)
class FileBenchmark(Written):
    """The results of one file.

    Attributes:
        model: its path as given.
        size_bytes: size of the file.
        arena_bytes: memory that its activations need at once, computed from their lifetimes.
        timing: latency, load time and memory; None if it failed.
        failure: reason of the failure, empty if there is none.
        loaded: latency during a load on the other processors for each thread count; empty if not measured.
        sustained: latency in a run without a pause, None if not measured.
        pipeline: times from an image to an answer, None if not measured.
        detects: the file decodes boxes and drops those that overlap, which its latency includes.
    """

    entries = (
        "model", "size_bytes", "arena_bytes", "failure=failure?", "pipeline", "timing", "loaded", "sustained", "advice",
    )  # fmt: skip

    model: str
    size_bytes: int
    arena_bytes: int
    timing: ModelTiming | None = None
    failure: str = ""
    loaded: tuple[LatencyResult, ...] = ()
    sustained: Sustained | None = None
    pipeline: Pipeline | None = None
    detects: bool = False

    @property
    def advice(self) -> tuple[str, ...]:
        """Advice based on the figures; each sentence contains its evidence."""
        sentences = advise_threads(self.timing, self.loaded) if self.timing else ()
        more = [part.sentence for part in (self.sustained, self.pipeline) if part]
        return (*sentences, *more)


@dataclass(frozen=True)
class Benchmark(Written):
    """One run of ``advisor benchmark``.

    Attributes:
        files: one result for each file, in the given order.
        ratios: each further file relative to the first that ran, for each thread count.
        effort: name of the effort.
        kernels: ``default`` (XNNPACK for the operators that it supports) or ``builtin``.
        conditions: the machine before the measurement.
        host: the machine.
        notes: notes for the reader.
    """

    entries = (
        "schema_version", "files", "ratios", "effort", "kernels", "runtime", "conditions", "host", "notes",
    )  # fmt: skip
    schema_version = SCHEMA_VERSION

    files: tuple[FileBenchmark, ...]
    ratios: tuple[Ratio, ...]
    effort: str
    kernels: str
    conditions: Conditions
    host: host.Host
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[FileBenchmark, ...]:
        """The files that could not be measured."""
        return tuple(file for file in self.files if file.timing is None)

    @property
    def runtime(self) -> str:
        """Package and version of the runtime, empty if nothing ran."""
        return next((file.timing.runtime for file in self.files if file.timing), "")


def advise_threads(timing: ModelTiming, loaded: Sequence[LatencyResult] = ()) -> tuple[str, ...]:
    """Return which thread count is the fastest, and which is the fastest during a background load if it was measured.

    Args:
        timing: the measurement without other load.
        loaded: the same thread counts during a load on the other processors; their wall time counts.
    """
    alone = {result.threads: result for result in timing.results}
    beside = {result.threads: result.wall.median for result in loaded}
    if 1 not in alone or len(alone) < 2:
        return _single(beside)
    contended = [count for count, row in alone.items() if row.contended]
    if contended:
        counts = ", ".join(map(str, contended))
        first = f"the machine was contended at {counts} threads: measure again on a quiet machine to compare counts"
    else:
        first = _fastest({count: row.rank_ms for count, row in alone.items()}, "without other load")
    return (first, _fastest(beside, "during a load on the other processors")) if beside else (first,)


def _single(beside: Mapping[int, float]) -> tuple[str, ...]:
    counts = [f"{plural(count, 'thread')}: {time_ms:.2f} ms" for count, time_ms in beside.items()]
    return (f"during a load on the other processors, {', '.join(counts)}",) if counts else ()


def _fastest(times: Mapping[int, float], where: str) -> str:
    """Name the fastest thread count, and compare it with one thread or with the best of several threads."""
    best = min(times, key=lambda count: times[count])
    if best != 1:
        return (
            f"{best} threads are {times[1] / times[best]:.1f}x faster {where} ({times[1]:.2f} -> {times[best]:.2f} ms)"
        )
    other = min((count for count in times if count != 1), key=lambda count: times[count])
    return f"1 thread is the fastest {where} ({times[1]:.2f} ms): {other} threads take {times[other]:.2f} ms"
