"""The raw runs of a profiled file: which were disturbed, what each operator took, and whether they add up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from advisor.measurement.operators.attribution import Seen

BUILTIN_EVENT = 2
REJECT_BELOW, REJECT_ABOVE = 0.9, 1.02  # operators / whole; 0.93-0.99 is usual, more cannot be
UNDISTURBED = 1.2  # runs whose whole took more than this times the shortest were preempted
STEP_GAP_US = 2.0  # beside an operator, a run may lose so much between two: counts where operators take microseconds
RUN_GAP_US = 15.0  # and so much on entering and leaving: 10 % of a run of 150 microseconds, nothing of longer ones
# XNNPACK's clock drops the fraction of a microsecond (xnn_get_elapsed_time), half of one on average.
DROPPED_US = 0.5


def undisturbed(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs with the most usual list of events whose whole was not stretched by another process.

    At least three are kept where there are so many, the shortest ones.
    """
    shapes = [tuple((tag, kind, index) for tag, kind, index, _ in run["events"]) for run in runs]
    usual = max(set(shapes), key=shapes.count)
    alike = [run for run, shape in zip(runs, shapes, strict=True) if shape == usual]
    shortest = sorted(alike, key=lambda run: float(run["whole_us"]))
    limit = UNDISTURBED * shortest[0]["whole_us"]
    return [run for place, run in enumerate(shortest) if place < 3 or run["whole_us"] <= limit]


def undisturbed_median(values: Sequence[float]) -> float:
    """Return the median of the values that are not far above the least."""
    least = min(values)
    return statistics.median(value for value in values if value <= UNDISTURBED * least)


def operator_times(runs: Sequence[dict[str, Any]]) -> list[float]:
    """Return each event's interquartile mean over the runs, in microseconds."""
    columns = zip(*(map(_event_us, run["events"]) for run in runs), strict=True)
    return [interquartile_mean(list(column)) for column in columns]


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (of all, where they are fewer than four).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def coverage(runs: Sequence[dict[str, Any]]) -> float:
    """Return the median over the runs of the sum of the operators / the whole; 0 where a whole is missing."""
    ratios = [sum(map(_event_us, run["events"])) / run["whole_us"] if run["whole_us"] else 0.0 for run in runs]
    return statistics.median(ratios)


def adds_up(runs: Sequence[dict[str, Any]]) -> bool:
    """Tell whether the operators make up the whole, within 0.9-1.02 or within the clock's steps for very short runs."""
    if REJECT_BELOW <= coverage(runs) <= REJECT_ABOVE:
        return True
    gaps = [run["whole_us"] - sum(map(_event_us, run["events"])) for run in runs]
    steps = len(runs[0]["events"]) + 1
    return bool(-DROPPED_US * steps <= statistics.median(gaps) <= STEP_GAP_US * steps + RUN_GAP_US)


def partitions(events: Sequence[Seen]) -> int:
    """Return how many times the run enters the delegate: its own index starts anew, or a builtin kernel came before."""
    entered, last = 0, -1
    for event in events:
        if not event.builtin and (last < 0 or event.index <= last):
            entered += 1
        last = -1 if event.builtin else event.index
    return entered


def _event_us(event: Sequence[Any]) -> float:
    """Return an event's time with what the delegate's clock dropped."""
    return float(event[3]) + (0.0 if event[1] == BUILTIN_EVENT else DROPPED_US)
