"""Collect the profiled runs of a file, select the undisturbed ones,
and check that the operators add up to the whole.

The runs come from the profiler (``profiler_process.py``) if its version is known, else from files
that are cut after each operator (``cuts.py``). Both run in child processes, by their names.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from advisor.core import StageError
from advisor.isolation import agent
from advisor.measurement._processes import Reported, call_json

TESTED_RUNTIME = "ai-edge-litert==2.3."
PROFILER = "advisor.measurement._operators.profiler_process:collect_profiled"
CUTTER = "advisor.measurement._operators.cuts:collect_cuts"
BY_CUTS = (
    "timed by cutting the file after each operator, because the profiler of the installed library"
    " cannot be used: the times are rough, and where an operator ran is computed, not measured"
)
ATTEMPTS = 3

TIMEOUT_S = 120.0
BUILTIN_EVENT = 2
# Operators / whole; 0.93-0.99 is usual, and more is not plausible.
REJECT_BELOW = 0.9
REJECT_ABOVE = 1.02
# A run that took more than this times the shortest one was preempted.
UNDISTURBED = 1.2
# Time between two operators; it matters if operators take microseconds.
STEP_GAP_US = 2.0
# Time before the first and after the last operator; 10 % of a run of 150 microseconds.
RUN_GAP_US = 15.0
# XNNPACK's clock drops the fraction of a microsecond (xnn_get_elapsed_time),
# on average half a microsecond.
DROPPED_US = 0.5


class ProfilerEvent(NamedTuple):
    """One event of TensorFlow Lite's profiler:
    kernel, event type, operator as the kernel reports it, microseconds.
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
    """One file and how to run it; the shape is that of the first input,
    if the file does not state it.
    """

    path: Path
    threads: int
    runs: int
    kernels: str
    shape: Sequence[int] | None

    def run(self, function: str, kernels: str, **options: int) -> Collected:
        """Run a profiling process and return its events."""
        shape = list(self.shape) if self.shape else None
        settings = {"threads": self.threads, "kernels": kernels, "shape": shape, **options}
        document = call_json(
            function, TIMEOUT_S, self.path.name, path=str(self.path.absolute()), **settings
        )
        runs = []
        for whole_us, rows in document.pop("runs"):
            events = tuple(ProfilerEvent(*row) for row in rows)
            runs.append(ProfiledRun(whole_us, events))
        return Collected(**document, runs=tuple(runs), kernels=kernels)


@dataclass(frozen=True)
class Collected:
    """All runs of a file by some ``kernels``;
    ``shapes`` of the tensors are None if the file states them.
    """

    runtime: str
    plain_us: Sequence[float]
    shapes: Sequence[Sequence[int]] | None
    runs: tuple[ProfiledRun, ...]
    kernels: str
    notes: tuple[str, ...] = ()


def collect_runs(request: ProfileRequest, by_cuts: bool) -> Collected:
    """Return the profiler's runs, or the run of cuts if ``by_cuts`` is set
    or the profiler fails or crashes.
    """
    notes = [BY_CUTS]
    try:
        if not by_cuts:
            return profile_runs(request)
    except StageError as error:
        if isinstance(error, Reported) and error.kind != "runtime":
            raise
        notes.append(error.message)
    return replace(request.run(CUTTER, request.kernels), notes=tuple(notes))


def profile_runs(request: ProfileRequest) -> Collected:
    """Return the profiler's first runs that add up; the last attempt uses the builtin kernels."""
    name = request.path.name
    attempts = [request.kernels] * ATTEMPTS
    if request.kernels != "builtin":
        attempts.append("builtin")
    share = 0.0
    for kernels in attempts:
        collected = request.run(PROFILER, kernels, runs=request.runs)
        if not collected.runs or not collected.runs[0].events:
            raise _unsupported_error(
                f"{name}: the profiler of {collected.runtime} reported no operators"
            )
        good = select_undisturbed(collected.runs)
        share = measure_coverage(good)
        if adds_up(good):
            return replace(
                collected, notes=_list_notes(collected.runtime, request.kernels, kernels, share)
            )
    raise _unsupported_error(
        f"{name}: the operators add up to {share:.0%} of the whole in {len(attempts)} attempts"
    )


def select_undisturbed(runs: Sequence[ProfiledRun]) -> list[ProfiledRun]:
    """Return the runs with the most frequent list of events that no other process delayed.

    The three shortest ones are always kept.
    """
    # Without the times: kernel, kind and operator of each event.
    sequences = []
    for run in runs:
        sequences.append(tuple(event[:3] for event in run.events))
    usual = max(set(sequences), key=sequences.count)
    complete = [run for run, sequence in zip(runs, sequences, strict=True) if sequence == usual]
    by_time = sorted(complete, key=lambda run: run.whole_us)
    limit_us = UNDISTURBED * by_time[0].whole_us
    return by_time[:3] + [run for run in by_time[3:] if run.whole_us <= limit_us]


def take_undisturbed_median(values: Sequence[float]) -> float:
    """Return the median of the values that are close to the smallest."""
    least = min(values)
    return statistics.median(value for value in values if value <= UNDISTURBED * least)


def operator_times(runs: Sequence[ProfiledRun]) -> list[float]:
    """Return the interquartile mean of each event over the runs, in microseconds."""
    means = []
    for events in zip(*(run.events for run in runs), strict=True):
        means.append(interquartile_mean([event.true_us for event in events]))
    return means


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (of all if they are fewer than four)."""
    ordered = sorted(values)
    cut = len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def measure_coverage(runs: Sequence[ProfiledRun]) -> float:
    """Return the median over the runs of the sum of the operators divided by the whole;
    0 if the whole is missing.
    """
    shares = []
    for run in runs:
        share = run.operators_us / run.whole_us if run.whole_us else 0.0
        shares.append(share)
    return statistics.median(shares)


def adds_up(runs: Sequence[ProfiledRun]) -> bool:
    """Return True if the operators add up to the whole:
    within 0.9-1.02, or within the clock's steps for short runs.
    """
    if REJECT_BELOW <= measure_coverage(runs) <= REJECT_ABOVE:
        return True
    gap_us = statistics.median(run.whole_us - run.operators_us for run in runs)
    steps = len(runs[0].events) + 1
    return -DROPPED_US * steps <= gap_us <= STEP_GAP_US * steps + RUN_GAP_US


def count_partitions(events: Sequence[ProfilerEvent]) -> int:
    """Return how often the run enters the delegate:
    its index starts again, or a builtin kernel came before.
    """
    partitions = 0
    last = -1
    for event in events:
        if not event.builtin and (last < 0 or event.operator <= last):
            partitions += 1
        last = -1 if event.builtin else event.operator
    return partitions


def _unsupported_error(message: str) -> Reported:
    """Return the error of a profiler whose events are not plausible."""
    return Reported(message, f"the profiler is tested with {TESTED_RUNTIME}x", "runtime")


def _list_notes(runtime: str, requested: str, used: str, share: float) -> tuple[str, ...]:
    notes = []
    if not runtime.startswith(TESTED_RUNTIME):
        notes.append(
            f"{runtime} is not the tested runtime ({TESTED_RUNTIME}x), but the operators add up to"
            " the whole"
        )
    if used != requested:
        notes.append(
            "XNNPACK's events did not add up to the whole: these are the builtin kernels, which"
            " are slower"
        )
    if share < REJECT_BELOW:
        notes.append(
            f"the operators add up to {share:.0%} only, because the run is short for a clock of"
            " microseconds"
        )
    return tuple(notes)


def resolve_shapes(path: str, shape: list[int]) -> list[list[int]]:
    """Return the shape of every tensor of the main graph once the first input has ``shape``."""
    interpreter = agent.new_interpreter(path, 1, "builtin")
    try:
        agent.resize_input(interpreter, shape)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise agent.AgentError(
            "shape", f"the file cannot run with the shape {shape}: {agent.one_line(error)}"
        ) from error
    details = sorted(interpreter.get_tensor_details(), key=lambda detail: detail["index"])
    return [list(map(int, detail["shape"])) for detail in details]
