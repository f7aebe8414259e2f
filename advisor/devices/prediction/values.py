"""A predicted latency with its probability of meeting a budget."""

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
    """The predicted or known latency of one model on one target.

    Attributes:
        latency: milliseconds with an interval; ``predicted``, or ``published`` / ``measured`` if it is known.
        mean_log: expected natural logarithm of the milliseconds.
        deviation: standard deviation of the logarithm before calibration.
        regime: what was known of the target and the model; None for a measured latency.
        outside: how far (log) the model's size is beyond the measured sizes; 0 if it is within.
        calibration: the known errors of predictions.
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
        """Return the latency in ms that is not exceeded with probability ``share`` (above 0, below 1)."""
        if self.regime is None:
            standardised = NormalDist().inv_cdf(share)
        else:
            standardised = self.calibration.quantile(self.regime, share)
        return float(np.exp(self.mean_log + self.deviation * standardised))


def _below(calibration: Calibration, regime: Regime | None, standardised: Floats) -> Floats:
    """Return probabilities; the error of a measured latency is normally distributed."""
    if regime is not None:
        return calibration.below(regime, standardised)
    return np.array([NormalDist().cdf(float(value)) for value in standardised])


def normal_bounds(level: float) -> tuple[float, float]:
    """Return the quantiles of the normal distribution between which a share ``level`` lies.

    Raises:
        UsageError: the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise UsageError(f"confidence {level:g} is not between 0 and 1", "write for example 80%")
    high = NormalDist().inv_cdf((1 + level) / 2)
    return -high, high
