"""Predict networks on a target from its kernels, corrected by whole networks that were measured there."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import UsageError
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.latency.operator_times import OperatorTimes, operator_times
from advisor.devices.profiles import DeviceProfile, DeviceTarget, shipped_profiles
from advisor.devices.profiles.measurements import BYTES
from advisor.tflite.macs import SIZES, Work, Works

Floats = NDArray[np.float64]

OPERATORS_FILE = "model_operators.csv"
"""The operators of the catalogue's networks, shipped with the device profiles."""

_COLUMNS = ("model", "number", "kind", *SIZES)

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


def network_times(
    profile: DeviceProfile, target: DeviceTarget, precision: str, measured: Mapping[str, float]
) -> NetworkTimes | None:
    """Return what the kernels and the measured networks of a target say about other networks; None without kernels.

    Args:
        profile: the device.
        target: its target.
        precision: form of the files.
        measured: milliseconds of each network that was measured there, by its name.
    """
    timed = tuple(
        (kernel.work, kernel.microseconds)
        for kernel in profile.kernels
        if kernel.target == target.name and kernel.form == precision
    )
    if not timed:
        return None
    operators, known = operator_times(timed), model_operators()
    anchors = [
        (known[name], milliseconds)
        for name, milliseconds in measured.items()
        if name in known and operators.covers(known[name])
    ]
    return NetworkTimes.of(operators, anchors, bytes_each=BYTES[precision])


def operators_of(model: ModelFeatures, times: NetworkTimes) -> Works:
    """Return the operators of a model if all of them can be predicted from the kernels, else none."""
    works = model.operators or model_operators().get(model.name, ())
    return works if works and times.operators.covers(works) else ()


@lru_cache(maxsize=1)
def model_operators() -> Mapping[str, Works]:
    """Return the operators of each network of the catalogue by name.

    Raises:
        UsageError: the table is missing or not valid.
    """
    path = shipped_profiles() / OPERATORS_FILE
    found: dict[str, list[tuple[Work, int]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                work = Work(row["kind"], **{name: int(row[name]) for name in SIZES})
                found.setdefault(row["model"], []).append((work, int(row["number"])))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "install the package again") from error
    return {name: tuple(works) for name, works in found.items()}


def write_operators(path: Path, models: Mapping[str, Works]) -> None:
    """Write the table that :func:`model_operators` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for name, works in sorted(models.items()):
            for work, number in works:
                writer.writerow((name, number, work.kind, *(getattr(work, size) for size in SIZES)))
