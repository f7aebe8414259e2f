"""Intervals for measured shares and for differences between two candidates scored on the same pictures."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def spans_zero(self) -> bool:
        """True where the interval does not tell the value from zero."""
        return self.low <= 0.0 <= self.high


def wilson(successes: int, trials: int, level: float = 0.95) -> Interval:
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


def paired_difference(
    first: Sequence[bool], second: Sequence[bool], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Return mean(first) - mean(second) over the same pictures with a percentile bootstrap interval.

    The pictures on which both agree add nothing, so only the counts of the three outcomes (+1, 0, -1) are resampled.
    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979).

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"paired_difference: {len(first)} and {len(second)} pictures")
    total = len(first)
    wins = sum(a and not b for a, b in zip(first, second, strict=True))
    losses = sum(b and not a for a, b in zip(first, second, strict=True))
    value = (wins - losses) / total
    if wins + losses == 0:
        return Interval(0.0, 0.0, 0.0)
    draw = random.Random(seed)
    means = sorted(_resampled_mean(draw, wins, losses, total) for _ in range(resamples))
    tail = (1 - level) / 2
    low, high = means[int(tail * resamples)], means[min(resamples - 1, math.ceil((1 - tail) * resamples) - 1)]
    return Interval(value, min(low, value), max(high, value))


def _resampled_mean(draw: random.Random, wins: int, losses: int, total: int) -> float:
    changed = draw.binomialvariate(total, (wins + losses) / total) if hasattr(draw, "binomialvariate") else _binomial(
        draw, total, (wins + losses) / total
    )
    won = draw.binomialvariate(changed, wins / (wins + losses)) if hasattr(draw, "binomialvariate") else _binomial(
        draw, changed, wins / (wins + losses)
    )
    return (2 * won - changed) / total


def _binomial(draw: random.Random, trials: int, share: float) -> int:
    return sum(draw.random() < share for _ in range(trials))
