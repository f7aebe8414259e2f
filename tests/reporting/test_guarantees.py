"""Guarantees out of reach, contradictory guarantees, and guarantees that the hold-out contradicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.core.confidence_facts import ConfidenceFacts, CoverageThreshold, Reachable, RecallThreshold, Threshold
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.guarantees import NO_GUARANTEES, Guarantees, Shares
from advisor.core.statistics import Interval
from advisor.reporting.guarantees import unkept
from advisor.reporting.risks import Level, risks
from tests.builders import evaluation
from tests.reporting.views import run_view

PART = Interval(0.03, 0.02, 0.05)
FROM = Threshold(0.9, Interval(0.97, 0.95, 0.99), 60, 100)
WORSE = replace(FROM, precision=Interval(0.9, 0.86, 0.94))
PRECISION = Guarantees(Shares(0.95))


def judged(own: ConfidenceFacts, seen: ConfidenceFacts | None = None) -> Evaluation:
    holdout = ImageAnswers(confidence=seen) if seen else None
    return replace(evaluation("one"), answers=ImageAnswers(confidence=own), holdout_answers=holdout)


def facts(wanted: Guarantees, **more: object) -> ConfidenceFacts:
    return replace(ConfidenceFacts(1.0, PART, PART, PART, PART, (), 0.95, wanted=wanted), **more)  # type: ignore[arg-type]


def said(own: ConfidenceFacts, seen: ConfidenceFacts | None = None) -> dict[str, str]:
    return dict(unkept(judged(own, seen)))


@pytest.mark.parametrize(
    ("reachable", "words"),
    [
        (Reachable(0.87, 0.6), "support 87 % at most, with 60 % of them answered. The bundle has no threshold"),
        (Reachable(0.0, 0.0), "support less than 50 %."),
    ],
)
def test_a_precision_that_nothing_guarantees_says_what_is_reachable(reachable: Reachable, words: str) -> None:
    assert words in said(facts(PRECISION, reachable=reachable))["Precision"]


def test_what_is_not_kept_is_a_high_risk() -> None:
    found = [risk for risk in risks(run_view(), judged(facts(PRECISION))) if risk.name == "Precision"]
    assert [risk.level for risk in found] == [Level.HIGH]


def test_classes_whose_precision_nothing_guarantees_are_named_with_what_is_reachable() -> None:
    wanted = Guarantees(Shares(0.95, {"a": 0.9, "b": 0.8}))
    text = said(
        facts(wanted, threshold=FROM, by_class={"a": None, "b": FROM}, reachable_by_class={"a": Reachable(0.8, 0.3)})
    )
    assert "'a' 90 % (the images support 80 % at most, with 30 % of them answered)" in text["Precision"]
    assert "'b'" not in text["Precision"]


def test_a_recall_that_too_few_images_guarantee_says_what_it_costs() -> None:
    few = RecallThreshold(0.9, 0.741, 0.01, Interval(1.0, 0.7, 1.0), None, 55, 100)
    none = RecallThreshold(0.9, 0.0, 0.0, None, None, 100, 100)
    text = said(facts(Guarantees(recall=Shares(0.9)), recall={"a": few, "b": none}))["Recall"]
    assert "'a' 90 % (the images support 74.1 % at most, which flags 55 % of all images)" in text
    assert "'b' 90 % (validation has no image of it)" in text


def test_many_classes_out_of_reach_make_one_sentence() -> None:
    none = RecallThreshold(0.9, 0.0, 0.0, None, None, 100, 100)
    text = said(facts(Guarantees(recall=Shares(0.9)), recall={str(number): none for number in range(9)}))["Recall"]
    assert "and 6 more" in text


def test_precision_and_coverage_that_exclude_each_other_say_what_each_allows() -> None:
    cover = CoverageThreshold(0.8, 0.8, 0.883, replace(FROM, score=0.7, images=82))
    text = said(facts(Guarantees(Shares(0.95), coverage=0.8), threshold=FROM, coverage=cover))["Coverage"]
    assert "95 % of right answers need a probability of 0.900, which 60 % of the images reach, not 80 %" in text
    assert "With 80 % of the images answered, 88.3 % of right answers can be guaranteed" in text
    together = replace(cover, at=replace(FROM, score=0.95))
    assert not said(facts(Guarantees(Shares(0.95), coverage=0.8), threshold=FROM, coverage=together))


def test_without_a_reachable_precision_the_threshold_for_the_coverage_ships() -> None:
    cover = CoverageThreshold(0.8, 0.8, 0.883, FROM)
    own = facts(Guarantees(Shares(0.95), coverage=0.8), coverage=cover)
    assert own.thresholds.plain == FROM.score
    assert (
        "The bundle has the threshold for the wanted coverage, which guarantees 88.3 %: add" in said(own)["Precision"]
    )


def test_a_coverage_that_too_few_images_guarantee_is_said() -> None:
    cover = CoverageThreshold(0.95, 0.7, 0.5, replace(FROM, images=7, of=10))
    assert "the 10 images support 70 % at most" in said(facts(Guarantees(coverage=0.95), coverage=cover))["Coverage"]


def test_guarantees_that_the_hold_out_contradicts_are_said() -> None:
    own = facts(PRECISION, threshold=FROM)
    assert said(own, replace(own, threshold=WORSE))["Precision"] == (
        "On the hold-out 90.0 % of the answers from the threshold on are right, less than the 95 % that was guaranteed."
    )
    named = facts(Guarantees(Shares(None, {"a": 0.95})), by_class={"a": FROM})
    assert "90.0 % of the answers 'a' from" in said(named, replace(named, by_class={"a": WORSE}))["Precision"]
    found = RecallThreshold(0.9, 0.9, 0.1, Interval(0.8, 0.7, 0.88), None, 40, 100)
    recall = facts(Guarantees(recall=Shares(0.9)), recall={"a": found})
    assert "80.0 % of the images of 'a' reach their threshold" in said(recall, recall)["Recall"]
    cover = facts(Guarantees(coverage=0.8), coverage=CoverageThreshold(0.8, 0.8, 0.9, FROM))
    assert "60.0 % of the images reach the threshold" in said(cover, cover)["Coverage"]


def test_guarantees_that_hold_or_were_not_asked_for_say_nothing() -> None:
    own = facts(PRECISION, threshold=FROM)
    assert not said(own, own)
    assert not said(facts(NO_GUARANTEES))
    assert not list(unkept(evaluation("one")))
