"""Compute the figures of a diagnosis from sums and ranges of values."""

import math

import numpy as np
from numpy.typing import NDArray

from advisor.core import Outlier

SILENT_DB = -99.0
"""The ratio if the float file has only zeros."""


def to_decibel(signal: float, noise: float | None) -> float | None:
    """Return the signal-to-noise ratio in dB, at least ``SILENT_DB``; None without noise."""
    if not noise:
        return None
    if signal > 0:
        return max(SILENT_DB, 10 * math.log10(signal / noise))
    return SILENT_DB


def find_widest(ranges: NDArray[np.floating]) -> Outlier | None:
    """Return the channel with the widest range, and its ratio to the median; None for one channel.

    Constant (dead) channels are left out of the median, as they would make every other an outlier.
    """
    alive = ranges[ranges > 0]
    if ranges.size < 2 or not alive.size:
        return None
    channel = int(ranges.argmax())
    return Outlier(channel, float(ranges[channel] / np.median(alive)))
