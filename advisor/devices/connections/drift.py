"""Detect that a device slows down during a measurement: heat makes the block medians rise steadily."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

THROTTLED = 1.1
"""A device is throttled from this ratio of the last third to the first. Block medians of a cool, idle device vary by at
most 5 %."""

RISING = 0.6
"""Share of pairs of blocks in rising order minus the share in falling order (Kendall's tau); noise has about 0."""

LEAST_BLOCKS = 4

WAITED = 0.1
"""Share of time that threads may wait for a processor. A block with more shows other programs, not heat; on an idle
machine the share is below 0.01."""


def slowdown(medians: Sequence[float]) -> float:
    """Return the median of the last third of the blocks divided by that of the first third; 1.0 for too few blocks."""
    if len(medians) < LEAST_BLOCKS:
        return 1.0
    part = max(1, len(medians) // 3)
    return statistics.median(medians[-part:]) / statistics.median(medians[:part])


def throttling(medians: Sequence[float]) -> str:
    """Return by how much a device slowed down steadily, in words; empty if it did not.

    Args:
        medians: median of each block in the order measured, in any unit.
    """
    found = slowdown(medians)
    if found < THROTTLED or rising(medians) < RISING:
        return ""
    return f"throttled: the last runs took {found:.2f} times as long as the first"


def rising(values: Sequence[float]) -> float:
    """Return Kendall's tau of the values and their order: -1 is falling, 1 is rising."""
    pairs = list(combinations(values, 2))
    signs = sum((after > before) - (after < before) for before, after in pairs)
    return signs / len(pairs) if pairs else 0.0
