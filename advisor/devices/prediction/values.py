"""A predicted latency with its probability of meeting a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from advisor.core.quantity import Quantity
from advisor.devices.latency.conformal import Calibration


@dataclass(frozen=True)
class Prediction:
    """The predicted or known latency of one model on one target.

    Attributes:
        latency: milliseconds with an interval; ``predicted``, or ``published`` / ``measured`` if it is known.
        mean_log: expected natural logarithm of the milliseconds.
        deviation: standard deviation of the logarithm before calibration.
        regime: the knowledge of the target and the model (:func:`advisor.devices.latency.conformal.regime_of`); empty
            for a measured latency, whose error is normally distributed.
        outside: distance (log) of the model's size from the measured sizes; 0 if it is within.
        calibration: the known errors of predictions.
    """

    latency: Quantity
    mean_log: float
    deviation: float
    regime: str
    outside: float
    calibration: Calibration = field(repr=False)

    def probability(self, budget_ms: float) -> float:
        """Return the probability that the latency is at most ``budget_ms`` (above 0)."""
        standardised = float(np.log(budget_ms) - self.mean_log) / self.deviation
        return self.calibration.below(self.regime, standardised) if self.regime else NormalDist().cdf(standardised)

    def quantile(self, share: float) -> float:
        """Return the latency in ms that is not exceeded with probability ``share`` (above 0, below 1)."""
        standardised = self.calibration.quantile(self.regime, share) if self.regime else NormalDist().inv_cdf(share)
        return float(np.exp(self.mean_log + self.deviation * standardised))
