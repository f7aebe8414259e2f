"""Say how far predictions are off, by the errors of similar predictions: quantiles by regime.

Benchmarks hide measured targets, predict them, and ``benchmarks/make_device_profiles.py`` writes
the errors into the shipped ``prediction_calibration.json``. Intervals and probabilities of a
prediction come from the errors of its regime. The keys that :func:`regime_of` makes are those of
that file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.core import UsageError, parse
from advisor.devices._latency.table import Column, arithmetic_of
from advisor.store import read_json

CALIBRATION_FILE = "prediction_calibration.json"

ANCHOR_STEPS = (0, 3, 7, 15)
"""Steps of the number of models measured on the target: none, up to 3, up to 7, up to 15, more."""

ENOUGH = 4  # This many measured models replace what is not known of the runtime's release

SUPPORT = ("model", "family", "none")
"""The most similar model that was measured: the same one, another one of its family, or
neither.
"""

# A regime with fewer hidden measurements has no quantiles of its own: no device is comparable.
LEAST = 30

WIDE = "no comparable device"
_INTEGERS = "-int8"  # End of the name of a kind with errors of its own for 8-bit integers

# Levels of the stored quantiles.
LEVELS = tuple(np.round([0.005, *np.linspace(0.02, 0.98, 49), 0.995], 4))

TAIL = 4
"""Power with which the probability of an error beyond all known ones falls: that of Student's t
with 4 degrees of freedom, as of the measurements
(:data:`advisor.devices._latency.agreement.DEGREES_OF_FREEDOM`).
"""

# The scale of a tail is at least one standard deviation,
# also where all known errors have one sign.
_LEAST_END = 1.0
# Key of the errors of all targets without measurements, for kinds of targets with few errors.
EVERYTHING = "all"


def regime_of(column: Column, likeness: str, measured: int, support: str) -> str:
    """Return the key of the errors of similar predictions.

    8-bit integers on a CPU are a kind of their own: an operator without an 8-bit kernel takes many
    times as long, so errors towards longer latencies are larger than those of floats. ``likeness``
    is one of :data:`advisor.devices._latency.table.LIKENESSES`, ``measured`` the number of models
    measured on the target, ``support`` one of :data:`SUPPORT`. From :data:`ENOUGH` measured models
    on, another version of the runtime tells as much as the same one: they contain what the release
    changed.
    """
    likeness = "same" if likeness == "version" and measured >= ENOUGH else likeness
    integers = column.kind == "cpu" and arithmetic_of(column.runtime, column.precision) == "int8"
    kind = f"{column.kind}{_INTEGERS * integers}"
    return f"{kind}/{likeness}/{int(np.searchsorted(ANCHOR_STEPS, measured))}-{support}"


@dataclass(frozen=True)
class Calibration:
    """Quantiles of standardised errors by regime."""

    data_hash: str  # fingerprint of the table that the errors belong to
    # by :func:`regime_of`, the quantiles at :data:`LEVELS` of (true - predicted) / deviation
    # (log). Further keys are each kind and :data:`EVERYTHING`: all its targets without
    # measurements
    quantiles: Mapping[str, tuple[float, ...]]
    counts: Mapping[str, int]  # by regime, the number of errors
    # by regime, the number of independent errors that these are worth:
    # those on one silicon (or design of cores) are alike
    units: Mapping[str, float]

    def is_wide(self, regime: str) -> bool:
        """Return whether no device is comparable: fewer than :data:`LEAST` errors are known."""
        return regime not in self.quantiles

    def bounds(self, regime: str, level: float) -> tuple[float, float]:
        """Return the standardised errors between which a share ``level`` of them lies,
        with equal tails.
        """
        return self.quantile(regime, (1 - level) / 2), self.quantile(regime, (1 + level) / 2)

    def below(self, regime: str, standardised: float) -> float:
        """Return the probability that an error is at most a value:
        the inverse of :meth:`quantile`.
        """
        errors, widening = self._find_quantiles(regime)
        share = float(np.interp(standardised, errors, LEVELS))
        corrected = 0.5 + (share - 0.5) / widening
        if errors[0] <= standardised <= errors[-1]:
            return corrected
        end = errors[0] if standardised < errors[0] else errors[-1]
        beyond = 1 + abs(standardised - end) / max(abs(end), _LEAST_END)
        left = min(corrected, 1 - corrected) * beyond**-TAIL
        if standardised < errors[0]:
            return left
        return 1 - left

    def quantile(self, regime: str, share: float) -> float:
        """Return the standardised error that a ``share`` of future errors does not exceed.

        Few units tell little about the next one: its error lies between the same bounds less often
        than theirs. So a share is that of (n + 1) / n times its distance from the median. Beyond
        the largest known error, the probability falls with the power :data:`TAIL` of the error.
        """
        errors, widening = self._find_quantiles(regime)
        widened = 0.5 + (share - 0.5) * widening
        if LEVELS[0] <= widened <= LEVELS[-1]:
            return float(np.interp(widened, LEVELS, errors))
        end: float = errors[0] if widened < LEVELS[0] else errors[-1]
        at_end = float(0.5 - (0.5 - LEVELS[0]) / widening)
        further = float(at_end / min(share, 1 - share)) ** (1 / TAIL)
        reach: float = max(abs(end), _LEAST_END) * (further - 1)
        if share < 0.5:
            return end - reach
        return end + reach

    def _find_quantiles(self, regime: str) -> tuple[tuple[float, ...], float]:
        """Return the quantiles of the regime, or of its kind, or of everything:
        the first that has enough errors.

        Also return the correction of conformal prediction for finite samples.
        """
        kind = regime.partition("/")[0]
        key = EVERYTHING
        if regime in self.quantiles:
            key = regime
        elif kind in self.quantiles:
            key = kind
        return self.quantiles[key], (self.units[key] + 1) / self.units[key]


def read_calibration(folder: Path) -> Calibration:
    """Read the calibration in a folder of profiles;
    refuse a missing file and another one (UsageError).
    """
    path = folder / CALIBRATION_FILE
    try:
        calibration: Calibration = parse(Calibration, read_json(path))
    except (UsageError, ValueError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    return calibration
