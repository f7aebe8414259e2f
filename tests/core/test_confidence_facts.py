"""Facts of a classifier's probabilities survive a run folder, and damaged ones are unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.confidence_facts import Bin, ConfidenceFacts, Mistake, Threshold
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.evaluation_json import evaluation_from_json, evaluation_to_json
from advisor.core.statistics import Interval
from tests.builders import evaluation

PART = Interval(0.03, 0.02, 0.05)
ONE = Threshold(0.9, Interval(0.97, 0.95, 0.99), 60, 100)
FACTS = ConfidenceFacts(
    0.8, PART, PART, PART, PART, (Bin(0.5, 0.4, 20),), 0.95, ONE, {"cat": ONE, "dog": None}, 0.97,
    (Mistake("a.jpg", "0" * 64, 0, 1, 0.9),),
)  # fmt: skip


def test_coverage_is_the_share_of_images_with_an_answer() -> None:
    assert (ONE.coverage, Threshold(0.9, None, 0, 0).coverage) == (0.6, 0.0)


def test_they_are_read_as_they_were_written() -> None:
    row = replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS))
    assert evaluation_from_json(evaluation_to_json(row)).answers.confidence == FACTS


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan"), "warm"])
def test_an_impossible_temperature_is_unknown(temperature: object) -> None:
    document = evaluation_to_json(replace(evaluation("one"), answers=ImageAnswers({"cat": 0.5}, confidence=FACTS)))
    document["details"]["confidence"]["temperature"] = temperature
    found = evaluation_from_json(document).answers
    assert found.confidence is None
