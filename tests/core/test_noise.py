from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.noise import FIGURES, THRESHOLDS, delta, deltas, without_noise
from advisor.core.quantity import Provenance, Quantity
from tests.builders import evaluation


def latency(value: float, half_width: float | None = 0.0) -> Quantity:
    low, high = (None, None) if half_width is None else (value - half_width, value + half_width)
    return Quantity(value, "ms", Provenance.MEASURED, low, high)


@pytest.mark.parametrize(
    ("before", "after", "counts", "why"),
    [
        (latency(10), latency(12), True, "beyond the noise"),
        (latency(10), latency(10.4), False, "not more than 5 %"),
        (latency(0.50), latency(0.58), False, "not more than 0.10 ms"),
        (latency(10, 1), latency(12, 1.5), False, "the intervals overlap"),
        (latency(10, 0.5), latency(12, 0.5), True, "beyond the noise"),
        (latency(10, None), latency(12, None), True, "beyond the noise"),
        (latency(10), None, True, "known on one side only"),
        (None, None, False, ""),
    ],
)
def test_a_change_counts_by_share_by_amount_and_beyond_the_interval(
    before: Quantity | None, after: Quantity | None, counts: bool, why: str
) -> None:
    change = delta("latency", before, after)
    assert (change.counts, change.why) == (counts, why)


@pytest.mark.parametrize(("apart", "counts"), [(True, True), (False, False)])
def test_images_in_common_tell_more_than_intervals(apart: bool, counts: bool) -> None:
    before, after = evaluation(accuracy=80).accuracy, evaluation(accuracy=82).accuracy
    assert not delta("accuracy", before, after).counts
    assert delta("accuracy", before, after, apart).counts is counts


def test_more_accuracy_is_better_and_more_of_anything_else_is_worse() -> None:
    before = evaluation(accuracy=80, half_width=0, latency=10, size=1e6, drop=0)
    after = evaluation(accuracy=70, half_width=0, latency=20, size=2e6, drop=5)
    before, after = (replace(each, holdout_accuracy=each.accuracy) for each in (before, after))
    assert {change.figure for change in deltas(before, after) if change.worse} == set(FIGURES) - {"memory"}
    assert not any(change.worse for change in deltas(after, before))


def test_a_figure_that_is_lost_is_worse_and_one_that_is_found_is_not() -> None:
    assert delta("memory", Quantity(1e6, "bytes", Provenance.MEASURED), None).worse
    assert not delta("memory", None, Quantity(1e6, "bytes", Provenance.MEASURED)).worse


def test_the_hold_out_counts_only_where_both_runs_looked_at_it() -> None:
    known = replace(evaluation(accuracy=80), holdout_accuracy=Quantity(80, "%", Provenance.MEASURED))
    for before, after in ((known, evaluation(accuracy=80)), (evaluation(accuracy=80), known)):
        assert not any(change.counts for change in deltas(before, after))


def test_a_latency_of_a_busy_machine_never_counts() -> None:
    before, after = evaluation(latency=10), replace(evaluation(latency=30), contended=True)
    found = {change.figure: change for change in deltas(before, after)}
    assert not found["latency"].counts
    assert not found["latency_p90"].counts
    assert "busy" in found["latency"].why


def test_a_tail_counts_only_with_the_median() -> None:
    before, after = evaluation(latency=10, p90=11), evaluation(latency=10, p90=30)
    assert not any(change.counts for change in deltas(before, after))


@given(st.floats(1, 1e3), st.floats(1, 1e3))
def test_settling_keeps_what_counts_and_sets_back_the_rest(first: float, second: float) -> None:
    before, after = evaluation(latency=first), evaluation(latency=second)
    changes = deltas(before, after)
    result = without_noise(after, changes)
    for change in changes:
        assert getattr(result, change.figure) == (change.after if change.counts else change.before)


@given(st.sampled_from(FIGURES), st.floats(1, 1e9), st.floats(0.999, 1.001))
def test_a_thousandth_never_counts_for_what_varies_from_run_to_run(figure: str, value: float, factor: float) -> None:
    if THRESHOLDS[figure].share > 0:
        before, after = (Quantity(v, "", Provenance.MEASURED) for v in (value, value * factor))
        assert not delta(figure, before, after).counts
