"""The sections on confidence and on images of things that are none of the classes."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from advisor.core import (
    Bin,
    BoxFacts,
    BoxGuarantee,
    BoxScores,
    ConfidenceFacts,
    CoverageThreshold,
    Evaluation,
    Guarantees,
    ImageAnswers,
    Interval,
    Point,
    Reachable,
    RecallThreshold,
    Shares,
    Threshold,
)
from advisor.reporting import RunView
from advisor.reporting._confidence import list_broken_guarantees, threshold_blocks
from advisor.reporting._html import render_html
from advisor.reporting._risk import Level
from advisor.reporting._risks import list_risks
from tests.builders import evaluation
from tests.reporting.test_answer import said as shown
from tests.reporting.test_html import without_scripts
from tests.reporting.views import judged_view, run_view, unknown_view, with_pick
from tests.tables import with_cases

SHARE = Interval(0.92, 0.85, 0.97)
RECALL = RecallThreshold(0.9, 0.91, 0.0421, SHARE, Interval(0.4, 0.3, 0.5), 30, 100)
COVERAGE = CoverageThreshold(0.8, 0.81, 0.883, Threshold(0.7, Interval(0.9, 0.8, 0.95), 82, 100))
PART = Interval(0.03, 0.02, 0.05)
FROM = Threshold(0.9, Interval(0.97, 0.95, 0.99), 60, 100)
WORSE = replace(FROM, precision=Interval(0.9, 0.86, 0.94))
PRECISION = Guarantees(Shares(0.95))
RECALL_OF_CLASSES = Guarantees(recall=Shares(0.9))
OF_A = Guarantees(Shares(0.95, {"a": 0.9, "b": 0.8}))
BOTH = Guarantees(Shares(0.95), coverage=0.8)
NO_IMAGE = RecallThreshold(0.9, 0.0, 0.0, None, None, 100, 100)
FEW_IMAGES = RecallThreshold(0.9, 0.741, 0.01, Interval(1.0, 0.7, 1.0), None, 55, 100)
OUT_OF_REACH = {"a": FEW_IMAGES, "b": NO_IMAGE, **{str(number): NO_IMAGE for number in range(9)}}
LATER = CoverageThreshold(0.8, 0.8, 0.883, replace(FROM, score=0.7, images=82))
TOO_FEW = CoverageThreshold(0.95, 0.7, 0.5, replace(FROM, images=7, of=10))
MISSED = RecallThreshold(0.9, 0.9, 0.1, Interval(0.8, 0.7, 0.88), None, 40, 100)
SEARCH = "<code>advisor search --request runs/20260131-1200-image-classification/request.yaml"


def confident_view(temperature: float, guarantees: Guarantees | None = None) -> RunView:
    """Return a run whose pick has calibrated probabilities, a threshold, and none for one class."""
    view = judged_view()
    wanted = guarantees or Guarantees()
    part, precision = Interval(0.031, 0.02, 0.045), Interval(0.97, 0.94, 0.99)
    one = Threshold(0.912, precision, 40, 50)
    facts = ConfidenceFacts(
        temperature, part, Interval(0.08, 0.06, 0.1), Interval(0.15, 0.1, 0.2), Interval(0.18, 0.1, 0.2),
        (Bin(0.5, 0.4, 20), Bin(0.9, 0.95, 30)), 0.95, one, {"glass": one, "<b>": None},
        wanted=wanted, answered=one if wanted.options else None,
        curve=(Point(0.912, 40, 39), Point(0.3, 50, 44)),
    )  # fmt: skip
    return with_pick(view, holdout_answers=replace(view.decision.pick.holdout_answers, confidence=facts))


def section(view: RunView, name: str = "confidence", **facts: object) -> str:
    """Return a section of the page in one line; facts change what is known on the hold-out."""
    if facts:
        held = view.decision.pick.holdout_answers
        view = with_pick(view, holdout_answers=replace(held, confidence=replace(held.confidence, **facts)))
    part = without_scripts(render_html(view)).partition(f'id="{name}"')[2].split("</section>")[0]
    return " ".join(re.sub(r'<span class="option">(.*?)</span>|</bdi>', r"\1", unescape(part)).split())


def cells(part: str, table: int) -> list[str]:
    return re.findall(r">([^<>]+)</t[dh]>", part.split("<tbody>")[table])


def test_a_classifier_has_its_reliability_and_its_thresholds() -> None:
    part = section(confident_view(1.4, Guarantees(Shares(0.95))))
    assert "divided by a temperature of 1.40" in part
    assert '8.0 (6.0\u201310.0)</td><td class="n">3.1 (2.0\u20134.5)' in part
    row = cells(part, 2)
    assert row[:6] == ["all classes", "95", "0.912", "97.0 (94.0\u201399.0)", "80.0", "glass"]
    assert row[-1] == "none: too few images, or too many mistakes"
    assert "The bundle has the thresholds that were asked for" in part
    assert "80 % of the images are answered, 97.0 (94.0\u201399.0) % of these right; the other 20 % go to a per" in part
    assert part.count('class="chosen"') == 1


def test_a_class_with_its_own_precision_shows_it_and_without_a_wanted_one_the_page_says_how_to_ask() -> None:
    part = section(confident_view(1.0))
    assert "They need no correction" in part
    assert f"{SEARCH} --min-precision 95%</code>" in part
    row = cells(section(confident_view(1.0, Guarantees(Shares(0.95, {"glass": 0.9})))), 2)
    assert [row[place + 1] for place in map(row.index, ("other classes", "glass"))] == ["95", "90"]


def test_recall_thresholds_show_what_is_found_and_what_is_flagged() -> None:
    recall = {"glass": RECALL, "<b>": RecallThreshold(0.9, 0.5, 0.0, None, None, 100, 100)}
    row = cells(section(confident_view(1.0, Guarantees(recall=Shares(0.9))), recall=recall), 3)
    assert row[:6] == ["glass", "90", "0.042", "92.0 (85.0\u201397.0)", "40.0", "30.0"]
    assert "50 at most" in row


def test_a_share_below_its_guarantee_is_chance_where_the_interval_includes_it_and_refuted_elsewhere() -> None:
    assert "than is guaranteed" not in section(confident_view(1.0))
    lower = Threshold(0.9, Interval(0.93, 0.9, 0.96), 40, 50)
    missed = replace(RECALL, recall=Interval(0.8, 0.7, 0.85))
    part = section(confident_view(1.0), threshold=lower, recall={"glass": missed})
    assert "than is guaranteed (all classes), but the interval includes the guarantee" in part
    assert "contradict the guarantee (recall of glass): the whole interval is below it" in part


def test_a_wanted_coverage_says_what_can_be_guaranteed_there() -> None:
    part = section(confident_view(1.0, Guarantees(coverage=0.8)), coverage=COVERAGE)
    assert "From a probability of 0.700 on, at least 80 % of the images are answered with 95 % certainty" in part
    assert "and 88.3 % of right answers can be guaranteed there; here 82.0 % are answered." in part


def test_thresholds_of_classes_of_recall_and_of_coverage_are_said() -> None:
    view = confident_view(1.0, Guarantees(Shares(None, {"glass": 0.9}), Shares(0.9), 0.8))
    held = view.decision.pick.holdout_answers
    known = replace(held.confidence, recall={"glass": RECALL}, coverage=COVERAGE)
    (block,) = threshold_blocks(with_pick(view, holdout_answers=replace(held, confidence=known)))
    assert "from a probability of 0.700 on: at least 80 % of the images are answered" in block.words
    assert "Own thresholds, with the share of right answers that is guaranteed: 'glass' 0.912 (90 %)." in block.words
    assert "the class that reaches it, with 95 % certainty: 'glass' 0.042 (90 %)." in block.words


def test_the_terminal_has_the_threshold_that_was_asked_for_and_none_that_no_guarantee_keeps() -> None:
    view = confident_view(1.0, PRECISION)
    counts = "An answer counts from a probability of 0.912 on: at least 95 % of these answers are right"
    assert counts in " ".join(shown(view).split())
    held = view.decision.pick.holdout_answers
    unreached = replace(held.confidence, threshold=None, answered=None)
    assert list(threshold_blocks(with_pick(view, holdout_answers=replace(held, confidence=unreached)))) == []


def judged(own: ConfidenceFacts, seen: ConfidenceFacts | None = None) -> Evaluation:
    holdout = ImageAnswers(confidence=seen) if seen else None
    return replace(evaluation("one"), answers=ImageAnswers(confidence=own), holdout_answers=holdout)


def facts(wanted: Guarantees, **more: object) -> ConfidenceFacts:
    return replace(ConfidenceFacts(1.0, PART, PART, PART, PART, (), 0.95, wanted=wanted), **more)


def said(own: ConfidenceFacts, seen: ConfidenceFacts | None = None) -> dict[str, str]:
    return dict(list_broken_guarantees(judged(own, seen)))


OWN = facts(OF_A, threshold=FROM, by_class={"a": None, "b": FROM}, reachable_by_class={"a": Reachable(0.8, 0.3)})
BROKEN = {
    "precision": facts(PRECISION, reachable=Reachable(0.87, 0.6)),
    "precision of nothing": facts(PRECISION, reachable=Reachable(0.0, 0.0)),
    "precision of a class": OWN,
    "recall of classes": facts(RECALL_OF_CLASSES, recall=OUT_OF_REACH),
    "coverage and precision": facts(BOTH, threshold=FROM, coverage=LATER),
    "precision without a threshold": facts(BOTH, coverage=LATER),
    "coverage of few images": facts(Guarantees(coverage=0.95), coverage=TOO_FEW),
}


@with_cases
def test_a_guarantee_out_of_reach_says_what_is_reachable(of: str, name: str, words: list[str]) -> None:
    own = BROKEN[of]
    text = said(own)[name]
    assert [word for word in words if word not in text] == []
    assert [risk.level for risk in list_risks(run_view(), judged(own)) if risk.name == name] == [Level.HIGH]


OF_ONE = facts(Guarantees(Shares(None, {"a": 0.95})), by_class={"a": FROM})
FEWER = facts(Guarantees(coverage=0.8), coverage=CoverageThreshold(0.8, 0.8, 0.9, FROM))


@pytest.mark.parametrize(
    ("own", "changes", "name", "words"),
    [
        (facts(PRECISION, threshold=FROM), {"threshold": WORSE}, "Precision", "90.0 % of the answers from the"),
        (OF_ONE, {"by_class": {"a": WORSE}}, "Precision", "90.0 % of the answers 'a' from"),
        (facts(RECALL_OF_CLASSES, recall={"a": MISSED}), {}, "Recall", "80.0 % of the images of 'a' reach their"),
        (FEWER, {}, "Coverage", "60.0 % of the images reach the threshold"),
    ],
)
def test_refuted_guarantees_are_said(own: ConfidenceFacts, changes: dict[str, Any], name: str, words: str) -> None:
    assert words in said(own, replace(own, **changes))[name]


def test_guarantees_that_hold_or_were_not_asked_for_say_nothing() -> None:
    own = facts(PRECISION, threshold=FROM)
    assert not said(own, own)
    assert not said(facts(Guarantees()))
    assert not said(facts(BOTH, threshold=FROM, coverage=replace(LATER, at=replace(FROM, score=0.95))))
    assert not list(list_broken_guarantees(evaluation("one")))


@with_cases
def test_the_section_says_what_passes_its_cost_and_gaps(
    options: dict[str, Any], compression: str, texts: list[str], missing: list[str]
) -> None:
    view = unknown_view(**options)
    configuration = view.decision.pick.configuration
    view = with_pick(view, configuration=replace(configuration, compression=compression or configuration.compression))
    part = section(view, "unknown")
    assert [text for text in texts if text not in part] == []
    assert [text for text in missing if text in part] == []


def test_classes_that_were_left_out_are_listed_the_hardest_first_and_without_any_there_is_no_section() -> None:
    cells = re.findall(
        r"<bdi>(\w+) <small>(\d+)\s*images</small></th> <td class=\"n\">([^<]+)<", section(unknown_view(), "unknown")
    )
    assert cells == [("glass", "81", "0.73 (0.69\u20130.77)"), ("paper", "95", "0.91 (0.88\u20130.94)")]
    assert section(judged_view()) == section(judged_view(), "unknown") == ""


def test_the_pick_of_another_question_is_exported_by_its_key() -> None:
    view = replace(unknown_view(), folder="runs/one", next_command="xdg-open runs/one/report.html")
    assert "<code>advisor export runs/one --to bundle --unknown-class</code>" in section(view, "unknown")
    asked = replace(view, next_command="advisor export runs/one --pick KEY --to bundle")
    assert "<code>advisor export runs/one --pick KEY --to bundle --unknown-class</code>" in section(asked, "unknown")
    assert "--unknown-class" not in section(unknown_view(file=""), "unknown")


def boxed_view(guarantee: BoxGuarantee, seen: Interval) -> RunView:
    """Return a run whose pick is a detector with a guarantee, as validation and the hold-out show it."""
    view = judged_view()
    scores = BoxScores(2.5, 0.1, Interval(0.012, 0.01, 0.02), Interval(0.11, 0.1, 0.12))
    boxes = BoxFacts(0.8, 0.5, {}, scores=scores, guarantee=guarantee)
    held = replace(boxes, guarantee=replace(guarantee, seen=seen))
    return with_pick(view, answers=ImageAnswers(boxes=boxes), holdout_answers=ImageAnswers(boxes=held))


def test_a_detector_says_what_its_threshold_guarantees_and_what_its_scores_are_worth() -> None:
    view = boxed_view(BoxGuarantee("recall", 0.9, True), Interval(0.93, 0.9, 0.95))
    threshold, scores = (f"{block.label}: {block.words}" for block in threshold_blocks(view))
    assert threshold == (
        "Threshold: A box counts from a score of 0.800 on: at least 90 % of the true boxes are found, with 95 % "
        "certainty. On the hold-out it is 93.0 (90.0\u201395.0) %."
    )
    assert scores == (
        "Scores: A score is the probability that a box is right. On the hold-out it is off by 1.2 points on average; "
        "before the calibration in the file it was 11.0."
    )
    assert list(list_broken_guarantees(view.decision.pick)) == []


def test_a_guarantee_of_boxes_that_is_not_kept_is_a_risk() -> None:
    never = boxed_view(BoxGuarantee("precision", 0.95, False), Interval(0.8, 0.7, 0.9))
    ((name, found),) = list_broken_guarantees(never.decision.pick)
    assert name == "Precision"
    assert found.startswith("No threshold can guarantee that 95 % of the boxes that count are right.")
    assert found.endswith("--min-precision.")
    broken = boxed_view(BoxGuarantee("precision", 0.95, True), Interval(0.8, 0.7, 0.9))
    ((_, found),) = list_broken_guarantees(broken.decision.pick)
    assert found == "On the hold-out 80.0 % of the boxes that count are right, less than the 95 % that was guaranteed."
