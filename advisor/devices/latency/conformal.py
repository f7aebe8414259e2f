"""Calibrate prediction intervals with the quantiles of errors on hidden measurements (conformal prediction)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.core.errors import UsageError
from advisor.devices.latency.kernels import Floats

ANCHOR_STEPS = (0, 3, 7, 15)
"""Steps of the number of models measured on the target: none, up to 3, up to 7, up to 15, more."""

SUPPORT = ("model", "family", "none")
"""What was measured: the same model, another one of its family, or neither."""

_LEVELS = tuple(np.round(np.linspace(0.005, 0.995, 100), 4))
_LEAST = 60


@dataclass(frozen=True, order=True)
class Regime:
    """How much is known when a prediction is made.

    Attributes:
        anchors: index of the step in :data:`ANCHOR_STEPS` for the number of measured models.
        support: one of :data:`SUPPORT`, on the target or on targets that it resembles.
    """

    anchors: int
    support: str

    @classmethod
    def of(cls, measured: int, support: str) -> Regime:
        """Return the regime of a target with ``measured`` models."""
        return cls(int(np.searchsorted(ANCHOR_STEPS, measured)), support)

    @property
    def key(self) -> str:
        """The regime as a JSON key."""
        return f"{self.anchors}-{self.support}"


@dataclass(frozen=True)
class Calibration:
    """Quantiles of standardised errors by regime.

    Attributes:
        data_hash: fingerprint of the table that the errors belong to.
        quantiles: by :attr:`Regime.key`, the quantiles at ``_LEVELS`` of (true - predicted) / deviation (log).
        counts: by regime, the number of errors.
    """

    data_hash: str
    quantiles: Mapping[str, tuple[float, ...]]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, data_hash: str, errors: Mapping[Regime, Sequence[float]]) -> Calibration:
        """Return the calibration for some errors; a regime with few errors also uses those of its neighbours."""
        quantiles, counts = {}, {}
        for support in SUPPORT:
            for step in range(len(ANCHOR_STEPS) + 1):
                pooled = _pooled(errors, step, support)
                key = Regime(step, support).key
                counts[key] = len(pooled)
                quantiles[key] = tuple(round(float(q), 4) for q in np.quantile(pooled, _LEVELS))
        return cls(data_hash, quantiles, counts)

    def bounds(self, regime: Regime, level: float) -> tuple[float, float]:
        """Return the standardised errors between which a share ``level`` of them lies, with equal tails.

        The correction (n + 1) / n for finite samples widens the bounds if the regime has few errors.

        Raises:
            UsageError: the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise UsageError(f"confidence {level:g} is not between 0 and 1", "write for example 80%")
        n = self.counts[regime.key]
        tail = max((1 - min(level * (n + 1) / n, 0.99)) / 2, _LEVELS[0])
        low, high = np.interp((tail, 1 - tail), _LEVELS, self.quantiles[regime.key])
        return float(low), float(high)

    def below(self, regime: Regime, standardised: Floats) -> Floats:
        """Return the share of errors below each value: the probability that the latency is at most this value."""
        out: Floats = np.interp(standardised, self.quantiles[regime.key], _LEVELS, left=0.0, right=1.0)
        return out

    def quantile(self, regime: Regime, share: float) -> float:
        """Return the standardised error that a ``share`` of them does not exceed; the inverse of :meth:`below`."""
        return float(np.interp(share, _LEVELS, self.quantiles[regime.key]))

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "data_hash": self.data_hash,
            "quantiles": {key: list(values) for key, values in self.quantiles.items()},
            "counts": dict(self.counts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Calibration:
        """Read an object that :meth:`to_json` returned.

        Raises:
            UsageError: it is another object.
        """
        quantiles, counts = data.get("quantiles"), data.get("counts")
        keys = [Regime(step, support).key for step in range(len(ANCHOR_STEPS) + 1) for support in SUPPORT]
        if not isinstance(quantiles, dict) or not isinstance(counts, dict) or set(quantiles) != set(keys):
            raise UsageError("the stored calibration is not valid", "delete it; advisor makes it again")
        rows = {str(key): tuple(float(v) for v in values) for key, values in quantiles.items()}
        if any(len(row) != len(_LEVELS) or list(row) != sorted(row) for row in rows.values()):
            raise UsageError(
                "the quantiles of the stored calibration are not sorted", "delete it; advisor makes it again"
            )
        return cls(str(data.get("data_hash", "")), rows, {str(k): int(v) for k, v in counts.items()})


def _pooled(errors: Mapping[Regime, Sequence[float]], step: int, support: str) -> Floats:
    steps = sorted(range(len(ANCHOR_STEPS) + 1), key=lambda other: abs(other - step))
    pooled: list[float] = []
    for other in steps:
        pooled.extend(errors.get(Regime(other, support), ()))
        if len(pooled) >= _LEAST:
            break
    if not pooled:
        raise UsageError(
            "there are no measurements to estimate the errors of predictions", "use the shipped profiles, too"
        )
    return np.asarray(pooled)
