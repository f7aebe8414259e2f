"""Predict networks on a target from its kernels, corrected by whole networks that were measured there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.operator_times import OperatorTimes
from advisor.tflite.work import Work

Floats = NDArray[np.float64]
Works = tuple[tuple[Work, int], ...]

_PRIOR = np.array([0.02, 0.01, 0.01])
_PRIOR_SD = np.array([0.05, 0.02, 0.02])
"""Prior means and deviations (log) of a network against the sum of its kernels: the level, and the changes when it
takes e times as long and when its largest operator reads and writes e times as many values. In a network, data come
from farther away than in a kernel that runs again and again."""

_NETWORK_SD = 0.025
"""Deviation (log) of a network from these. All are from 36 networks in two forms that did not judge
(``benchmarks/latency_kernels.py``)."""

_MIDDLE_MS, _MIDDLE_VALUES = 5.0, 5e5


@dataclass(frozen=True, eq=False)
class NetworkTimes:
    """Times of networks as the sum of their operators, with differences that measured networks correct.

    Attributes:
        operators: times of operators.
        mean: (3,) posterior mean of the level and the two changes.
        cover: (3, 3) their posterior covariance.
        measured: number of measured networks that it was corrected by.
    """

    operators: OperatorTimes
    mean: Floats
    cover: Floats
    measured: int

    @classmethod
    def of(cls, operators: OperatorTimes, measured: Sequence[tuple[Works, float]]) -> NetworkTimes:
        """Correct the sums of kernels by networks with their measured milliseconds."""
        precision = np.diag(_PRIOR_SD**-2)
        evidence = precision @ _PRIOR
        for works, milliseconds in measured:
            total, log_sd = operators.network(works)
            direction, weight = _direction(works, total), 1 / (_NETWORK_SD**2 + log_sd**2)
            precision = precision + weight * np.outer(direction, direction)
            evidence = evidence + weight * direction * math.log(milliseconds / total)
        cover = np.linalg.inv(precision)
        return cls(operators, cover @ evidence, cover, len(measured))

    def predict(self, works: Works) -> tuple[float, float]:
        """Return the mean and the standard deviation of the natural logarithm of a network's milliseconds."""
        total, log_sd = self.operators.network(works)
        direction = _direction(works, total)
        variance = float(direction @ self.cover @ direction) + _NETWORK_SD**2 + log_sd**2
        return math.log(total) + float(direction @ self.mean), math.sqrt(variance)


def _direction(works: Works, milliseconds: float) -> Floats:
    largest = max(work.read + work.written for work, _ in works)
    return np.array([1.0, math.log(milliseconds / _MIDDLE_MS), math.log(largest / _MIDDLE_VALUES)])
