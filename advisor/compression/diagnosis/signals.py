"""Sum signal, noise, ranges and clipped values of each layer over the images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression.diagnosis.values import Outlier

Floats = NDArray[np.float32]

SILENT_DB = -99.0
"""The ratio if the float file has only zeros."""


@dataclass
class Sums:
    """Sums over the values of one tensor.

    Attributes:
        low: least value that its quantized form can hold.
        high: the greatest.
        count: how many values.
        total: their sum.
        signal: sum of their squares.
        noise: sum of the squared differences to the quantized file's.
        own_noise: the same of the operator by itself; None if it cannot be run so.
        outside: how many cannot be held.
        least: least value of each channel.
        most: greatest value of each channel.
    """

    low: float = -math.inf
    high: float = math.inf
    count: int = 0
    total: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    own_noise: float | None = None
    outside: int = 0
    least: Any = math.inf
    most: Any = -math.inf

    def add(self, floats: Floats, quantized: Floats, own: Floats | None) -> None:
        """Add one image's values: of the float file, of the quantized one, and of its operator by itself."""
        values = floats.astype(np.float64)
        self.count += values.size
        self.total += float(values.sum())
        self.signal += float((values**2).sum())
        self.noise += float(((quantized - values) ** 2).sum())
        if own is not None:
            self.own_noise = (self.own_noise or 0.0) + float(((own.reshape(values.shape) - values) ** 2).sum())
        margin = (self.high - self.low) / 510 if math.isfinite(self.high - self.low) else 0.0
        self.outside += int(((values < self.low - margin) | (values > self.high + margin)).sum())
        rows = floats.reshape(-1, floats.shape[-1]) if floats.ndim else floats.reshape(1, 1)
        self.least, self.most = np.minimum(self.least, rows.min(axis=0)), np.maximum(self.most, rows.max(axis=0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the values."""
        mean = self.total / self.count
        return math.sqrt(max(0.0, self.signal / self.count - mean * mean))

    @property
    def used(self) -> tuple[float, float]:
        """Least and greatest value seen."""
        return float(self.least.min()), float(self.most.max())

    @property
    def channels(self) -> Outlier | None:
        """The channel with the widest range of values."""
        return widest(self.most - self.least)


def decibel(signal: float, noise: float | None) -> float | None:
    """Return the signal-to-noise ratio in dB, at least ``SILENT_DB``; None without noise."""
    if not noise:
        return None
    return max(SILENT_DB, 10 * math.log10(signal / noise)) if signal > 0 else SILENT_DB


def widest(ranges: NDArray[np.floating]) -> Outlier | None:
    """Return the channel with the widest range, and its ratio to the median; None for one channel.

    Constant (dead) channels are left out of the median, as they would make every other an outlier.
    """
    alive = ranges[ranges > 0]
    if ranges.size < 2 or not alive.size:
        return None
    channel = int(ranges.argmax())
    return Outlier(channel, float(ranges[channel] / np.median(alive)))
