"""What a predicted latency promises: its chance to meet a limit, and what it stays below with a given confidence."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.quantity import Provenance, Quantity
from advisor.core.units import show_ms

CONFIDENCE = 0.9
"""A prediction meets a limit where it does so with this probability, which is what a measured 90th percentile says."""

SHARES = (0.005, 0.01, 0.025, 0.05, *(round(0.1 * tenth, 1) for tenth in range(1, 10)), 0.95, 0.975, 0.99, 0.995)
"""Where the distribution of a prediction is kept, so that any budget and any confidence can be asked of it later."""

KEY = "latency_quantiles"
"""Name of the kept distribution among an evaluation's details: milliseconds at each of :data:`SHARES`."""


@dataclass(frozen=True)
class LatencyDistribution:
    """A predicted latency as a distribution.

    Attributes:
        milliseconds: quantiles at :data:`SHARES`, ascending and above 0; in between, the logarithm is interpolated.
    """

    milliseconds: tuple[float, ...]

    def below(self, limit_ms: float) -> float:
        """Return the probability that the latency is at most ``limit_ms`` (0 and 1 beyond what is kept)."""
        if limit_ms < self.milliseconds[0]:
            return 0.0
        if limit_ms >= self.milliseconds[-1]:
            return 1.0
        place = bisect_right(self.milliseconds, limit_ms) - 1
        low, high = self.milliseconds[place], self.milliseconds[place + 1]
        share = math.log(limit_ms / low) / math.log(high / low)
        return SHARES[place] + share * (SHARES[place + 1] - SHARES[place])

    def at(self, share: float) -> float:
        """Return the milliseconds that the latency is not above with probability ``share``."""
        if share <= SHARES[0]:
            return self.milliseconds[0]
        if share >= SHARES[-1]:
            return self.milliseconds[-1]
        place = bisect_right(SHARES, share) - 1
        part = (share - SHARES[place]) / (SHARES[place + 1] - SHARES[place])
        low, high = self.milliseconds[place], self.milliseconds[place + 1]
        return float(low * (high / low) ** part)


def chances_of(values: Any) -> LatencyDistribution | None:
    """Read a kept distribution; None where it is none, or damaged."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != len(SHARES):
        return None
    if not all(isinstance(value, int | float) and value > 0 for value in values) or list(values) != sorted(values):
        return None
    return LatencyDistribution(tuple(float(value) for value in values))


def sampled(quantile: Callable[[float], float]) -> list[float]:
    """Return what is kept of a distribution: its quantiles at :data:`SHARES`, never descending, to four digits."""
    values: list[float] = []
    for share in SHARES:
        values.append(max(float(f"{quantile(share):.4g}"), values[-1] if values else 1e-6))
    return values


def asked(evaluation: Evaluation, limit_ms: float | None, confidence: float) -> Evaluation:
    """Return ``evaluation`` with what its prediction says of a limit, held with ``confidence``.

    ``latency_p90`` becomes what the latency stays below with that probability, so that it meets the limit exactly
    where the chance to do so is at least ``confidence``. One without a kept distribution is as it was.
    """
    chances = chances_of(evaluation.details.get(KEY))
    if chances is None or evaluation.latency is None:
        return evaluation
    source = f"not above with {percent(confidence)} confidence"
    held = Quantity(chances.at(confidence), "ms", evaluation.latency.provenance, source=source)
    details = {key: value for key, value in evaluation.details.items() if key != "budget_probability"}
    if limit_ms is not None and evaluation.latency.provenance is Provenance.PREDICTED:
        details["budget_probability"] = round(chances.below(limit_ms), 4)
    return replace(evaluation, latency_p90=held, details=details)


def chance_of(evaluation: Evaluation) -> float | None:
    """Return the probability of meeting the latency budget that was asked of a prediction, or None."""
    chance = evaluation.details.get("budget_probability")
    return float(chance) if isinstance(chance, int | float) else None


def percent(share: float) -> str:
    """Format a probability without promising certainty: ``97 %``, ``over 99 %``, ``under 1 %``."""
    if share > 0.99:
        return "over 99 %"
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def sure(evaluation: Evaluation, limit_ms: float) -> str:
    """Say how sure a prediction meets a limit: ``97 % sure to meet 50 ms``; empty for what was measured."""
    chance = chance_of(evaluation)
    return "" if chance is None else f"{percent(chance)} sure to meet {show_ms(limit_ms)}"
