"""Does a device slow down while it is measured? Heat shows as block medians that keep rising."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

THROTTLED = 1.1
"""A last third that takes this much longer than the first; block medians of a cool, idle device vary by 5 % at most."""

RISING = 0.6
"""Share of pairs of blocks that are in rising order, less those in falling order (Kendall's tau): noise has about 0."""

LEAST_BLOCKS = 4

WAITED = 0.1
"""A block whose threads stood ready without a processor for so much of their time tells of other programs, not of heat:
on an idle machine they wait for less than a hundredth of it."""


def slowdown(medians: Sequence[float]) -> float:
    """Return the median of the last third of the blocks / that of the first; 1.0 where there are too few to tell."""
    if len(medians) < LEAST_BLOCKS:
        return 1.0
    part = max(1, len(medians) // 3)
    return statistics.median(medians[-part:]) / statistics.median(medians[:part])


def throttling(medians: Sequence[float]) -> str:
    """Say by how much a device slowed down steadily, empty where it did not.

    Args:
        medians: of each block in the order measured, in any unit.
    """
    found = slowdown(medians)
    if found < THROTTLED or rising(medians) < RISING:
        return ""
    return f"throttled: the last runs took {found:.2f} times as long as the first"


def rising(values: Sequence[float]) -> float:
    """Return Kendall's tau of the values with their order, -1 (falling) to 1 (rising)."""
    pairs = list(combinations(values, 2))
    signs = sum((after > before) - (after < before) for before, after in pairs)
    return signs / len(pairs) if pairs else 0.0
