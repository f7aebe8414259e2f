"""The figure in new conditions, from the plain figure and the share that is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.evaluation import Configuration, Evaluation, Status, Target
from advisor.core.evaluation_facts import ImageAnswers, NewConditions
from advisor.core.evaluation_json import evaluation_from_json, evaluation_to_json
from advisor.core.expectation import OWN_HOLDOUT, in_new_conditions, with_new_conditions
from advisor.core.quantity import Provenance, Quantity
from tests.builders import present

FACTS = NewConditions(kept=0.7, kept_low=0.5, kept_high=0.85, sd=0.03, silhouette=0.3, clusters=40, images=400)
ALONE = NewConditions(kept=1.0, kept_low=1.0, kept_high=1.0, sd=0.0, silhouette=0.1, clusters=300, images=400)
shares = st.floats(0, 1)


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
    assert found.low is not None
    assert found.high is not None
    assert found.low < 45.0 < 76.5 < found.high


def test_images_without_groups_keep_the_figure_and_the_source_says_its_limit() -> None:
    found = in_new_conditions(percent(90.0), ALONE)
    assert found.value == 90.0
    assert (found.low, found.high) == (pytest.approx(86.5, abs=1.0), pytest.approx(92.6, abs=1.0))
    assert "conditions that no image shows are not covered" in found.source


def test_the_interval_ends_at_all_images_where_few_classes_could_all_be_right() -> None:
    few = replace(FACTS, kept=0.98, kept_low=0.9, kept_high=1.0, sd=0.15)
    assert in_new_conditions(percent(97.0), few).high == 100.0


@given(st.floats(0, 100), st.lists(shares, min_size=3, max_size=3), st.floats(0, 0.4))
def test_the_interval_holds_the_figure(plain: float, kept: list[float], sd: float) -> None:
    low, middle, high = sorted(kept)
    found = in_new_conditions(percent(plain), replace(FACTS, kept=middle, kept_low=low, kept_high=high, sd=sd))
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.low <= found.value <= found.high <= 100.0


def test_the_estimate_is_made_from_validation_which_the_share_belongs_to() -> None:
    found = with_new_conditions(replace(EVALUATION, holdout_accuracy=percent(80.0)))
    assert present(found.new_conditions).value == pytest.approx(0.7 * 96.0)


def test_new_conditions_are_expected_to_be_no_better_than_the_holdout() -> None:
    found = present(with_new_conditions(replace(EVALUATION, holdout_accuracy=percent(60.0))).new_conditions)
    assert found.value == 60.0
    assert found.low is not None
    assert found.low < 60.0


def test_images_without_groups_have_the_figure_of_the_holdout() -> None:
    found = with_new_conditions(replace(EVALUATION, expectation=ALONE, holdout_accuracy=percent(90.0)))
    assert present(found.new_conditions).value == 90.0


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


def test_the_figure_and_its_facts_survive_json() -> None:
    found = with_new_conditions(EVALUATION)
    read = evaluation_from_json(evaluation_to_json(found))
    assert read.new_conditions == found.new_conditions
    assert read.expectation == FACTS


def test_by_another_metric_the_figure_is_still_that_of_top_1() -> None:
    top1 = ImageAnswers(metrics={"top1": percent(96.0)})
    other = replace(EVALUATION, accuracy=percent(60.0), answers=top1)
    assert with_new_conditions(other).new_conditions == with_new_conditions(EVALUATION).new_conditions
    judged = replace(
        other, holdout_accuracy=percent(40.0), holdout_answers=ImageAnswers(metrics={"top1": percent(93.0)})
    )
    expected = with_new_conditions(replace(EVALUATION, holdout_accuracy=percent(93.0))).new_conditions
    assert with_new_conditions(judged).new_conditions == expected
