"""Facts of a classifier's probabilities survive a run folder, and damaged ones are unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from advisor.core.confidence_facts import (
    Bin,
    ConfidenceFacts,
    CoverageThreshold,
    Mistake,
    Point,
    Reachable,
    RecallThreshold,
    ShippedThresholds,
    Threshold,
)
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.evaluation_json import evaluation_from_json, evaluation_to_json
from advisor.core.guarantees import Guarantees, Shares
from advisor.core.statistics import Interval
from tests.builders import evaluation

PART = Interval(0.03, 0.02, 0.05)
ONE = Threshold(0.9, Interval(0.97, 0.95, 0.99), 60, 100)
FACTS = ConfidenceFacts(
    0.8, PART, PART, PART, PART, (Bin(0.5, 0.4, 20),), 0.95, ONE, {"cat": ONE, "dog": None},
    Reachable(0.97, 0.4), (Mistake("a.jpg", "0" * 64, 0, 1, 0.9),),
    Guarantees(Shares(0.95, {"cat": 0.9}), Shares(0.9), 0.8), {"dog": Reachable(0.8, 0.2)},
    {"cat": RecallThreshold(0.9, 0.91, 0.0312504999, PART, None, 30, 100)},
    CoverageThreshold(0.8, 0.81, 0.93, Threshold(0.7, PART, 82, 100)), ONE, (Point(0.9, 60, 58), Point(0.1, 100, 80)),
)  # fmt: skip


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


def test_they_are_read_as_they_were_written() -> None:
    row = replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS))
    assert evaluation_from_json(evaluation_to_json(row)).answers.confidence == FACTS


def test_those_of_an_older_version_are_read() -> None:
    row = replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS))
    older = json.dumps(evaluation_to_json(row)).replace('"guaranteed"', '"promised"')
    assert "promised" in older
    assert evaluation_from_json(json.loads(older)).answers.confidence == FACTS


@pytest.mark.parametrize(("images", "of"), [(-1, 10), (11, 10)])
def test_an_impossible_number_of_answers_is_unknown(images: int, of: int) -> None:
    document = evaluation_to_json(replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS)))
    document["details"]["confidence"]["coverage"]["at"] |= {"images": images, "of": of}
    assert evaluation_from_json(document).answers.confidence is None


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan"), "warm"])
def test_an_impossible_temperature_is_unknown(temperature: object) -> None:
    document = evaluation_to_json(replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS)))
    document["details"]["confidence"]["temperature"] = temperature
    found = evaluation_from_json(document).answers
    assert found.confidence is None
