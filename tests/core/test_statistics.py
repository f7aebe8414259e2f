"""Intervals, limits of accuracy and drop held against both parts, and changes beyond the noise."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import (
    CaptureAccuracy,
    Decision,
    Evaluation,
    ImageAnswers,
    Interval,
    Limits,
    Provenance,
    Quantity,
    as_probabilities,
)
from advisor.core._expectation import accuracy_belief, drop_belief, metric_belief
from advisor.engine._history.differences import FIGURES, compare_figure, compare_figures, without_noise
from tests.builders import evaluation, must_fail, present
from tests.tables import with_cases

SEVENTY = Limits(min_accuracy=70.0)


def test_wilson_gives_the_textbook_interval() -> None:
    # Newcombe 1998, table I: 81 of 263 -> 0.2553 to 0.3662.
    interval = Interval.wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=1e-4)
    assert interval.high == pytest.approx(0.3662, abs=1e-4)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_in_the_unit_interval(counts: tuple[int, int]) -> None:
    interval = Interval.wilson(*counts)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (3, 2), (-1, 5)])
def test_wilson_refuses_impossible_counts(successes: int, trials: int) -> None:
    must_fail(ValueError, "successes", Interval.wilson, successes, trials)


def test_a_difference_is_told_from_noise() -> None:
    equal = Interval.paired_difference([True, False, True], [True, False, True])
    clear = Interval.paired_difference([True] * 100, [True] * 60 + [False] * 40)
    lost_three = [True] * 47 + [False] * 3 + [True] * 2 + [False] * 48
    small = Interval.paired_difference([True] * 50 + [False] * 50, lost_three)
    assert [each.value for each in (equal, clear, small)] == pytest.approx([0.0, 0.4, 0.01])
    assert [each.spans_zero for each in (equal, clear, small)] == [True, False, True]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_the_interval_holds_the_difference(pairs: list[tuple[bool, bool]]) -> None:
    first, second = zip(*pairs, strict=True)
    interval = Interval.paired_difference(first, second)
    assert interval.low <= interval.value <= interval.high


@settings(max_examples=15)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=30, max_size=60))
def test_shares_of_one_answer_each_are_right_and_wrong_answers(pairs: list[tuple[bool, bool]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    difference = Interval.paired_difference(first, second)
    assert Interval.paired_shares(first, second).value == pytest.approx(difference.value)
    assert Interval.difference_of_means([float(a) for a in first], [float(b) for b in second]) == difference


def test_answers_to_one_image_hang_together() -> None:
    """Five pictures of forty that one candidate always misses are told from chance no better for ten looks each."""
    perfect, missing = [1.0] * 40, [0.0] * 5 + [1.0] * 35
    looked_once = Interval.paired_difference([True] * 40, [False] * 5 + [True] * 35)
    shares = Interval.paired_shares(perfect, missing)
    assert shares.high - shares.low == pytest.approx(looked_once.high - looked_once.low, abs=0.05)
    assert Interval.difference_of_means(perfect, [0.5] * 5 + [1.0] * 35).value == pytest.approx(5 / 80)


@pytest.mark.parametrize("compare", [Interval.paired_difference, Interval.paired_shares])
def test_a_difference_needs_images_in_common(compare: Callable[..., object]) -> None:
    must_fail(ValueError, "2 and 1 images", compare, [True, False], [True])


@with_cases
def test_logits_get_a_softmax_and_probabilities_stay_as_they_are(row: list[float], expected: list[float]) -> None:
    assert as_probabilities(np.array([row])) == pytest.approx(np.array([expected]), abs=1e-6)
    assert as_probabilities(np.zeros((0, 3))).shape == (0, 3)


def share(right: int, images: int) -> Quantity:
    found = Interval.wilson(right, images)
    return Quantity(100 * found.value, "%", Provenance.MEASURED, 100 * found.low, 100 * found.high, 0.95, images)


def lost(images: int, worse: int, better: int = 0) -> Quantity:
    """Return the drop of a form that answers ``worse`` images wrongly that float32 answers rightly."""
    floats = [place >= better for place in range(images)]
    form = [place < better or place >= better + worse for place in range(images)]
    found = Interval.paired_difference(floats, form)
    return Quantity(100 * found.value, "points", Provenance.MEASURED, 100 * found.low, 100 * found.high, 0.95, images)


def judged(card: str, validation: tuple[int, int], holdout: tuple[int, int] | None, **figures: float) -> Evaluation:
    made = replace(evaluation(card, **figures), accuracy=share(*validation))
    return replace(made, holdout_accuracy=share(*holdout)) if holdout else made


def test_a_hold_out_that_contradicts_the_limit_makes_it_unmet_and_the_answer_says_with_which_probability() -> None:
    one = judged("one", (333, 474), (1712, 2485))  # 70.3 % on validation, 68.9 % on the hold-out
    assert SEVENTY.met_by(replace(one, holdout_accuracy=None))
    assert not SEVENTY.met_by(one)
    decision = Decision.of_evaluations([one], SEVENTY)
    assert not decision.feasible
    assert "accuracy 70.3 % on validation and 68.9 % on the hold-out against 70.0 %" in decision.reason
    assert "(met with 13 % probability)" in decision.reason
    assert decision.relaxations[0].needed == "69.0 %"
    decision = Decision.of_evaluations([judged("one", (336, 474), None)], SEVENTY)
    assert decision.feasible
    assert "; the limit of 70.0 % accuracy is met with 66 % probability" in decision.reason


def test_three_images_of_296_do_not_throw_out_a_form_and_a_large_loss_does() -> None:
    assert not Limits(max_drop_points=1.0).met_by(replace(evaluation("one"), drop=lost(296, 12, 2)))
    limits = Limits(max_drop_points=1.0)
    form = replace(evaluation("one"), drop=lost(296, 3))
    assert present(form.drop).value > 1.0
    assert limits.met_by(form)
    assert limits.probabilities(form)["drop"] == pytest.approx(0.54, abs=0.03)
    confirmed = replace(form, holdout_drop=lost(2485, 20, 20))
    assert limits.probabilities(confirmed)["drop"] > 0.9
    refuted = replace(form, holdout_drop=lost(2485, 60, 20))
    assert not limits.met_by(refuted)


@given(st.floats(-5, 60), st.floats(0.1, 8))
def test_the_expected_loss_lies_between_none_and_the_measured_one(measured: float, half: float) -> None:
    drop = Quantity(measured, "points", Provenance.MEASURED, measured - half, measured + half, 0.95, 300)
    belief = present(drop_belief(replace(evaluation("one"), drop=drop)))
    assert min(0.0, measured) - 1e-9 <= belief.mean <= max(0.0, measured) + 1e-9
    assert sum(share for share, *_ in belief.parts) == pytest.approx(1)


def test_under_capture_conditions_the_same_figure_of_the_hold_out_counts() -> None:
    robust = replace(
        judged("one", (300, 400), (390, 400)), capture=CaptureAccuracy(plain=share(390, 400), holdout=share(240, 400))
    )
    belief = present(accuracy_belief(robust))
    assert 60 < belief.mean < 70


def test_what_is_not_measured_is_held_as_it_is() -> None:
    published = evaluation("one", accuracy=70.0, half_width=None)
    assert SEVENTY.met_by(published)
    assert SEVENTY.probabilities(published) == {}
    assert drop_belief(replace(published, drop=None)) is None


@given(st.integers(0, 300), st.integers(0, 900), st.floats(1, 99))
def test_a_limit_is_met_exactly_where_its_probability_is_at_least_a_half(right: int, held: int, limit: float) -> None:
    one, limits = judged("one", (right, 300), (held, 900)), Limits(min_accuracy=limit)
    probability = limits.probabilities(one)["accuracy"]
    if abs(probability - 0.5) > 1e-3:
        assert limits.met_by(one) == (probability > 0.5)


@given(st.integers(0, 899), st.floats(1, 99))
def test_a_better_hold_out_never_meets_a_limit_with_less_probability(held: int, limit: float) -> None:
    limits = Limits(min_accuracy=limit)
    worse, better = (limits.probabilities(judged("one", (200, 300), (n, 900)))["accuracy"] for n in (held, held + 1))
    assert worse <= better + 0.02  # the interval is wider towards the middle


def test_a_metric_is_held_by_what_both_parts_show() -> None:
    answers = ImageAnswers(metrics={"macro-f1": share(300, 400)})
    one = replace(evaluation("one"), answers=answers)
    belief = present(metric_belief(one, "macro-f1"))
    assert belief.mean == pytest.approx(75)
    judged_too = replace(one, holdout_answers=ImageAnswers(metrics={"macro-f1": share(240, 400)}))
    assert present(metric_belief(judged_too, "macro-f1")).mean == pytest.approx(65)
    assert metric_belief(one, "top5") is None


def latency(value: float, half_width: float | None = 0.0) -> Quantity:
    low, high = (None, None) if half_width is None else (value - half_width, value + half_width)
    return Quantity(value, "ms", Provenance.MEASURED, low, high)


@with_cases
def test_a_change_counts_by_its_size(before: list[Any] | None, after: list[Any] | None, counts: bool, why: str) -> None:
    change = compare_figure("latency", *(latency(*value) if value else None for value in (before, after)))
    assert (change.counts, change.why) == (counts, why)


@pytest.mark.parametrize(("apart", "counts"), [(True, True), (False, False)])
def test_images_in_common_tell_more_than_intervals(apart: bool, counts: bool) -> None:
    before, after = evaluation(accuracy=80).accuracy, evaluation(accuracy=82).accuracy
    assert not compare_figure("accuracy", before, after).counts
    assert compare_figure("accuracy", before, after, apart).counts is counts


def test_more_accuracy_is_better_and_more_of_anything_else_or_a_lost_figure_is_worse() -> None:
    before = evaluation(accuracy=80, half_width=0, latency=10, size=1e6, drop=0)
    after = evaluation(accuracy=70, half_width=0, latency=20, size=2e6, drop=5)
    before, after = (replace(each, holdout_accuracy=each.accuracy) for each in (before, after))
    assert {change.figure for change in compare_figures(before, after) if change.worse} == set(FIGURES) - {"memory"}
    assert not any(change.worse for change in compare_figures(after, before))
    assert compare_figure("memory", Quantity(1e6, "bytes", Provenance.MEASURED), None).worse
    assert not compare_figure("memory", None, Quantity(1e6, "bytes", Provenance.MEASURED)).worse


def test_the_hold_out_of_both_runs_counts_and_a_latency_of_a_busy_machine_never() -> None:
    known = replace(evaluation(accuracy=80), holdout_accuracy=Quantity(80, "%", Provenance.MEASURED))
    for before, after in ((known, evaluation(accuracy=80)), (evaluation(accuracy=80), known)):
        assert not any(change.counts for change in compare_figures(before, after))
    before, after = evaluation(latency=10), replace(evaluation(latency=30), contended=True)
    found = {change.figure: change for change in compare_figures(before, after)}
    assert not found["latency"].counts
    assert not found["latency_p90"].counts
    assert "busy" in found["latency"].why
    before, after = evaluation(latency=10, p90=11), evaluation(latency=10, p90=30)
    assert not any(change.counts for change in compare_figures(before, after))


@given(st.floats(1, 1e3), st.floats(1, 1e3))
def test_settling_keeps_what_counts_and_sets_back_the_rest(first: float, second: float) -> None:
    before, after = evaluation(latency=first), evaluation(latency=second)
    changes = compare_figures(before, after)
    result = without_noise(after, changes)
    for change in changes:
        assert getattr(result, change.figure) == (change.after if change.counts else change.before)
