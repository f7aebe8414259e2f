"""Compute statistics of timed runs from blocks of milliseconds.

Runs of one block are more similar than runs of different blocks, so the block is the unit: the centre is the median of
the block medians, and its interval comes from resampling whole blocks (cluster bootstrap).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

Blocks = Sequence[Sequence[float]]

LEVEL = 0.95
RESAMPLES = 1000
UNSTABLE_CV = 0.05  # of the block medians; 2-3 % between runs is usual on an idle machine


class Verdict(StrEnum):
    """Whether a measurement can be trusted."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    CONTENDED = "contended"


@dataclass(frozen=True)
class Summary:
    """Statistics of the runs of one series, in the unit of the values (milliseconds).

    Attributes:
        median: median of the block medians.
        low: lower end of its 95 % bootstrap interval.
        high: upper end.
        p50: median of all runs; p90 and p99 are the 90th and 99th percentile.
        cv: coefficient of variation (standard deviation / mean) of all runs.
        block_cv: coefficient of variation of the block medians.
        runs: number of runs.
        blocks: number of blocks.
    """

    median: float
    low: float
    high: float
    p50: float
    p90: float
    p99: float
    min: float
    max: float
    mean: float
    std: float
    cv: float
    block_cv: float
    runs: int
    blocks: int


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile ``share`` (0-1) of the values, with linear interpolation.

    Raises:
        ValueError: there are no values, or the share is outside 0-1.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    mixed = ordered[below] + (position - below) * (ordered[above] - ordered[below])
    return min(max(mixed, ordered[below]), ordered[above])


def summarise(blocks: Blocks, seed: int = 0) -> Summary:
    """Return the statistics of the runs of one series.

    Raises:
        ValueError: there is no block, or one is empty.
    """
    medians = block_medians(blocks)
    values = sorted(value for block in blocks for value in block)
    mean, deviation = statistics.fmean(values), statistics.pstdev(values)
    low, high = bootstrap(medians if len(medians) > 1 else values, statistics.median, seed)
    return Summary(
        median=statistics.median(medians),
        low=low,
        high=high,
        p50=percentile(values, 0.5),
        p90=percentile(values, 0.9),
        p99=percentile(values, 0.99),
        min=values[0],
        max=values[-1],
        mean=mean,
        std=deviation,
        cv=_ratio(deviation, mean),
        block_cv=_ratio(statistics.pstdev(medians), statistics.fmean(medians)),
        runs=len(values),
        blocks=len(medians),
    )


def block_medians(blocks: Blocks) -> list[float]:
    """Return the median of each block.

    Raises:
        ValueError: there is no block, or one is empty.
    """
    if not blocks or not all(blocks):
        raise ValueError("a summary needs at least one block, and no empty one")
    return [statistics.median(block) for block in blocks]


def bootstrap(
    values: Sequence[float], statistic: Callable[[list[float]], float], seed: int = 0, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of ``statistic`` (Efron 1979); equal seeds give equal intervals."""
    random = Random(seed)
    drawn = [statistic(random.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return percentile(drawn, (1 - level) / 2), percentile(drawn, (1 + level) / 2)


def paired_ratio(reference: Sequence[float], other: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the median of ``other / reference`` over paired blocks with its bootstrap interval.

    Args:
        reference: block medians of the reference, in the order measured.
        other: block medians of the other, measured next to them.

    Raises:
        ValueError: the two differ in length or are empty.
    """
    ratios = [second / first for first, second in zip(reference, other, strict=True)]
    low, high = bootstrap(ratios, statistics.median, seed)
    return statistics.median(ratios), low, high


def _ratio(part: float, whole: float) -> float:
    """Return part / whole, or 0 if the whole is 0."""
    return part / whole if whole else 0.0
