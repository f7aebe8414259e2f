"""Compute statistics of timed runs from blocks of milliseconds.

Runs of one block are more similar than runs of different blocks, so the block is the unit: the centre is the median of
the block medians, and its interval comes from resampling whole blocks (cluster bootstrap).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

import numpy as np

Blocks = Sequence[Sequence[float]]

LEVEL = 0.95
RESAMPLES = 1000
UNSTABLE_CV = 0.05  # of the block medians; 2-3 % between runs is usual on an idle machine


class Verdict(StrEnum):
    """The verdict on a measurement: only a stable one can be trusted."""

    STABLE = "stable"
    UNSTABLE = "unstable"
    CONTENDED = "contended"


@dataclass(frozen=True)
class Summary:
    """Statistics of the runs of one series, in the unit of the values (milliseconds).

    Attributes:
        median: median of the block medians in ms.
        low: lower end of its 95 % bootstrap interval in ms.
        high: upper end in ms.
        p50: median of all runs in ms.
        p90: 90th percentile of all runs in ms.
        p99: 99th percentile of all runs in ms.
        min: shortest run in ms.
        max: longest run in ms.
        mean: mean of all runs in ms.
        std: standard deviation of all runs in ms.
        cv: coefficient of variation of all runs (standard deviation / mean), without a unit.
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


def summarise(blocks: Blocks) -> Summary:
    """Return the statistics of the runs of one series.

    Raises:
        ValueError: there is no block, or one is empty.
    """
    medians = block_medians(blocks)
    values = [value for block in blocks for value in block]
    mean, deviation, middle = statistics.fmean(values), statistics.pstdev(values), statistics.fmean(medians)
    low, high = median_interval(medians if len(medians) > 1 else sorted(values))
    p50, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99]).tolist()
    return Summary(
        median=statistics.median(medians),
        low=low,
        high=high,
        p50=p50,
        p90=p90,
        p99=p99,
        min=min(values),
        max=max(values),
        mean=mean,
        std=deviation,
        cv=deviation / mean if mean else 0.0,
        block_cv=statistics.pstdev(medians) / middle if middle else 0.0,
        runs=len(values),
        blocks=len(medians),
    )


def block_medians(blocks: Blocks) -> list[float]:
    """Return the median of each block.

    Raises:
        ValueError: a block is empty.
    """
    return [statistics.median(block) for block in blocks]


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the median (Efron 1979); equal seeds give equal intervals."""
    random = Random(seed)
    drawn = [statistics.median(random.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def paired_ratio(reference: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of ``other / reference`` over paired blocks with its bootstrap interval.

    Args:
        reference: block medians of the reference, in the order measured.
        other: block medians of the other, measured next to them.

    Raises:
        ValueError: the two differ in length or are empty.
    """
    ratios = [second / first for first, second in zip(reference, other, strict=True)]
    return statistics.median(ratios), *median_interval(ratios)
