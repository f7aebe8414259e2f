"""Limits of accuracy and drop, held against validation and hold-out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.beliefs import accuracy_belief, drop_belief, metric_belief
from advisor.core.budget import Budget
from advisor.core.decision import decide
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import CaptureAccuracy, ImageAnswers
from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import paired_difference, wilson
from tests.builders import evaluation, present

SEVENTY = Budget(min_accuracy=70.0)


def share(right: int, images: int) -> Quantity:
    found = wilson(right, images)
    return Quantity(100 * found.value, "%", Provenance.MEASURED, 100 * found.low, 100 * found.high, 0.95, images)


def lost(images: int, worse: int, better: int = 0) -> Quantity:
    """Return the drop of a form that answers ``worse`` images wrongly that float32 answers rightly."""
    floats = [place >= better for place in range(images)]
    form = [place < better or place >= better + worse for place in range(images)]
    found = paired_difference(floats, form)
    return Quantity(
        100 * found.value, "points", Provenance.MEASURED, 100 * found.low, 100 * found.high, 0.95, images
    )  # fmt: skip


def judged(card: str, validation: tuple[int, int], holdout: tuple[int, int] | None, **figures: float) -> Evaluation:
    made = replace(evaluation(card, **figures), accuracy=share(*validation))
    return replace(made, holdout_accuracy=share(*holdout)) if holdout else made


def test_a_hold_out_that_contradicts_the_limit_makes_it_unmet() -> None:
    one = judged("one", (333, 474), (1712, 2485))  # 70.3 % on validation, 68.9 % on the hold-out
    assert SEVENTY.met_by(replace(one, holdout_accuracy=None))
    assert not SEVENTY.met_by(one)
    decision = decide([one], SEVENTY)
    assert not decision.feasible
    assert "accuracy 70.3 % on validation and 68.9 % on the hold-out against 70.0 %" in decision.reason
    assert "(met with 13 % probability)" in decision.reason
    assert decision.relaxations[0].needed == "69.0 %"


def test_another_candidate_that_meets_the_limit_is_picked_instead() -> None:
    refuted = judged("refuted", (370, 474), (1612, 2485), latency=2)
    holds = judged("holds", (360, 474), (1900, 2485), latency=4)
    decision = decide([refuted, holds], SEVENTY)
    assert decision.feasible
    assert decision.pick == holds


def test_the_answer_says_with_which_probability_a_limit_is_met() -> None:
    decision = decide([judged("one", (336, 474), None)], SEVENTY)
    assert decision.feasible
    assert "; the limit of 70.0 % accuracy is met with 66 % probability" in decision.reason


def test_three_images_of_296_do_not_throw_out_a_form() -> None:
    limits = Budget(max_drop_points=1.0)
    form = replace(evaluation("one"), drop=lost(296, 3))
    assert present(form.drop).value > 1.0
    assert limits.met_by(form)
    assert limits.probabilities(form)["drop"] == pytest.approx(0.54, abs=0.03)
    confirmed = replace(form, holdout_drop=lost(2485, 20, 20))
    assert limits.probabilities(confirmed)["drop"] > 0.9
    refuted = replace(form, holdout_drop=lost(2485, 60, 20))
    assert not limits.met_by(refuted)


def test_a_form_that_loses_much_is_thrown_out() -> None:
    assert not Budget(max_drop_points=1.0).met_by(replace(evaluation("one"), drop=lost(296, 12, 2)))


def test_a_large_loss_is_not_drawn_to_what_forms_usually_lose() -> None:
    belief = drop_belief(
        replace(evaluation("one"), drop=Quantity(14.0, "points", Provenance.MEASURED, 8, 20, 0.95, 120))
    )
    assert belief is not None
    assert belief.mean == pytest.approx(13.6, abs=0.3)
    assert belief.below(5.0) < 0.02


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
    one, budget = judged("one", (right, 300), (held, 900)), Budget(min_accuracy=limit)
    probability = budget.probabilities(one)["accuracy"]
    if abs(probability - 0.5) > 1e-3:
        assert budget.met_by(one) == (probability > 0.5)


@given(st.integers(0, 899), st.floats(1, 99))
def test_a_better_hold_out_never_meets_a_limit_with_less_probability(held: int, limit: float) -> None:
    budget = Budget(min_accuracy=limit)
    worse, better = (budget.probabilities(judged("one", (200, 300), (n, 900)))["accuracy"] for n in (held, held + 1))
    assert worse <= better + 0.02  # the interval is wider towards the middle


def test_a_metric_is_held_by_what_both_parts_show() -> None:
    answers = ImageAnswers(metrics={"macro-f1": share(300, 400)})
    one = replace(evaluation("one"), answers=answers)
    belief = present(metric_belief(one, "macro-f1"))
    assert belief.mean == pytest.approx(75)
    both = metric_belief(replace(one, holdout_answers=ImageAnswers(metrics={"macro-f1": share(240, 400)})), "macro-f1")
    assert both is not None
    assert both.mean == pytest.approx(65)
    assert metric_belief(one, "top5") is None
