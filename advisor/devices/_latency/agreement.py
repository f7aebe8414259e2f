"""Tell which measurements of a target agree, and which are more likely wrong than right.

People mistake names and units, and a device may have been busy. The posterior believes the sets of
measurements that :func:`choose_agreeing` returns, and the predictor (``model.py``) names those
that it doubts. Other constants give other predictions with other errors: then write
``prediction_calibration.json`` again (``benchmarks/make_device_profiles.py``).
"""

from collections.abc import Sequence
from math import lgamma, log, pi

import numpy as np

from advisor.devices._latency.base import Indices
from advisor.devices._latency.model_space import Floats, invert_matrix

DEGREES_OF_FREEDOM = 4
"""Degrees of freedom of the Student t distribution of residuals:
one unusual run does not decide which targets are similar.
"""

WRONG_SHARE = 0.05
"""Share of measurements that are wrong, before they are compared. Of the 12,115 shipped rows 45
are flagged as ``unexplained``, and people mistake names and units more often.
"""

# Range (log) in which a wrong latency lies: seconds for milliseconds are a factor of 1000.
WRONG_RANGE = log(1e2)
# At most one of this many measurements can be wrong; otherwise nothing tells which ones are right.
_AT_MOST = 3
DOUBTED = 0.5  # A measurement that is more likely wrong than right is named

# Probability from which a set of believed measurements is averaged over.
_POSSIBLE = 0.05


def student_density(squares: Floats, log_determinant: Floats | float, n: int) -> Floats:
    """Return the log density of n values under a multivariate Student t distribution.

    ``squares`` are squared distances of the values by their precision,
    ``log_determinant`` is that of the precision.
    """
    freedom = DEGREES_OF_FREEDOM
    constant = lgamma((freedom + n) / 2) - lgamma(freedom / 2) - n / 2 * log(pi * freedom)
    return np.asarray(
        constant + 0.5 * log_determinant - 0.5 * (freedom + n) * np.log1p(squares / freedom)
    )


def choose_agreeing(
    prior: Floats, residuals: Floats, covers: Sequence[Floats]
) -> list[tuple[float, Indices]]:
    """Return which measurements to believe: sets of them, each with its probability.

    One measurement after the other is set aside while that explains the rest better than chance
    would (:data:`WRONG_SHARE`). Usually no measurement is: then one set of all has the probability
    1. ``prior`` (candidates,) is the log weight of each reference, ``residuals`` (candidates, n)
    the measurements minus the reference's, ``covers`` their covariance (n, n) for each scale of
    deviation.
    """
    believed = np.arange(residuals.shape[1])
    for _ in range(len(believed) // _AT_MOST):
        shown = residuals[:, believed]
        logs = _score_without_each(
            prior, shown, [cover[np.ix_(believed, believed)] for cover in covers]
        )
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        best = int(np.argmax(chances[1:]))
        # More likely wrong than right: it is set aside for good, and the rest is compared anew.
        if chances[1 + best] > DOUBTED:
            believed = np.delete(believed, best)
            continue
        # No single suspect: the answer is averaged over the likely ones.
        possible = np.flatnonzero(chances >= _POSSIBLE)
        total = float(chances[possible].sum())
        sets = []
        for place in possible:
            # The first chance is that all are right, the others that one of them is wrong.
            rest = np.delete(believed, place - 1) if place else believed
            sets.append((float(chances[place]) / total, rest))
        return sets
    return [(1.0, believed)]


def _score_without_each(prior: Floats, residuals: Floats, covers: Sequence[Floats]) -> Floats:
    """Return the log evidence (1 + n,) that all measurements are right,
    and that each one is wrong.

    What one measurement adds to the squared distance and
    to the determinant follows from the inverse.
    """
    n = residuals.shape[1]
    logs_by_cover = []
    for cover in covers:
        precision = invert_matrix(cover)
        diagonal = np.diag(precision)
        log_determinant = float(np.linalg.slogdet(precision)[1])
        products = residuals @ precision
        squares = (products * residuals).sum(axis=1)
        # The squared distance without one value, from the whole inverse:
        # an inverse for each would cost n times as much.
        left = squares[:, None] - np.square(products) / diagonal
        alone = student_density(np.maximum(left, 0.0), log_determinant - np.log(diagonal), n - 1)
        logs_by_cover.append(
            prior[:, None] + np.column_stack([student_density(squares, log_determinant, n), alone])
        )
    logs = np.concatenate(logs_by_cover)
    # The usual log-sum-exp: the logs are far below what a float can hold as a power of e.
    top = logs.max(axis=0)
    evidence: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
    evidence[0] += log(1 - WRONG_SHARE)
    evidence[1:] += log(WRONG_SHARE) - log(WRONG_RANGE)
    return evidence
