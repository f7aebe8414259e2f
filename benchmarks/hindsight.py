"""What a greedy search would cost that knows every result beforehand: a bound on what a search can reach.

Next is always what adds most hypervolume a second, together with the lighter trainings that its card needs first.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from advisor.engine._scheduling.sampler.hypervolume import hypervolume
from benchmarks.cost_table import Problem, Purse, Row


def in_hindsight(problem: Problem) -> Iterator[Row]:
    """Yield rows in the order that adds most hypervolume a second."""
    points = np.array([row.point for row in problem.answers])
    reference = points.max(axis=0)
    left, done, purse = list(problem.answers), list[Row](), Purse()

    def rate(row: Row) -> float:
        steps = [*_before(problem, row, done), row]
        gained = hypervolume(np.array([each.point for each in (*done, *steps) if each.answers]), reference)
        return (gained - reached) / max(purse.due(steps), 1e-6)

    while left:
        reached = hypervolume(np.array([row.point for row in done if row.answers]), reference) if done else 0.0
        best = max(left, key=rate)
        for row in (*_before(problem, best, done), best):
            purse.pay(row)
            done.append(row)
            yield row
        left = [row for row in left if row not in done]


def _before(problem: Problem, row: Row, done: Sequence[Row]) -> list[Row]:
    """Return what the card must have done before, the lightest training first."""
    below = problem.trainings[: problem.trainings.index(row.training)]
    return [
        each
        for training in below
        for each in problem.rows.values()
        if each.card == row.card and each.training == training and each not in done
    ]
