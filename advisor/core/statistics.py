"""Intervals for measured shares and for differences between two candidates scored on the same images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

RESAMPLES = 2000
"""Bootstrap resamples."""

DEVIATIONS = 1.96
"""Standard errors in half of a 95 % interval."""


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its confidence interval.

    Attributes:
        value: the value, a share (0-1) or a difference of shares.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    value: float
    low: float
    high: float

    @property
    def spans_zero(self) -> bool:
        """Return whether the interval contains zero."""
        return self.low <= 0.0 <= self.high


def wilson(successes: float, trials: float, level: float = 0.95) -> Interval:
    """Return the share ``successes / trials`` with Wilson's score interval, all in [0, 1].

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    Raises:
        ValueError: no trials, or successes outside 0..trials.
    """
    if trials <= 0 or not 0 <= successes <= trials:
        raise ValueError(f"wilson: {successes} successes of {trials} trials")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def paired(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return mean(first) - mean(second) over the same images: of answers, or of shares of right answers."""
    if all(value in (0, 1) for value in (*first, *second)):
        return paired_difference([value == 1 for value in first], [value == 1 for value in second])
    return paired_shares(first, second)


def paired_shares(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> Interval:
    """Return mean(first) - mean(second) of shares of the same images, with a percentile bootstrap over the images.

    Use this instead of :func:`paired_difference` where each image was answered several times: the answers to one image
    are not independent.

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"paired_shares: {len(first)} and {len(second)} images")
    import numpy as np

    differences = np.asarray(first, float) - np.asarray(second, float)
    drawn = np.random.default_rng(0).integers(0, len(differences), (RESAMPLES, len(differences)))
    means = differences[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    value = float(differences.mean())
    return Interval(value, min(float(low), value), max(float(high), value))


def paired_difference(first: Sequence[bool], second: Sequence[bool], level: float = 0.95) -> Interval:
    """Return mean(first) - mean(second) over the same images with a percentile bootstrap interval.

    Images on which both agree add nothing, so only the counts of the three outcomes (+1, 0, -1) are resampled.
    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979).

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"paired_difference: {len(first)} and {len(second)} images")
    total = len(first)
    wins = sum(a and not b for a, b in zip(first, second, strict=True))
    losses = sum(b and not a for a, b in zip(first, second, strict=True))
    value = (wins - losses) / total
    if wins + losses == 0:
        return Interval(0.0, 0.0, 0.0)
    import numpy as np

    shares = [wins / total, losses / total, 1 - (wins + losses) / total]
    outcomes = np.random.default_rng(0).multinomial(total, shares, size=RESAMPLES)
    means = (outcomes[:, 0] - outcomes[:, 1]) / total
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, min(float(low), value), max(float(high), value))
