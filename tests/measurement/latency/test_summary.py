"""Statistics of timed runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measurement.latency.summary import median_interval, paired_ratio, summarise

times = st.floats(min_value=1e-3, max_value=1e4, allow_nan=False)
blocks = st.lists(st.lists(times, min_size=1, max_size=12), min_size=1, max_size=8)


@given(blocks)
def test_summary_is_ordered_and_counts_every_run(rows: list[list[float]]) -> None:
    summary = summarise(rows)
    assert summary.min <= summary.p50 <= summary.p90 <= summary.p99 <= summary.max
    assert summary.min <= summary.low <= summary.high <= summary.max
    assert (summary.runs, summary.blocks) == (sum(map(len, rows)), len(rows))


@given(blocks, st.floats(min_value=0.1, max_value=10))
def test_a_faster_clock_scales_every_figure_but_the_variation(rows: list[list[float]], factor: float) -> None:
    before, after = summarise(rows), summarise([[factor * value for value in row] for row in rows])
    assert after.median == pytest.approx(factor * before.median)
    assert after.p90 == pytest.approx(factor * before.p90)
    assert after.cv == pytest.approx(before.cv, abs=1e-6)


def test_centre_is_the_median_of_block_medians() -> None:
    assert summarise([[1, 2, 3], [10, 11, 12], [4, 5, 6]]).median == 5


def test_one_disturbed_block_does_not_move_the_centre() -> None:
    calm = [[1.0, 1.1, 0.9]] * 7
    assert summarise([*calm, [50.0, 60.0, 70.0]]).median == 1.0


def test_bootstrap_interval_covers_the_median_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    hits = 0
    for seed in range(100):
        low, high = median_interval(list(draw.normal(10, 1, 15)), seed)
        hits += low <= 10 <= high
    assert 84 <= hits <= 99


def test_bootstrap_repeats_by_its_seed() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert median_interval(values, seed=3) == median_interval(values, seed=3)


@pytest.mark.parametrize("rows", [[], [[]], [[1.0], []]])
def test_no_runs_are_refused(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="no median|at least one data point"):
        summarise(rows)


def test_paired_ratio_sees_through_a_drift_that_meets_both() -> None:
    drift = [1.0, 1.5, 2.0, 3.0, 2.5]
    ratio, low, high = paired_ratio(drift, [1.2 * value for value in drift])
    assert (ratio, low, high) == pytest.approx((1.2, 1.2, 1.2))


def test_paired_ratio_needs_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])
