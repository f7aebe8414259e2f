"""A predicted latency as a distribution: the probability of meeting a limit, and quantiles."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.9
"""A prediction meets a limit if it does so with this probability; a measured 90th percentile means the same."""

SHARES = (0.005, 0.01, 0.025, 0.05, *(round(0.1 * tenth, 1) for tenth in range(1, 10)), 0.95, 0.975, 0.99, 0.995)
"""Shares of the quantiles that are kept: any budget and any confidence can be answered from them later."""


@dataclass(frozen=True)
class LatencyDistribution:
    """A predicted latency as a distribution.

    Attributes:
        milliseconds: quantiles at :data:`SHARES`, ascending and above 0; in between, the logarithm is interpolated.
    """

    milliseconds: tuple[float, ...]

    @classmethod
    def sample(cls, quantile: Callable[[float], float]) -> LatencyDistribution:
        """Return the distribution with these quantiles (ms by share), never descending, rounded to four digits."""
        values: list[float] = []
        for share in SHARES:
            values.append(max(float(f"{quantile(share):.4g}"), values[-1] if values else 1e-6))
        return cls(tuple(values))

    @classmethod
    def read(cls, values: object) -> LatencyDistribution | None:
        """Return the distribution with these milliseconds at :data:`SHARES`; None where the values are none."""
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != len(SHARES):
            return None
        if not all(isinstance(value, int | float) and value > 0 for value in values) or list(values) != sorted(values):
            return None
        return cls(tuple(float(value) for value in values))

    def below(self, limit_ms: float) -> float:
        """Return the probability that the latency is at most ``limit_ms`` (0 and 1 beyond what is kept)."""
        if limit_ms < self.milliseconds[0]:
            return 0.0
        if limit_ms >= self.milliseconds[-1]:
            return 1.0
        index = bisect_right(self.milliseconds, limit_ms) - 1
        low, high = self.milliseconds[index], self.milliseconds[index + 1]
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
        low, high = self.milliseconds[index], self.milliseconds[index + 1]
        return float(low * (high / low) ** part)


def percent(share: float) -> str:
    """Format a probability without promising certainty: ``97 %``, ``over 99 %``, ``under 1 %``."""
    if share > 0.99:
        return "over 99 %"
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"
