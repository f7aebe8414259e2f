"""Calibrate prediction intervals with the quantiles of errors on hidden measurements (conformal prediction)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.core.codec import parse
from advisor.core.errors import UsageError
from advisor.store.jsonfile import read_json

CALIBRATION_FILE = "prediction_calibration.json"

ANCHOR_STEPS = (0, 3, 7, 15)
"""Steps of the number of models measured on the target: none, up to 3, up to 7, up to 15, more."""

SUPPORT = ("model", "family", "none")
"""The most similar model that was measured: the same one, another one of its family, or neither."""

LEAST = 30
"""A regime with fewer hidden measurements has no quantiles of its own: no device is comparable."""

WIDE = "wide: no comparable device"

LEVELS = tuple(np.round([0.005, *np.linspace(0.02, 0.98, 49), 0.995], 4))
"""Levels of the stored quantiles."""

TAIL = 4
"""Power with which the probability of an error beyond all known ones falls: that of Student's t with 4 degrees of
freedom, as of the measurements (:data:`advisor.devices.latency.outliers.DEGREES_OF_FREEDOM`)."""

_LEAST_END = 1.0
"""The scale of a tail is at least one standard deviation, also where all known errors have one sign."""

EVERYTHING = "all"
"""Key of the errors of all targets without measurements, for kinds of targets with few errors."""


def regime_of(kind: str, reference: str, measured: int, support: str) -> str:
    """Return the key of the errors of similar predictions.

    Args:
        kind: kind of the target (:class:`advisor.devices.latency.table.Column`).
        reference: what is known about targets like it (:data:`advisor.devices.latency.references.REFERENCES`).
        measured: number of models measured on the target.
        support: one of :data:`SUPPORT`, on the target or on targets that it resembles.
    """
    return f"{kind}/{reference}/{int(np.searchsorted(ANCHOR_STEPS, measured))}-{support}"


@dataclass(frozen=True)
class Calibration:
    """Quantiles of standardised errors by regime.

    Attributes:
        data_hash: fingerprint of the table that the errors belong to.
        quantiles: by :func:`regime_of`, the quantiles at :data:`LEVELS` of (true - predicted) / deviation (log).
            Further keys are each kind and :data:`EVERYTHING`: all its targets without measurements.
        counts: by regime, the number of errors.
        units: by regime, the number of independent errors that these are worth: those on one silicon (or design of
            cores) are alike.
    """

    data_hash: str
    quantiles: Mapping[str, tuple[float, ...]]
    counts: Mapping[str, int]
    units: Mapping[str, float]

    def is_wide(self, regime: str) -> bool:
        """Return whether no device is comparable: the regime has fewer than :data:`LEAST` errors."""
        return regime not in self.quantiles

    def bounds(self, regime: str, level: float) -> tuple[float, float]:
        """Return the standardised errors between which a share ``level`` of them lies, with equal tails."""
        return self.quantile(regime, (1 - level) / 2), self.quantile(regime, (1 + level) / 2)

    def below(self, regime: str, standardised: float) -> float:
        """Return the probability that an error is at most a value: the inverse of :meth:`quantile`."""
        known = self.quantiles[self._key(regime)]
        share = float(np.interp(standardised, known, LEVELS))
        corrected = 0.5 + (share - 0.5) / self._widening(regime)
        if known[0] <= standardised <= known[-1]:
            return corrected
        left = min(corrected, 1 - corrected) * _beyond(known, standardised) ** -TAIL
        return left if standardised < known[0] else 1 - left

    def quantile(self, regime: str, share: float) -> float:
        """Return the standardised error that a ``share`` of future errors does not exceed.

        Few units tell little about the next one: its error lies between the same bounds less often than theirs. So
        a share is that of (n + 1) / n times its distance from the median. Beyond the largest known error, the
        probability falls with the power :data:`TAIL` of the error.
        """
        known = self.quantiles[self._key(regime)]
        widened = 0.5 + (share - 0.5) * self._widening(regime)
        if LEVELS[0] <= widened <= LEVELS[-1]:
            return float(np.interp(widened, LEVELS, known))
        end: float = known[0] if widened < LEVELS[0] else known[-1]
        at_end = float(0.5 - (0.5 - LEVELS[0]) / self._widening(regime))
        further = float(at_end / min(share, 1 - share)) ** (1 / TAIL)
        reach: float = max(abs(end), _LEAST_END) * (further - 1)
        return end - reach if share < 0.5 else end + reach

    def _widening(self, regime: str) -> float:
        """Return the correction of conformal prediction for finite samples."""
        n = self.units[self._key(regime)]
        return (n + 1) / n

    def _key(self, regime: str) -> str:
        """Return the regime, or its kind, or everything: the first that has enough errors."""
        return next((key for key in (regime, regime.partition("/")[0]) if key in self.quantiles), EVERYTHING)


def _beyond(known: Sequence[float], standardised: float) -> float:
    """Return how far an error is beyond the known ones, relative to the scale of their end; 1 at the end."""
    end = known[0] if standardised < known[0] else known[-1]
    return 1 + abs(standardised - end) / max(abs(end), _LEAST_END)


def read_calibration(folder: Path) -> Calibration:
    """Read the calibration that is stored with the profiles in ``folder``.

    Raises:
        UsageError: it is missing, or it is another file.
    """
    path = folder / CALIBRATION_FILE
    try:
        found: Calibration = parse(Calibration, read_json(path))
    except (UsageError, ValueError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    return found
