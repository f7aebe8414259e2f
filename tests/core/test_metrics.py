"""Metrics, tables of costs, and facts of the probabilities of a classifier."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from advisor.core import (
    METRICS,
    Bin,
    ConfidenceFacts,
    Costs,
    CoverageThreshold,
    Evaluation,
    Guarantees,
    ImageAnswers,
    Interval,
    Metric,
    Mistake,
    Point,
    Reachable,
    RecallThreshold,
    Shares,
    ShippedThresholds,
    Threshold,
    UsageError,
)
from advisor.tasks.classification import CLASSIFICATION
from tests.builders import evaluation, must_fail
from tests.tables import with_cases

NO_TEMPERATURES = (0.0, -1.0, math.inf, math.nan, "warm")
TABLE = "class,cat,dog\ncat,0,1\ndog,5,0\n"
PART = Interval(0.03, 0.02, 0.05)
ONE = Threshold(0.9, Interval(0.97, 0.95, 0.99), 60, 100)
FACTS = ConfidenceFacts(
    0.8, PART, PART, PART, PART, (Bin(0.5, 0.4, 20),), 0.95, ONE, {"cat": ONE, "dog": None},
    Reachable(0.97, 0.4), (Mistake("a.jpg", "0" * 64, 0, 1, 0.9),),
    Guarantees(Shares(0.95, {"cat": 0.9}), Shares(0.9), 0.8), {"dog": Reachable(0.8, 0.2)},
    {"cat": RecallThreshold(0.9, 0.91, 0.0312504999, PART, None, 30, 100)},
    CoverageThreshold(0.8, 0.81, 0.93, Threshold(0.7, PART, 82, 100)), ONE, (Point(0.9, 60, 58), Point(0.1, 100, 80)),
)  # fmt: skip


def test_a_metric_is_found_by_its_name_and_classifiers_are_judged_by_top_1_by_default() -> None:
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)
    assert METRICS[Metric.TOP1].label == CLASSIFICATION.metric


def test_a_table_of_costs_is_read_in_any_order_of_its_classes_and_as_it_was_written() -> None:
    costs = Costs.parse(TABLE)
    assert costs == Costs(("cat", "dog"), ((0, 1), (5, 0)))
    assert costs.of(("dog", "cat")) == ((0, 5), (1, 0))
    other = Costs.parse("\ufeff, dog ,cat\n\n dog,0,5\ncat,1.0,0\n", "costs.csv")
    assert other.of(("cat", "dog")) == ((0, 1), (5, 0))
    assert other.text == Costs.parse(TABLE).text == "class,cat,dog\ncat,0,1\ndog,5,0\n"
    costs = Costs(('a,"b"', "c\nd"), ((0, 1 / 3), (1e-6, 0)))
    assert Costs.parse(costs.text) == costs


@with_cases
def test_a_wrong_table_is_refused(text: str, message: str) -> None:
    error = must_fail(UsageError, re.escape(message), Costs.parse, text, "c.csv")
    assert error.message.startswith("--costs: ")
    assert error.hint


@with_cases
def test_the_classes_must_be_those_of_the_images(classes: tuple[str, ...], message: str) -> None:
    must_fail(UsageError, re.escape(message), Costs.parse(TABLE, "c.csv").of, classes)


def test_coverage_is_the_share_of_images_with_an_answer() -> None:
    assert (ONE.coverage, Threshold(0.9, None, 0, 0).coverage) == (0.6, 0.0)


def test_a_product_applies_what_was_asked_for_and_can_be_guaranteed() -> None:
    assert FACTS.thresholds == ShippedThresholds(0.9, {"cat": 0.9}, {"cat": 0.03125})
    assert replace(FACTS, wanted=Guarantees(), recall={}, coverage=None).thresholds == ShippedThresholds()
    assert replace(FACTS, threshold=None).thresholds.plain == 0.7
    short = replace(FACTS.recall["cat"], guaranteed=0.89)
    assert replace(FACTS, recall={"cat": short}).thresholds.recall == {}
    assert FACTS.thresholds.least("cat") == 0.9
    assert [one.least("dog") for one in (ShippedThresholds(0.5), ShippedThresholds())] == [0.5, 0.0]


def written() -> dict[str, Any]:
    """Return an evaluation with the facts as it is written."""
    return replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS)).to_json()


def test_they_are_read_as_this_version_and_an_older_one_wrote_them() -> None:
    assert Evaluation.from_json(written()).answers.confidence == FACTS
    older = json.dumps(written()).replace('"guaranteed"', '"promised"')
    assert "promised" in older
    assert Evaluation.from_json(json.loads(older)).answers.confidence == FACTS


@pytest.mark.parametrize(
    ("temperature", "images"), [*((value, 82) for value in NO_TEMPERATURES), (0.8, -1), (0.8, 101)]
)
def test_an_impossible_temperature_or_number_of_answers_is_unknown(temperature: object, images: int) -> None:
    document = written()
    facts = document["details"]["confidence"]
    facts["temperature"], facts["coverage"]["at"]["images"] = temperature, images
    assert Evaluation.from_json(document).answers.confidence is None
