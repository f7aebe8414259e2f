"""Predictions as values: for one model with its chance to meet a budget, for thousands as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import UsageError
from advisor.core.quantity import Quantity
from advisor.devices.latency.conformal import Calibration, Regime

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """What is known of one model's latency on one target.

    Attributes:
        latency: milliseconds with interval; ``predicted``, or ``published`` / ``measured`` where it was.
        mean_log: natural logarithm of the milliseconds.
        deviation: standard deviation of the logarithm before calibration.
        regime: what was known when it was made, None for a figure that was measured.
        outside: how far (log) the model's size lies beyond what was measured, 0 within.
        calibration: the errors of such predictions.
    """

    latency: Quantity
    mean_log: float
    deviation: float
    regime: Regime | None
    outside: float
    calibration: Calibration = field(repr=False)

    def probability(self, budget_ms: float) -> float:
        """Return the probability that the latency is at most ``budget_ms`` (above 0)."""
        standardised = np.array([(np.log(budget_ms) - self.mean_log) / self.deviation])
        return float(_below(self.calibration, self.regime, standardised)[0])

    def quantile(self, share: float) -> float:
        """Return the milliseconds that the latency is not above with probability ``share`` (0 to 1, both excluded)."""
        if self.regime is None:
            standardised = NormalDist().inv_cdf(share)
        else:
            standardised = self.calibration.quantile(self.regime, share)
        return float(np.exp(self.mean_log + self.deviation * standardised))


def _below(calibration: Calibration, regime: Regime | None, standardised: Floats) -> Floats:
    """Probabilities; a figure that was measured errs normally."""
    if regime is not None:
        return calibration.below(regime, standardised)
    return np.array([NormalDist().cdf(float(value)) for value in standardised])


def normal_bounds(level: float) -> tuple[float, float]:
    """Return the standardised errors between which a share ``level`` of a normal's lies.

    Raises:
        UsageError: a level that is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise UsageError(f"confidence {level:g} is not between 0 and 1", "write for example 80%")
    high = NormalDist().inv_cdf((1 + level) / 2)
    return -high, high
