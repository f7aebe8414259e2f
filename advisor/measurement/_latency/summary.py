"""Statistics of timed runs from blocks of milliseconds.

Runs of one block are more similar than runs of different blocks, so the block is the unit: the
centre is the median of the block medians, and its interval comes from resampling whole blocks
(cluster bootstrap). The fields of :class:`Summary` are keys of JSON documents.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

LEVEL = 0.95
RESAMPLES = 1000


@dataclass(frozen=True)
class Summary:
    """Statistics of the runs of one series, in the unit of the values (milliseconds)."""

    median: float  #: median of the block medians in ms
    low: float  #: lower end of its 95 % bootstrap interval in ms
    high: float  #: upper end in ms
    p50: float  #: median of all runs in ms
    p90: float  #: 90th percentile of all runs in ms
    p99: float  #: 99th percentile of all runs in ms
    min: float  #: shortest run in ms
    max: float  #: longest run in ms
    mean: float  #: mean of all runs in ms
    std: float  #: standard deviation of all runs in ms
    cv: float  #: coefficient of variation of all runs (standard deviation / mean), without a unit
    block_cv: float  #: coefficient of variation of the block medians
    runs: int  #: number of runs
    blocks: int  #: number of blocks


def summarise_blocks(blocks: Sequence[Sequence[float]]) -> Summary:
    """Return the statistics of the runs of one series;
    raise ValueError if there is no block, or one is empty.
    """
    medians = list(map(statistics.median, blocks))
    values = list[float]()
    for block in blocks:
        values += block
    mean = statistics.fmean(values)
    deviation = statistics.pstdev(values)
    middle = statistics.fmean(medians)
    # A single block has no medians to resample, so its runs stand in, although they are alike.
    low, high = median_interval(medians if len(medians) > 1 else sorted(values))
    cv = deviation / mean if mean else 0.0
    block_cv = statistics.pstdev(medians) / middle if middle else 0.0
    p50, p90, p99 = np.quantile(values, [0.5, 0.9, 0.99]).tolist()
    quantiles = (statistics.median(medians), low, high, p50, p90, p99, min(values), max(values))
    return Summary(*quantiles, mean, deviation, cv, block_cv, len(values), len(medians))


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the median (Efron 1979);
    equal seeds give equal intervals.
    """
    random = Random(seed)
    drawn = [statistics.median(random.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return low, high


def compare_pairs(
    reference: Sequence[float], compared: Sequence[float]
) -> tuple[float, float, float]:
    """Return the median of ``compared / reference`` over paired block medians,
    with its bootstrap interval.
    """
    ratios = [second / first for first, second in zip(reference, compared, strict=True)]
    return statistics.median(ratios), *median_interval(ratios)
