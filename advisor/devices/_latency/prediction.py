"""The latency of one model on one target with its distribution, as the predictor returns it.

Searches ask it for the probability that a budget is met, and for quantiles. Errors towards longer
and towards shorter latencies have deviations of their own.
"""

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from advisor.core import Quantity
from advisor.devices._latency.calibration import WIDE, Calibration


@dataclass(frozen=True)
class Prediction:
    """The predicted or known latency of one model on one target."""

    # Milliseconds with an interval; ``predicted``, or ``published`` / ``measured`` if it is known.
    latency: Quantity
    mean_log: float  # expected natural logarithm of the milliseconds
    # Standard deviation of the logarithm before calibration, towards shorter latencies.
    deviation: float
    above: float  # the same towards longer latencies
    # the knowledge of the target and the model
    # (:func:`advisor.devices._latency.calibration.regime_of`); empty for a measured latency or one
    # from kernels, whose errors are normally distributed
    regime: str
    outside: float  # distance (log) of the model's size from the measured sizes; 0 if it is within
    calibration: Calibration = field(repr=False)  # the known errors of predictions
    # why no latency can be promised:
    # no device is comparable or the interval is wide, and what to measure; else empty
    unlike: str = ""

    @property
    def is_comparable(self) -> bool:
        """False if no known device is comparable,
        so that the level of the latency is not known at all.
        """
        return not self.unlike.startswith(WIDE)

    def probability(self, budget_ms: float) -> float:
        """Return the probability that the latency is at most ``budget_ms`` (above 0)."""
        error = float(np.log(budget_ms)) - self.mean_log
        standardised = error / (self.above if error > 0 else self.deviation)
        if self.regime:
            return self.calibration.below(self.regime, standardised)
        return NormalDist().cdf(standardised)

    def quantile(self, share: float) -> float:
        """Return the latency in ms that is not exceeded
        with probability ``share`` (above 0, below 1).
        """
        if self.regime:
            standardised = self.calibration.quantile(self.regime, share)
        else:
            standardised = NormalDist().inv_cdf(share)
        error = scale_error(standardised, self.deviation, self.above)
        return float(np.exp(self.mean_log + error))


def scale_error(standardised: float, below: float, above: float) -> float:
    """Return an error (log) from its number of deviations, ``below`` or ``above`` the mean."""
    return standardised * (above if standardised > 0 else below)
