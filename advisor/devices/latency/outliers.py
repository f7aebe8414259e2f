"""Find measurements of a target that contradict its others: another network, another input, a slow run."""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log, pi

import numpy as np

from advisor.devices.latency.contrasts import Indices
from advisor.devices.latency.kernels import Floats, inverse

DEGREES_OF_FREEDOM = 4
"""Degrees of freedom of the Student t distribution of residuals: one unusual run does not decide which targets are
similar."""

WRONG_SHARE = 0.05
"""Share of measurements that are wrong, before they are compared: 45 of 9,143 shipped rows are flagged for it, and
people mistake names and units more often."""

WRONG_RANGE = log(1e2)
"""Range (log) in which a wrong latency lies: seconds for milliseconds are a factor of 1000."""

_AT_MOST = 3
"""At most one of this many measurements can be wrong; otherwise nothing tells which ones are right."""

DOUBTED = 0.5
"""A measurement that is more likely wrong than right is named."""

_POSSIBLE = 0.05


def student(squares: Floats, log_determinant: Floats | float, n: int) -> Floats:
    """Return the log density of n values under a multivariate Student t distribution.

    Args:
        squares: squared distances of the values by their precision.
        log_determinant: of the precision.
        n: number of values.
    """
    freedom = DEGREES_OF_FREEDOM
    constant = lgamma((freedom + n) / 2) - lgamma(freedom / 2) - n / 2 * log(pi * freedom)
    out: Floats = constant + 0.5 * log_determinant - 0.5 * (freedom + n) * np.log1p(squares / freedom)
    return out


def agreeing(prior: Floats, residuals: Floats, covers: Sequence[Floats]) -> list[tuple[float, Indices]]:
    """Return which measurements to believe: sets of them, each with its probability.

    One measurement after the other is set aside while that explains the rest better than chance would
    (:data:`WRONG_SHARE`). Usually no measurement is: then one set of all has the probability 1.

    Args:
        prior: (candidates,) log weight of each reference.
        residuals: (candidates, n) the measurements minus the reference's.
        covers: for each scale of deviation, the covariance (n, n) of the measurements.
    """
    kept = np.arange(residuals.shape[1])
    for _ in range(len(kept) // _AT_MOST):
        shown = residuals[:, kept]
        logs = _without_each(prior, shown, [cover[np.ix_(kept, kept)] for cover in covers])
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        best = int(np.argmax(chances[1:]))
        if chances[1 + best] > DOUBTED:
            kept = np.delete(kept, best)
            continue
        possible = np.flatnonzero(chances >= _POSSIBLE)
        total = float(chances[possible].sum())
        return [(float(chances[i]) / total, np.delete(kept, i - 1) if i else kept) for i in possible]
    return [(1.0, kept)]


def _without_each(prior: Floats, residuals: Floats, covers: Sequence[Floats]) -> Floats:
    """Return the log evidence (1 + n,) that all measurements are right, and that each one is wrong.

    What one measurement adds to the squared distance and to the determinant follows from the inverse.
    """
    n = residuals.shape[1]
    found = []
    for cover in covers:
        precision = inverse(cover)
        diagonal = np.diag(precision)
        log_determinant = float(np.linalg.slogdet(precision)[1])
        products = residuals @ precision
        squares = (products * residuals).sum(axis=1)
        left = squares[:, None] - np.square(products) / diagonal
        alone = student(np.maximum(left, 0.0), log_determinant - np.log(diagonal), n - 1)
        found.append(prior[:, None] + np.column_stack([student(squares, log_determinant, n), alone]))
    logs = np.concatenate(found)
    top = logs.max(axis=0)
    evidence: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
    evidence[0] += log(1 - WRONG_SHARE)
    evidence[1:] += log(WRONG_SHARE) - log(WRONG_RANGE)
    return evidence
