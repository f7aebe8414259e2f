"""Predict networks on a target from its kernels, corrected by whole networks that were measured there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.operator_times import OperatorTimes
from advisor.tflite.work import Works

Floats = NDArray[np.float64]

_PRIOR = np.array([0.1, 0.0, 0.0])
_PRIOR_SD = np.array([0.1, 0.05, 0.05])
"""Prior means and deviations (log) of a network against the sum of its kernels: the level, and the changes when the
bytes of its largest operator and of all weights grow by a factor of e. In a network, data come from farther away than
in a kernel that runs again and again."""

_NETWORK_SD = 0.045
"""Deviation (log) of a network from these. All are from 36 networks in two forms that did not judge
(``benchmarks/latency_kernels.py``), on two machines: an AMD EPYC and a shared Intel Xeon."""

_LARGEST_BYTES, _WEIGHT_BYTES = 2e6, 1e7
"""A network at the middle of both changes."""


@dataclass(frozen=True, eq=False)
class NetworkTimes:
    """Times of networks as the sum of their operators, with differences that measured networks correct.

    Attributes:
        operators: times of operators.
        bytes_each: bytes of a value or weight.
        mean: (3,) posterior mean of the level and the two changes.
        cover: (3, 3) their posterior covariance.
        measured: number of measured networks that it was corrected by.
    """

    operators: OperatorTimes
    bytes_each: int
    mean: Floats
    cover: Floats
    measured: int

    @classmethod
    def of(cls, operators: OperatorTimes, measured: Sequence[tuple[Works, float]], bytes_each: int = 4) -> NetworkTimes:
        """Correct the sums of kernels by networks with their measured milliseconds."""
        precision = np.diag(_PRIOR_SD**-2)
        evidence = precision @ _PRIOR
        for works, milliseconds in measured:
            total, log_sd = operators.network(works)
            direction, weight = _direction(works, bytes_each), 1 / (_NETWORK_SD**2 + log_sd**2)
            precision = precision + weight * np.outer(direction, direction)
            evidence = evidence + weight * direction * math.log(milliseconds / total)
        cover = np.linalg.inv(precision)
        return cls(operators, bytes_each, cover @ evidence, cover, len(measured))

    def predict(self, works: Works) -> tuple[float, float]:
        """Return the mean and the standard deviation of the natural logarithm of a network's milliseconds."""
        total, log_sd = self.operators.network(works)
        direction = _direction(works, self.bytes_each)
        variance = float(direction @ self.cover @ direction) + _NETWORK_SD**2 + log_sd**2
        return math.log(total) + float(direction @ self.mean), math.sqrt(variance)


def _direction(works: Works, bytes_each: int) -> Floats:
    largest = max(work.read + work.written for work, _ in works) * bytes_each
    weights = max(1, sum(number * work.weights for work, number in works)) * bytes_each
    return np.array([1.0, math.log(largest / _LARGEST_BYTES), math.log(weights / _WEIGHT_BYTES)])
