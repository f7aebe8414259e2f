"""Evaluate profiled runs: select the undisturbed ones, compute the time of each operator, and check their sum."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

BUILTIN_EVENT = 2
REJECT_BELOW, REJECT_ABOVE = 0.9, 1.02  # operators / whole; 0.93-0.99 is usual, and more is not plausible
UNDISTURBED = 1.2  # a run that took more than this times the shortest one was preempted
STEP_GAP_US = 2.0  # time between two operators; it matters if operators take microseconds
RUN_GAP_US = 15.0  # time before the first and after the last operator; 10 % of a run of 150 microseconds
# XNNPACK's clock drops the fraction of a microsecond (xnn_get_elapsed_time), on average half a microsecond.
DROPPED_US = 0.5


class Event(NamedTuple):
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
        """Whether a builtin kernel reported it."""
        return self.kind == BUILTIN_EVENT

    @property
    def true_us(self) -> float:
        """Its time, plus the fraction that the delegate's clock dropped."""
        return self.time_us + (0.0 if self.builtin else DROPPED_US)


@dataclass(frozen=True)
class Run:
    """One profiled run: the time of the whole graph, and the events in order of execution."""

    whole_us: float
    events: tuple[Event, ...]

    @property
    def operators_us(self) -> float:
        """Sum of the operators' times."""
        return sum(event.true_us for event in self.events)


def undisturbed(runs: Sequence[Run]) -> list[Run]:
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


def operator_times(runs: Sequence[Run]) -> list[float]:
    """Return the interquartile mean of each event over the runs, in microseconds."""
    columns = zip(*(run.events for run in runs), strict=True)
    return [interquartile_mean([event.true_us for event in column]) for column in columns]


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (of all if they are fewer than four)."""
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def coverage(runs: Sequence[Run]) -> float:
    """Return the median over the runs of the sum of the operators divided by the whole; 0 if the whole is missing."""
    return statistics.median(run.operators_us / run.whole_us if run.whole_us else 0.0 for run in runs)


def adds_up(runs: Sequence[Run]) -> bool:
    """Return True if the operators add up to the whole: within 0.9-1.02, or within the clock's steps for short runs."""
    if REJECT_BELOW <= coverage(runs) <= REJECT_ABOVE:
        return True
    gap_us = statistics.median(run.whole_us - run.operators_us for run in runs)
    steps = len(runs[0].events) + 1
    return -DROPPED_US * steps <= gap_us <= STEP_GAP_US * steps + RUN_GAP_US


def partitions(events: Sequence[Event]) -> int:
    """Return how often the run enters the delegate: its index starts again, or a builtin kernel came before."""
    entered, last = 0, -1
    for event in events:
        if not event.builtin and (last < 0 or event.operator <= last):
            entered += 1
        last = -1 if event.builtin else event.operator
    return entered
