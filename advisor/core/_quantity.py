"""A number with its unit, interval and provenance; intervals of shares; latency distributions.

Every figure of an evaluation is a :class:`Quantity`. The fields are entries of
``evaluations.jsonl``, and the order of :data:`SHARES` belongs to the stored quantiles. Bootstraps
have a fixed seed: the same answers always give the same interval.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core._codec import to_json
from advisor.core._image_units import RESAMPLES, ImageUnits
from advisor.core._units import show_ms, show_ms_interval

HALVINGS = 30
ROUNDING = 1e-6
"""Halvings that find a number of independent images; and the points by which equal ends of two
intervals may differ.
"""

DEVIATIONS = 1.96
"""Standard errors in half of a 95 % interval."""

MOST_SUM = 1.5
"""Largest sum of a row of probabilities: those of integer files are rounded up and down."""

CONFIDENCE = 0.9
"""A prediction meets a limit if it does so with this probability;
a measured 90th percentile means the same.
"""

SHARES = (
    0.005,
    0.01,
    0.025,
    0.05,
    *(round(0.1 * tenth, 1) for tenth in range(1, 10)),
    0.95,
    0.975,
    0.99,
    0.995,
)
"""Shares of the quantiles that are kept:
any budget and any confidence can be answered from them later.
"""


class Provenance(StrEnum):
    """Origin of a number, from the strongest evidence to the weakest."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    PUBLISHED = "published"
    ESTIMATED = "estimated"


@dataclass(frozen=True)
class Quantity:
    """A value with its unit, interval and provenance."""

    value: float  #: the number, in ``unit``
    unit: str  #: ``ms``, ``bytes``, ``%`` (0-100) or ``points``
    provenance: Provenance  #: how it was obtained
    low: float | None = None  #: lower end of the interval in ``unit``, or None where none is known
    high: float | None = None  #: upper end of the interval in ``unit``, or None
    level: float | None = None  #: the interval's confidence (0.95 = 95 %), or None
    n: int | None = None  #: number of samples, or None
    source: str = ""  #: the paper, table, host or method
    #: standard error of the value in ``unit``, or None where the interval tells it
    error: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; unknown parts have no entry."""
        return to_json(self)

    @property
    def standard_error(self) -> float | None:
        """The standard error of a measured figure with a 95 % interval; None of others."""
        if self.error is not None:
            return self.error
        if self.provenance is not Provenance.MEASURED or self.low is None or self.high is None:
            return None
        return (self.high - self.low) / (2 * DEVIATIONS)

    @property
    def independent_part(self) -> float:
        """Return how many independent images (0-1) an image is worth in the interval of a share
        in %: less than 1 where images come in groups, see :meth:`.Interval.share_of`.
        """
        if not self.n or self.low is None:
            return 1.0
        share = self.value / 100
        plain = Interval.wilson(share * self.n, self.n)
        if 100 * plain.low <= self.low + ROUNDING:
            return 1.0
        smallest = 0.0
        largest = 1.0
        # The lower end rises with the number of images, so the number is found by halving.
        for _ in range(HALVINGS):
            middle = (smallest + largest) / 2
            images = self.n * middle
            interval = Interval.wilson(share * images, images)
            if 100 * interval.low < self.low:
                smallest = middle
            else:
                largest = middle
        return largest

    def overlaps(self, other: Quantity) -> bool:
        """Return whether two intervals share a point; a missing interval is the value alone."""
        low, high = self._ends
        other_low, other_high = other._ends
        return low <= other_high and other_low <= high

    @property
    def _ends(self) -> tuple[float, float]:
        """The ends of the interval; a missing one is the value."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return low, high


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its confidence interval."""

    value: float  #: the value, a share (0-1) or a difference of shares
    low: float  #: lower end of the interval
    high: float  #: upper end of the interval

    @property
    def spans_zero(self) -> bool:
        """Return whether the interval contains zero."""
        return self.low <= 0.0 <= self.high

    def as_percent(self, images: int, source: str, unit: str = "%") -> Quantity:
        """Return the measured share of some images, in %."""
        value, low, high = (100 * share for share in (self.value, self.low, self.high))
        return Quantity(value, unit, Provenance.MEASURED, low, high, 0.95, images, source)

    def as_drop(self, images: int) -> Quantity:
        """Return what is lost against float32, in points."""
        return self.as_percent(images, "against float32 on the same images", "points")

    @staticmethod
    def wilson(successes: float, trials: float, level: float = 0.95) -> Interval:
        """Return the share ``successes / trials`` with Wilson's score interval, all in [0, 1].

        Source: E. B. Wilson, "Probable inference, the law of succession, and statistical
        inference", JASA 22 (1927). Raises ValueError: no trials, or successes outside 0..trials.
        """
        if trials <= 0 or not 0 <= successes <= trials:
            raise ValueError(f"wilson: {successes} successes of {trials} trials")
        z = NormalDist().inv_cdf(0.5 + level / 2)
        share = successes / trials
        scale = 1 + z * z / trials
        centre = (share + z * z / (2 * trials)) / scale
        variance = share * (1 - share) / trials + z * z / (4 * trials * trials)
        half = z / scale * math.sqrt(variance)
        # Rounding must not leave the share outside of its interval.
        low = min(share, centre - half)
        high = max(share, centre + half)
        return Interval(share, max(0.0, low), min(1.0, high))

    @staticmethod
    def share_of(
        right: Sequence[float] | NDArray[Any], groups: Sequence[Hashable] = ()
    ) -> Interval:
        """Return the share of images (N,) that are 1 and not 0, with Wilson's interval.

        It is that of as many single images as these are worth, see
        :meth:`.ImageUnits.count_independent`; ``groups`` has the group of each image, (N,).
        """
        flags = np.asarray(right, float)
        trials = ImageUnits.of(groups, len(flags)).count_independent(flags)
        share = float(flags.sum()) / len(flags)
        # Rounding must not leave more successes than trials, or change the share.
        ends = Interval.wilson(min(share * trials, trials), trials)
        return Interval(share, min(share, ends.low), max(share, ends.high))

    @staticmethod
    def difference_of_means(
        first: Sequence[float], second: Sequence[float], groups: Sequence[Hashable] = ()
    ) -> Interval:
        """Return mean(first) - mean(second) over the same images:
        of answers, or of shares of right answers.

        ``groups`` has the group of each image, see :meth:`paired_shares`.
        """
        are_single = ImageUnits.of(groups, len(first)).are_single
        if are_single and all(value in (0, 1) for value in (*first, *second)):
            return Interval.paired_difference(
                [value == 1 for value in first], [value == 1 for value in second]
            )
        return Interval.paired_shares(first, second, groups)

    @staticmethod
    def paired_shares(
        first: Sequence[float], second: Sequence[float], groups: Sequence[Hashable] = ()
    ) -> Interval:
        """Return mean(first) - mean(second) of shares of the same images,
        with a percentile bootstrap over the images: 95 % of the resamples are inside.

        Use this instead of :meth:`paired_difference` where each image was answered several times:
        the answers to one image are not independent. Where images come in ``groups``, (N,), whole
        groups are drawn. Raises ValueError: the two differ in length, or are empty.
        """
        if len(first) != len(second) or not first:
            raise ValueError(f"paired_shares: {len(first)} and {len(second)} images")
        differences = np.asarray(first, float) - np.asarray(second, float)
        means = ImageUnits.of(groups, len(differences)).resample_means(differences)
        low, high = np.quantile(means, [0.025, 0.975])
        value = float(differences.mean())
        return Interval(value, min(float(low), value), max(float(high), value))

    @staticmethod
    def paired_difference(
        first: Sequence[bool], second: Sequence[bool], level: float = 0.95
    ) -> Interval:
        """Return mean(first) - mean(second) over the same images
        with a percentile bootstrap interval.

        Images on which both agree add nothing, so only the counts of the three outcomes (+1, 0,
        -1) are resampled. Source: B. Efron, "Bootstrap methods: another look at the jackknife",
        Annals of Statistics 7 (1979). Raises ValueError: the two differ in length, or are empty.
        """
        if len(first) != len(second) or not first:
            raise ValueError(f"paired_difference: {len(first)} and {len(second)} images")
        total = len(first)
        wins = sum(a and not b for a, b in zip(first, second, strict=True))
        losses = sum(b and not a for a, b in zip(first, second, strict=True))
        value = (wins - losses) / total
        if wins + losses == 0:
            return Interval(0.0, 0.0, 0.0)
        shares = [wins / total, losses / total, 1 - (wins + losses) / total]
        outcomes = np.random.default_rng(0).multinomial(total, shares, size=RESAMPLES)
        means = (outcomes[:, 0] - outcomes[:, 1]) / total
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
        return Interval(value, min(float(low), value), max(float(high), value))


def as_probabilities(scores: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return scores (N, C) as probabilities: a softmax of logits:
    below 0, or with a sum above :data:`MOST_SUM`.
    """
    if not scores.size or (scores.min() >= 0 and scores.sum(axis=1).max() <= MOST_SUM):
        return scores.astype(np.float32)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    rows: NDArray[np.float32] = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return rows


@dataclass(frozen=True)
class LatencyDistribution:
    """A predicted latency as a distribution."""

    #: quantiles at :data:`SHARES`, ascending and above 0;
    #: in between, the logarithm is interpolated.
    milliseconds: tuple[float, ...]

    @classmethod
    def sample(cls, quantile: Callable[[float], float]) -> LatencyDistribution:
        """Return the distribution with these quantiles (ms by share), never descending,
        rounded to four digits.
        """
        values: list[float] = []
        least = 1e-6
        for share in SHARES:
            least = max(float(f"{quantile(share):.4g}"), least)
            values.append(least)
        return cls(tuple(values))

    @classmethod
    def read(cls, values: object) -> LatencyDistribution | None:
        """Return the distribution with these milliseconds at :data:`SHARES`;
        None where the values are none.
        """
        if not isinstance(values, Sequence) or isinstance(values, str):
            return None
        if len(values) != len(SHARES):
            return None
        for value in values:
            if not isinstance(value, int | float) or value <= 0:
                return None
        if list(values) != sorted(values):
            return None
        return cls(tuple(map(float, values)))

    def below(self, limit_ms: float) -> float:
        """Return the probability that the latency is
        at most ``limit_ms`` (0 and 1 beyond what is kept).
        """
        if limit_ms < self.milliseconds[0]:
            return 0.0
        if limit_ms >= self.milliseconds[-1]:
            return 1.0
        index = bisect_right(self.milliseconds, limit_ms) - 1
        low = self.milliseconds[index]
        high = self.milliseconds[index + 1]
        share = math.log(limit_ms / low) / math.log(high / low)
        return SHARES[index] + share * (SHARES[index + 1] - SHARES[index])

    def at(self, share: float) -> float:
        """Return the milliseconds that the latency does not exceed with probability ``share``."""
        if share <= SHARES[0]:
            return self.milliseconds[0]
        if share >= SHARES[-1]:
            return self.milliseconds[-1]
        index = bisect_right(SHARES, share) - 1
        part = (share - SHARES[index]) / (SHARES[index + 1] - SHARES[index])
        low = self.milliseconds[index]
        high = self.milliseconds[index + 1]
        return float(low * (high / low) ** part)


def show_latency(quantity: Quantity | None) -> str:
    """Format a latency; one that was not measured is marked and has its interval:
    ``predicted 11.8 ms [10.2-13.9]``.
    """
    if quantity is None or quantity.provenance not in (Provenance.PREDICTED, Provenance.PUBLISHED):
        return show_ms(quantity.value if quantity else float("inf"))
    return f"{quantity.provenance} {show_ms_interval(quantity.value, quantity.low, quantity.high)}"


def show_probability(share: float) -> str:
    """Format a probability without promising certainty: ``97 %``, ``over 99 %``, ``under 1 %``."""
    if share > 0.99:
        return "over 99 %"
    if share < 0.01:
        return "under 1 %"
    return f"{100 * share:.0f} %"
