"""The first look at a file's speed, statistics of timed runs, and windows of a run without a rest."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import StageError
from advisor.measurement import least_cpu_ms
from advisor.measurement._latency.summary import compare_pairs, median_interval, summarise_blocks
from advisor.measurement._latency.sustained import Sustained, Window, run_sustained
from tests.builders import must_fail
from tests.measurement import small_models

times = st.floats(min_value=1e-3, max_value=1e4, allow_nan=False)
blocks = st.lists(st.lists(times, min_size=1, max_size=12), min_size=1, max_size=8)


def test_more_work_takes_more_time(int8_model: Path, swish_model: Path) -> None:
    assert 0 < 2 * least_cpu_ms(int8_model) < least_cpu_ms(swish_model)


@settings(max_examples=20)
@given(blocks)
def test_summary_is_ordered_and_counts_every_run(rows: list[list[float]]) -> None:
    summary = summarise_blocks(rows)
    assert summary.min <= summary.p50 <= summary.p90 <= summary.p99 <= summary.max
    assert summary.min <= summary.low <= summary.high <= summary.max
    assert (summary.runs, summary.blocks) == (sum(map(len, rows)), len(rows))


@settings(max_examples=20)
@given(blocks, st.floats(min_value=0.1, max_value=10))
def test_a_faster_clock_scales_every_figure_but_the_variation(rows: list[list[float]], factor: float) -> None:
    before, after = summarise_blocks(rows), summarise_blocks([[factor * value for value in row] for row in rows])
    assert after.median == pytest.approx(factor * before.median)
    assert after.p90 == pytest.approx(factor * before.p90)
    assert after.cv == pytest.approx(before.cv, abs=1e-6)


def test_one_disturbed_block_does_not_move_the_centre() -> None:
    calm = [[1.0, 1.1, 0.9]] * 7
    assert summarise_blocks([*calm, [50.0, 60.0, 70.0]]).median == 1.0


def test_bootstrap_interval_covers_the_median_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    hits = 0
    for seed in range(100):
        low, high = median_interval(list(draw.normal(10, 1, 15)), seed)
        hits += low <= 10 <= high
    assert 84 <= hits <= 99


@pytest.mark.parametrize("rows", [[], [[]], [[1.0], []]])
def test_no_runs_are_refused(rows: list[list[float]]) -> None:
    must_fail(ValueError, "no median|at least one data point", summarise_blocks, rows)


def test_paired_ratio_needs_pairs_and_sees_through_a_drift_that_meets_both() -> None:
    drift = [1.0, 1.5, 2.0, 3.0, 2.5]
    ratio, low, high = compare_pairs(drift, [1.2 * value for value in drift])
    assert (ratio, low, high) == pytest.approx((1.2, 1.2, 1.2))
    must_fail(ValueError, "shorter", compare_pairs, [1.0, 2.0], [1.0])


def made(medians: list[float], seconds: float = 300.0) -> Sustained:
    step = seconds / len(medians)
    windows = tuple(Window(index * step, 10, median) for index, median in enumerate(medians))
    return Sustained(1, seconds, "CPU time", min(60.0, seconds / 5), windows, 0.0)


def test_the_last_minute_is_held_against_the_first_or_fifths_of_a_short_time() -> None:
    found = made([2.0] * 6 + [3.0] * 18 + [4.0] * 6)
    assert (found.first_ms, found.last_ms, found.ratio) == (2.0, 4.0, 2.0)
    assert found.sentence.startswith("slows down by 100% in a long run: 2.00 ms in the first 60 s")
    assert made([2.0] * 29 + [2.06]).sentence.startswith("keeps its speed")
    found = made([1.0] * 6 + [5.0] * 18 + [2.0] * 6, seconds=10.0)
    assert (found.span_s, found.first_ms, found.last_ms) == (2.0, 1.0, 2.0)


@pytest.mark.integration
def test_windows_cover_the_time(float_model: Path) -> None:
    found = run_sustained(float_model, 2, 0.2, windows=5)
    assert found.clock == "wall time"
    assert len(found.windows) == 5
    assert [row.start_s for row in found.windows] == sorted(row.start_s for row in found.windows)
    assert all(row.runs > 0 and row.median_ms > 0 for row in found.windows)


@pytest.mark.integration
def test_a_file_that_cannot_run_is_named(tmp_path: Path) -> None:
    broken = small_models.saved(tmp_path, b"nothing", "broken.tflite")
    must_fail(StageError, r"broken\.tflite", run_sustained, broken, 1, 0.1)
