"""The figure in new conditions, from the plain figure and the share that is kept."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from advisor.core import (
    BALANCED,
    Configuration,
    Decision,
    Evaluation,
    ImageAnswers,
    Limits,
    NewConditions,
    Preference,
    Provenance,
    Quantity,
    Status,
    Target,
    UsageError,
    with_new_conditions,
)
from advisor.core._expectation import OWN_HOLDOUT, in_new_conditions
from advisor.core._preferences import PREFERENCES, parse_preference
from tests.builders import evaluation, must_fail, present
from tests.tables import with_cases

LIMITS = Limits(latency_ms=50)

ACCURATE = evaluation("accurate", accuracy=92, latency=20, size=9e6)
FAST = evaluation("fast", accuracy=80, latency=2, size=4e6)
SMALL = evaluation("small", accuracy=75, latency=9, size=1e6)
ALL = [ACCURATE, FAST, SMALL]
weights = st.floats(0, 100, allow_nan=False).map(lambda value: round(value, 3))
FACTS = NewConditions(kept=0.7, kept_low=0.5, kept_high=0.85, sd=0.03, silhouette=0.3, clusters=40, images=400)
ALONE = NewConditions(kept=1.0, kept_low=1.0, kept_high=1.0, sd=0.0, silhouette=0.1, clusters=300, images=400)
shares = st.floats(0, 1)


@pytest.mark.parametrize(("name", "pick"), [("accuracy", ACCURATE), ("latency", FAST), ("size", SMALL)])
def test_a_preference_for_one_figure_picks_its_best_within_the_budget(name: str, pick: Evaluation) -> None:
    assert Decision.of_evaluations(ALL, LIMITS, preference=PREFERENCES[name]).pick == pick
    assert Decision.of_evaluations(ALL, Limits(latency_ms=15), preference=PREFERENCES["accuracy"]).pick == FAST


def test_weights_choose_among_all_that_fit_and_the_default_is_balanced() -> None:
    assert Decision.of_evaluations(ALL, LIMITS) == Decision.of_evaluations(ALL, LIMITS, preference=BALANCED)
    decision = Decision.of_evaluations(ALL, LIMITS, preference=parse_preference("accuracy=0.5,latency=2"))
    assert decision.pick == FAST
    assert "accuracy=0.5,latency=2,size=0" in decision.reason
    assert "12.0 points behind the most accurate" in decision.reason


@given(st.floats(5, 500), st.floats(0.1, 0.8), st.floats(0.05, 1), st.sampled_from(["latency", "size"]))
def test_a_saved_share_of_a_limit_buys_as_much_of_a_point(limit: float, saved: float, more: float, figure: str) -> None:
    limits = Limits(latency_ms=limit, size_bytes=int(1e6 * limit))
    costs = {"latency": 0.05 * limit, "size": 0.05e6 * limit}
    best = evaluation("best", accuracy=90, **{**costs, figure: costs[figure] * (1 + saved / 0.05)})
    for points, picked in ((saved + more, best.configuration.card), (saved - 0.05, "cheap")):
        cheap = evaluation("cheap", accuracy=90 - points, **costs)
        assert present(Decision.of_evaluations([best, cheap], limits).pick).configuration.card == picked


def test_weights_of_the_user_count_factors_whatever_the_budget() -> None:
    weights = parse_preference("accuracy=1,latency=1")
    assert weights.within({"latency": 50.0, "size": 1e6}) == weights


def test_the_reason_says_what_is_given_up_and_twice_the_weight_on_size_is_a_flip() -> None:
    best = evaluation("best", accuracy=90.4, latency=20, size=9e6)
    cheap = evaluation("cheap", accuracy=90, latency=5, size=3e6)
    reason = Decision.of_evaluations([best, cheap], LIMITS).reason
    assert "It gives up 0.4 points, and up to 2.2 points may be noise here" in reason
    assert "It is 4.0x faster and 3.0x smaller (15.0 ms and 6.0 MB less, in all worth 1.3 points)" in reason
    quick = evaluation("quick", accuracy=90, latency=5, size=4e6)
    light = evaluation("light", accuracy=90, latency=12, size=3.4e6)
    decision = Decision.of_evaluations([quick, light], LIMITS)
    assert decision.pick == quick
    assert any("size matters twice as much: light" in flip.text for flip in decision.flips)


def test_a_preference_for_accuracy_says_what_it_cannot_tell_apart() -> None:
    best, near = evaluation("best", accuracy=90.5), evaluation("near", accuracy=90, latency=2)
    decision = Decision.of_evaluations([best, near], LIMITS, preference=PREFERENCES["accuracy"])
    assert decision.pick == best
    assert "statistically tied with 1 other" in decision.reason


@pytest.mark.parametrize("name", PREFERENCES)
def test_a_name_is_read_back(name: str) -> None:
    assert parse_preference(f" {name.upper()} ") == PREFERENCES[name]


@given(weights, weights, weights)
def test_weights_are_read_back(accuracy: float, latency: float, size: float) -> None:
    written = f"accuracy={accuracy},latency={latency},size={size}"
    if accuracy == latency == size == 0:
        must_fail(UsageError, "has no weight above 0", parse_preference, written)
    else:
        assert parse_preference(written) == Preference(accuracy, latency, size)


@with_cases
def test_what_is_no_preference_is_refused(text: str, words: str) -> None:
    caught = must_fail(UsageError, words, parse_preference, text)
    assert "--prefer takes balanced" in caught.hint


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 40), st.integers(1, 99)), min_size=1, max_size=12))
def test_any_weights_pick_from_the_front(rows: list[tuple[int, int, int]]) -> None:
    evaluations = [
        evaluation(f"card{place}", accuracy=accuracy, latency=latency, size=size * 1e5)
        for place, (accuracy, latency, size) in enumerate(rows)
    ]
    decision = Decision.of_evaluations(evaluations, LIMITS, preference=Preference(1.0, 0.7, 0.3))
    assert decision.pick in decision.front


def percent(value: float, half: float = 3.0) -> Quantity:
    low, high = max(0.0, value - half), min(100.0, value + half)
    return Quantity(value, "%", Provenance.MEASURED, low, high, 0.95, 500, "validation")


EVALUATION = Evaluation(
    Configuration("net", "head", "int8", Target("host", "litert", "cpu", 1)),
    Status.OK, accuracy=percent(96.0), expectation=FACTS,
)  # fmt: skip


def test_the_figure_is_the_plain_one_times_the_share_that_is_kept() -> None:
    found = in_new_conditions(percent(90.0), FACTS)
    assert found.value == pytest.approx(63.0)
    assert found.provenance is Provenance.ESTIMATED
    assert "70 % of the right answers of the head stay right" in found.source
    assert present(found.low) < 45.0 < 76.5 < present(found.high)


def test_images_without_groups_are_no_evidence_of_new_conditions() -> None:
    alone = replace(EVALUATION, expectation=ALONE, holdout_accuracy=percent(90.0))
    assert with_new_conditions(alone).new_conditions is None
    assert alone.in_unknown_conditions
    assert not with_new_conditions(alone, own_holdout=True).in_unknown_conditions
    assert not with_new_conditions(EVALUATION).in_unknown_conditions


def test_the_interval_ends_at_all_images_where_few_classes_could_all_be_right() -> None:
    few = replace(FACTS, kept=0.98, kept_low=0.9, kept_high=1.0, sd=0.15)
    assert in_new_conditions(percent(97.0), few).high == 100.0


@given(st.floats(0, 100), st.lists(shares, min_size=3, max_size=3), st.floats(0, 0.4))
def test_the_interval_holds_the_figure(plain: float, kept: list[float], sd: float) -> None:
    low, middle, high = sorted(kept)
    found = in_new_conditions(percent(plain), replace(FACTS, kept=middle, kept_low=low, kept_high=high, sd=sd))
    assert 0.0 <= present(found.low) <= found.value <= present(found.high) <= 100.0


@pytest.mark.parametrize(("facts", "holdout", "expected"), [(FACTS, 80.0, 0.7 * 96.0), (FACTS, 60.0, 60.0)])
def test_the_estimate_has_groups_and_is_modest(facts: NewConditions, holdout: float, expected: float) -> None:
    judged = replace(EVALUATION, expectation=facts, holdout_accuracy=percent(holdout))
    found = present(with_new_conditions(judged).new_conditions)
    assert found.value == pytest.approx(expected)
    assert present(found.low) < expected


def test_the_holdout_of_the_users_own_split_is_the_figure_itself() -> None:
    judged = replace(EVALUATION, holdout_accuracy=percent(71.0))
    found = with_new_conditions(judged, own_holdout=True).new_conditions
    assert found == replace(percent(71.0), source=OWN_HOLDOUT)


def test_without_an_estimate_of_the_card_there_is_no_figure() -> None:
    assert with_new_conditions(replace(EVALUATION, expectation=None)).new_conditions is None


def test_a_finetuned_network_says_that_the_head_stands_for_it() -> None:
    configuration = replace(EVALUATION.configuration, training="finetune_top")
    found = present(with_new_conditions(replace(EVALUATION, configuration=configuration)).new_conditions)
    assert "of the head on the frozen network" in found.source


def test_by_another_metric_the_figure_is_still_that_of_top_1() -> None:
    top1 = ImageAnswers(metrics={"top1": percent(96.0)})
    other = replace(EVALUATION, accuracy=percent(60.0), answers=top1)
    assert with_new_conditions(other).new_conditions == with_new_conditions(EVALUATION).new_conditions
    judged = replace(
        other, holdout_accuracy=percent(40.0), holdout_answers=ImageAnswers(metrics={"top1": percent(93.0)})
    )
    expected = with_new_conditions(replace(EVALUATION, holdout_accuracy=percent(93.0))).new_conditions
    assert with_new_conditions(judged).new_conditions == expected
