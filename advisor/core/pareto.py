"""Non-dominated evaluations over accuracy (up), latency (down) and size (down)."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.core.evaluation import Evaluation, Status

Costs = tuple[float, ...]


def costs(evaluation: Evaluation) -> Costs | None:
    """Return (negative accuracy in %, latency in ms, size in bytes), to be minimised; None where one is missing."""
    quantities = (evaluation.accuracy, evaluation.latency, evaluation.size)
    if evaluation.status is not Status.OK or any(quantity is None for quantity in quantities):
        return None
    accuracy, latency, size = (quantity.value for quantity in quantities if quantity is not None)
    return (-accuracy, latency, size)


def dominates(first: Costs, second: Costs) -> bool:
    """Return whether ``first`` is nowhere worse than ``second`` and somewhere better."""
    return all(a <= b for a, b in zip(first, second, strict=True)) and first != second


def front(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return the evaluations that no other dominates, fastest first.

    Evaluations that are not ok or lack one of the three figures are excluded; equal points all stay.
    """
    points = [(evaluation, cost) for evaluation in evaluations if (cost := costs(evaluation)) is not None]
    best: list[tuple[Evaluation, Costs]] = []
    for evaluation, cost in sorted(points, key=lambda pair: pair[1]):  # what dominates a point comes before it
        if not any(dominates(other, cost) for _, other in best):
            best.append((evaluation, cost))
    return tuple(evaluation for evaluation, cost in sorted(best, key=lambda pair: (pair[1][1], pair[0].configuration)))
