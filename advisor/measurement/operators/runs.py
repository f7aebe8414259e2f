"""Collect the profiled runs of a file, select the undisturbed ones, and check that the operators add up to the whole.

The runs come from the profiler if its version is known, else from cutting the file.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from advisor.measurement.processes.child import Reported, call_json

TESTED_RUNTIME = "ai-edge-litert==2.3."
PROFILER = "advisor.measurement.operators.profiler_process"
CUTTER = "advisor.measurement.operators.cut_process"
BY_CUTS = (
    "timed by cutting the file after each operator, because the profiler of the installed library is not supported: "
    "the times are rough, and where an operator ran is computed, not measured"
)
ATTEMPTS = 3


TIMEOUT_S = 120.0
BUILTIN_EVENT = 2
REJECT_BELOW, REJECT_ABOVE = 0.9, 1.02  # operators / whole; 0.93-0.99 is usual, and more is not plausible
UNDISTURBED = 1.2  # a run that took more than this times the shortest one was preempted
STEP_GAP_US = 2.0  # time between two operators; it matters if operators take microseconds
RUN_GAP_US = 15.0  # time before the first and after the last operator; 10 % of a run of 150 microseconds
# XNNPACK's clock drops the fraction of a microsecond (xnn_get_elapsed_time), on average half a microsecond.
DROPPED_US = 0.5


class ProfilerEvent(NamedTuple):
    """One event of the profiler.

    Attributes:
        tag: name of the kernel.
        kind: event type of TensorFlow Lite's profiler.
        operator: index of the operator, as the kernel reports it.
        time_us: its time in microseconds.
    """

    tag: str
    kind: int
    operator: int
    time_us: float

    @property
    def builtin(self) -> bool:
        """True if a builtin kernel reported it."""
        return self.kind == BUILTIN_EVENT

    @property
    def true_us(self) -> float:
        """Its time, plus the fraction that the delegate's clock dropped."""
        return self.time_us + (0.0 if self.builtin else DROPPED_US)


@dataclass(frozen=True)
class ProfiledRun:
    """One profiled run: the time of the whole graph, and the events in order of execution."""

    whole_us: float
    events: tuple[ProfilerEvent, ...]

    @property
    def operators_us(self) -> float:
        """Sum of the operators' times."""
        return sum(event.true_us for event in self.events)


@dataclass(frozen=True)
class ProfileRequest:
    """One file and how to run it.

    Attributes:
        path: the file.
        threads: number of threads.
        runs: profiled runs.
        kernels: ``default`` or ``builtin``.
        shape: shape of the first input, if the file does not state it.
    """

    path: Path
    threads: int
    runs: int
    kernels: str
    shape: Sequence[int] | None

    def run(self, module: str, kernels: str, **options: int) -> Collected:
        """Run a profiling process and return its events."""
        name, path = self.path.name, str(self.path.absolute())
        shape = list(self.shape) if self.shape else None
        document = call_json(
            module, TIMEOUT_S, name, path=path, threads=self.threads, kernels=kernels, shape=shape, **options
        )
        runs = tuple(
            ProfiledRun(whole_us, tuple(ProfilerEvent(*event) for event in events))
            for whole_us, events in document.pop("runs")
        )
        return Collected(**document, runs=runs, kernels=kernels)


@dataclass(frozen=True)
class Collected:
    """All runs of a file.

    Attributes:
        runtime: package and version.
        plain_us: times of runs without the profiler.
        shapes: shapes of the tensors, None if the file states them.
        runs: the profiled runs.
        kernels: the kernels that ran: ``default`` or ``builtin``.
        notes: notes for the reader.
    """

    runtime: str
    plain_us: Sequence[float]
    shapes: Sequence[Sequence[int]] | None
    runs: tuple[ProfiledRun, ...]
    kernels: str
    notes: tuple[str, ...] = ()


def collect(request: ProfileRequest, by_cuts: bool) -> Collected:
    """Return the profiler's runs, or the run of cuts if ``by_cuts`` is set or there is no profiler.

    Raises:
        StageError: the file cannot be run.
    """
    try:
        if not by_cuts:
            return profiled(request)
    except Reported as error:
        if error.kind != "runtime":
            raise
    return replace(request.run(CUTTER, request.kernels), notes=(BY_CUTS,))


def profiled(request: ProfileRequest) -> Collected:
    """Return the profiler's first runs that add up; the last attempt uses the builtin kernels.

    Raises:
        Reported: the library's profiler is not supported, or the file cannot be run.
    """
    name = request.path.name
    tried = [request.kernels] * ATTEMPTS + (["builtin"] if request.kernels != "builtin" else [])
    found = 0.0
    for kernels in tried:
        collected = request.run(PROFILER, kernels, runs=request.runs)
        if not collected.runs or not collected.runs[0].events:
            raise _unsupported(f"{name}: the profiler of {collected.runtime} reported no operators")
        good = undisturbed(collected.runs)
        found = coverage(good)
        if adds_up(good):
            return replace(collected, notes=_notes(collected.runtime, request.kernels, kernels, found))
    raise _unsupported(f"{name}: the operators add up to {found:.0%} of the whole in {len(tried)} attempts")


def undisturbed(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    """Return the runs with the most frequent list of events that no other process delayed.

    The three shortest ones are always kept.
    """
    shapes = [tuple(event[:3] for event in run.events) for run in runs]
    usual = max(set(shapes), key=shapes.count)
    alike = [run for run, shape in zip(runs, shapes, strict=True) if shape == usual]
    shortest = sorted(alike, key=lambda run: run.whole_us)
    limit = UNDISTURBED * shortest[0].whole_us
    return [run for position, run in enumerate(shortest) if position < 3 or run.whole_us <= limit]


def undisturbed_median(values: Sequence[float]) -> float:
    """Return the median of the values that are close to the smallest."""
    least = min(values)
    return statistics.median(value for value in values if value <= UNDISTURBED * least)


def operator_times(runs: Sequence[ProfiledRun]) -> list[float]:
    """Return the interquartile mean of each event over the runs, in microseconds."""
    columns = zip(*(run.events for run in runs), strict=True)
    return [interquartile_mean([event.true_us for event in column]) for column in columns]


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (of all if they are fewer than four)."""
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def coverage(runs: Sequence[ProfiledRun]) -> float:
    """Return the median over the runs of the sum of the operators divided by the whole; 0 if the whole is missing."""
    return statistics.median(run.operators_us / run.whole_us if run.whole_us else 0.0 for run in runs)


def adds_up(runs: Sequence[ProfiledRun]) -> bool:
    """Return True if the operators add up to the whole: within 0.9-1.02, or within the clock's steps for short runs."""
    if REJECT_BELOW <= coverage(runs) <= REJECT_ABOVE:
        return True
    gap_us = statistics.median(run.whole_us - run.operators_us for run in runs)
    steps = len(runs[0].events) + 1
    return -DROPPED_US * steps <= gap_us <= STEP_GAP_US * steps + RUN_GAP_US


def partitions(events: Sequence[ProfilerEvent]) -> int:
    """Return how often the run enters the delegate: its index starts again, or a builtin kernel came before."""
    entered, last = 0, -1
    for event in events:
        if not event.builtin and (last < 0 or event.operator <= last):
            entered += 1
        last = -1 if event.builtin else event.operator
    return entered


def _unsupported(message: str) -> Reported:
    """Return the error of a profiler whose events are not plausible."""
    return Reported(message, f"the profiler is tested with {TESTED_RUNTIME}x", "runtime")


def _notes(runtime: str, requested: str, used: str, found: float) -> tuple[str, ...]:
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x), but the operators add up to the whole")
    if used != requested:
        notes.append("XNNPACK's events did not add up to the whole: these are the builtin kernels, which are slower")
    if found < REJECT_BELOW:
        notes.append(f"the operators add up to {found:.0%} only, because the run is short for a clock of microseconds")
    return tuple(notes)
