"""The confidence of a classifier: reliability, thresholds, the risk-coverage curve, and guarantees
that no threshold keeps.

The page has a section of it (:func:`describe_confidence`), every form of an answer the thresholds
(:func:`threshold_blocks`), and the risks the broken guarantees (:func:`list_broken_guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from advisor.core import (
    BoxFacts,
    BoxGuarantee,
    ConfidenceFacts,
    Evaluation,
    Interval,
    Reachable,
    RecallThreshold,
    Threshold,
    listed,
)
from advisor.reporting import _text as text
from advisor.reporting._blocks import Block, Labelled

if TYPE_CHECKING:
    from advisor.reporting._view import RunView

NAMED = 3
"""Classes that a sentence names; the others are counted."""

CERTAINTY = "95 %"
"""Probability with which a threshold keeps its guarantee, in words."""

PRECISION = "Precision"
RECALL = "Recall"
COVERAGE = "Coverage"

SHOWN = 100
"""Rows of a table, at most."""

BOXES = {"precision": "the boxes that count are right", "recall": "the true boxes are found"}
"""The guarantee of a detector's threshold in words, after a share."""

AXIS_STEP = 0.1
"""The curve's axis begins at the next multiple of this share
of right answers below its lowest point.
"""


class Mark(NamedTuple):
    """A point of the drawing: its place in percent of the sides, from the left and from the top,
    and what it is.
    """

    x: float
    y: float
    title: str


class Curve(NamedTuple):
    """A risk-coverage curve to draw:
    its points, the chosen threshold if there is one, and the lowest share (0-1).
    """

    points: tuple[Mark, ...]
    chosen: Mark | None
    lowest: float


def describe_confidence(view: RunView) -> Mapping[str, object] | None:
    """Return the variables of the section's template; None if the run keeps no probabilities."""
    pick = view.decision.pick
    facts = (pick.holdout_answers or pick.answers).confidence if pick else None
    if pick is None or facts is None or facts.guaranteed is None:
        return None
    by_class = facts.wanted.precision.by_class
    # A row says whose answers, the guaranteed share of right ones, and the threshold. Asked-for
    # guarantees of single classes leave the plain one to the others.
    rows = [("other classes" if by_class else "all classes", facts.guaranteed, facts.threshold)]
    for name, threshold in facts.by_class.items():
        rows.append((name, by_class.get(name, facts.guaranteed), threshold))
    judged_on = "images held out from training" if pick.holdout_answers else "validation images"
    return {
        "judged_on": judged_on,
        "facts": facts,
        "lower_shares": list(_explain_lower_shares(rows, facts.recall)),
        "thresholds": rows[:SHOWN],
        "recalls": list(facts.recall.items())[:SHOWN],
        "asked": list(threshold_blocks(view)),
        "curve": make_curve(facts),
        "reachable": pick.answers.confidence.reachable if pick.answers.confidence else None,
    }


def _explain_lower_shares(
    precisions: Iterable[tuple[str, float, Threshold | None]],
    recalls: Mapping[str, RecallThreshold],
) -> Iterator[str]:
    """Yield which shares of the tables are lower than what is guaranteed beside them, and why."""
    shares = []
    for name, guaranteed, threshold in precisions:
        if threshold is not None and threshold.precision is not None:
            shares.append((name, guaranteed, threshold.precision))
    for name, class_threshold in recalls.items():
        if class_threshold.kept and class_threshold.recall is not None:
            label = f"recall of {name}"
            shares.append((label, class_threshold.wanted, class_threshold.recall))
    by_chance = []
    refuted = []
    for name, guaranteed, seen in shares:
        # Only a whole interval below the guarantee is more than chance.
        if seen.high < guaranteed:
            refuted.append(name)
        elif seen.value < guaranteed:
            by_chance.append(name)
    if by_chance:
        yield (
            f"Fewer are right here than is guaranteed ({listed(by_chance, NAMED)}), but the"
            " interval includes the guarantee: so few images do not contradict it."
        )
    if refuted:
        yield (
            f"These images contradict the guarantee ({listed(refuted, NAMED)}): the whole interval"
            " is below it. Do not rely on it."
        )


def make_curve(facts: ConfidenceFacts) -> Curve | None:
    """Return the risk-coverage curve with the threshold that counts, or would count;
    None if it was not kept.
    """
    if not facts.curve:
        return None
    total = facts.curve[-1].images
    lowest = min(point.right / point.images for point in facts.curve)
    # From zero on, the points of a good file would all lie at the upper edge. Below 1, because a
    # point is divided by the height of the axis, and a file can be right on all images.
    floor = min(AXIS_STEP * (lowest // AXIS_STEP), 1 - AXIS_STEP)

    def make_mark(images: int, right: float, score: float) -> Mark:
        percent = 100 * images / total
        title = f"from {score:.3f} on: {percent:.1f} % answered, {100 * right:.1f} % right"
        return Mark(100 * (images / total), 100 * (1 - right) / (1 - floor), title)

    chosen = facts.answered or facts.threshold
    chosen_mark = None
    if chosen and chosen.precision:
        chosen_mark = make_mark(chosen.images, chosen.precision.value, chosen.score)
    marks = []
    for point in facts.curve:
        marks.append(make_mark(point.images, point.right / point.images, point.score))
    return Curve(tuple(marks), chosen_mark, floor)


def list_broken_guarantees(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the guarantees of thresholds; nothing if none was asked for.

    Each has the name of the guarantee,
    and a sentence that says what is reachable or what was seen.
    """
    chosen = evaluation.answers.confidence
    held = evaluation.holdout_answers
    for boxes in (evaluation.answers.boxes, held.boxes if held else None):
        asked = boxes.guarantee if boxes else None
        broken = ""
        if asked:
            broken = _explain_broken_boxes(asked, held is not None and boxes is held.boxes)
        if asked and broken:
            yield asked.of.capitalize(), broken
    yield from _explain_broken_labels(evaluation)
    if chosen is None or not chosen.wanted.options:
        return
    yield from _explain_broken_precision(chosen)
    names = []
    for name, threshold in chosen.recall.items():
        if not threshold.kept:
            reachable = _show_reachable_recall(threshold)
            names.append(f"'{name}' {_percent(threshold.wanted)} ({reachable})")
    if names:
        yield (
            RECALL,
            (
                "No threshold can guarantee the wanted recall of these classes:"
                f" {listed(names, NAMED)}. The bundle has no recall threshold for them: add images"
                " of these classes, or ask for less with --min-recall."
            ),
        )
    cover = chosen.coverage
    if cover is not None and not cover.kept:
        yield (
            COVERAGE,
            (
                f"No threshold can guarantee that {_percent(cover.wanted)} of the images are"
                f" answered: the {cover.at.of} images support {_percent(cover.guaranteed)} at"
                " most. Add images, or ask for less with --min-coverage."
            ),
        )
    seen = evaluation.holdout_answers.confidence if evaluation.holdout_answers else None
    if seen is not None:
        yield from _contradict_guarantees(seen)


def _explain_broken_boxes(guarantee: BoxGuarantee, held_out: bool) -> str:
    """Return what is wrong with the guarantee of a detector; empty if nothing is."""
    what = BOXES[guarantee.of]
    if not guarantee.kept and not held_out:
        return (
            f"No threshold can guarantee that {_percent(guarantee.wanted)} of {what}. The bundle"
            " has the one with the best F1: add images, or ask for less with"
            f" --min-{guarantee.of}."
        )
    if held_out and guarantee.kept and guarantee.seen and guarantee.seen.high < guarantee.wanted:
        seen = f"{100 * guarantee.seen.value:.1f} % of {what}"
        return (
            f"On the hold-out {seen}, less than the {_percent(guarantee.wanted)} that was"
            " guaranteed."
        )
    return ""


def _explain_broken_labels(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield which wanted shares of labels no threshold keeps,
    and which of the others the hold-out contradicts.
    """
    missing = []
    for name, guarantee in evaluation.answers.label_guarantees.items():
        if not guarantee.kept:
            missing.append(f"'{name}' ({_percent(guarantee.wanted)} of {guarantee.of})")
    if missing:
        yield (
            "Thresholds",
            (
                "No threshold can guarantee what was asked of these labels:"
                f" {listed(missing, NAMED)}. They have the threshold with the best F1. Add images"
                " with these labels, or ask for less."
            ),
        )
    judged = evaluation.holdout_answers.label_guarantees if evaluation.holdout_answers else {}
    for name, guarantee in judged.items():
        if guarantee.kept and guarantee.seen and guarantee.seen.high < guarantee.wanted:
            seen = (
                f"On the hold-out the {guarantee.of} of '{name}' is"
                f" {100 * guarantee.seen.value:.1f} %"
            )
            yield (
                guarantee.of.capitalize(),
                f"{seen}, less than the {_percent(guarantee.wanted)} that was guaranteed.",
            )


def _explain_broken_precision(chosen: ConfidenceFacts) -> Iterator[tuple[str, str]]:
    """Yield which wanted shares of right answers no threshold guarantees,
    and what the images support.
    """
    wanted = chosen.wanted.precision
    cover = chosen.coverage
    if wanted.plain is not None and chosen.threshold is None:
        others = " of the other classes" if wanted.by_class else ""
        left = "no threshold"
        if cover is not None and cover.kept:
            left = (
                "the threshold for the wanted coverage, which guarantees"
                f" {_percent(cover.precision)}"
            )
        yield (
            PRECISION,
            (
                f"No threshold can guarantee {_percent(wanted.plain)} of right answers{others}:"
                f" the images support {_show_reachable(chosen.reachable)}. The bundle has {left}:"
                " add images, or ask for less with --min-precision."
            ),
        )
    names = []
    for name, share in wanted.by_class.items():
        if chosen.by_class.get(name) is None:
            reachable = _show_reachable(chosen.reachable_by_class.get(name))
            names.append(f"'{name}' {_percent(share)} (the images support {reachable})")
    if names:
        yield (
            PRECISION,
            (
                "No threshold can guarantee the wanted share of right answers of these classes:"
                f" {listed(names, NAMED)}. The bundle has no own threshold for them: add images of"
                " these classes, or ask for less with --min-precision."
            ),
        )
    # Both guarantees can hold alone and not together:
    # then precision, which keeps wrong answers away, counts.
    threshold = chosen.threshold
    if wanted.plain is None or threshold is None or cover is None:
        return
    if threshold.score > cover.at.score:
        yield (
            COVERAGE,
            (
                f"{_percent(wanted.plain)} of right answers need a probability of"
                f" {threshold.score:.3f}, which {_percent(threshold.coverage)} of the images"
                f" reach, not {_percent(cover.wanted)}. With {_percent(cover.wanted)} of the"
                f" images answered, {_percent(cover.precision)} of right answers can be"
                " guaranteed. The bundle has the threshold for precision."
            ),
        )


def _show_reachable_recall(threshold: RecallThreshold) -> str:
    """Say which recall can be guaranteed, and what it costs."""
    if not threshold.guaranteed:
        return "validation has no image of it"
    return (
        f"the images support {_percent(threshold.guaranteed)} at most, which flags"
        f" {_percent(threshold.flagged)} of all images"
    )


def _contradict_guarantees(seen: ConfidenceFacts) -> Iterator[tuple[str, str]]:
    """Yield what the hold-out says against a guarantee:
    its 95 % interval lies below what was guaranteed.
    """
    asked = seen.wanted.precision
    cover = seen.coverage
    end = "that was guaranteed."
    guarantees = [("the answers", asked.plain, seen.threshold)]
    for name, wanted in asked.by_class.items():
        guarantees.append((f"the answers '{name}'", wanted, seen.by_class.get(name)))
    for what, share, threshold in guarantees:
        if share is None or threshold is None or threshold.precision is None:
            continue
        # Only where the whole interval lies below: images of the hold-out vary, too.
        precision = threshold.precision
        if precision.high < share:
            right = f"{100 * precision.value:.1f} % of {what} from the threshold on are right"
            yield PRECISION, f"On the hold-out {right}, less than the {_percent(share)} {end}"
    for name, guarantee in seen.recall.items():
        if guarantee.kept and guarantee.recall and guarantee.recall.high < guarantee.wanted:
            reach = (
                f"{100 * guarantee.recall.value:.1f} % of the images of '{name}' reach their"
                " threshold"
            )
            yield (
                RECALL,
                f"On the hold-out {reach}, less than the {_percent(guarantee.wanted)} {end}",
            )
    if cover is not None and cover.kept and cover.at.of:
        answered = Interval.wilson(cover.at.images, cover.at.of)
        if answered.high < cover.wanted:
            reach = f"{100 * cover.at.coverage:.1f} % of the images reach the threshold"
            yield (
                COVERAGE,
                f"On the hold-out {reach}, less than the {_percent(cover.wanted)} {end}",
            )


def _show_reachable(best: Reachable | None) -> str:
    if best is None or not best.precision:
        return "less than 50 %"
    return f"{_percent(best.precision)} at most, with {_percent(best.coverage)} of them answered"


def _percent(share: float) -> str:
    return f"{round(100 * share, 1):g} %"


def threshold_blocks(view: RunView) -> Iterator[Block]:
    """Yield the thresholds that the user asked for and that the file has, and what they answer;
    nothing without any.

    A guarantee that no threshold keeps is a risk, see :func:`list_broken_guarantees`.
    """
    pick = view.decision.pick
    answers = (pick.holdout_answers or pick.answers) if pick else None
    if pick is None or answers is None:
        return
    if answers.boxes:
        yield from _box_blocks(answers.boxes, pick.holdout_answers is not None)
    promises = []
    for name, guarantee in answers.label_guarantees.items():
        if guarantee.kept:
            promises.append(f"'{name}' {_percent(guarantee.wanted)} of {guarantee.of}")
    if promises:
        promise = f"It keeps, with {CERTAINTY} certainty: {listed(promises, NAMED)}."
        yield Labelled("Threshold", f"A label is shown from a score of one half on. {promise}")
    facts = answers.confidence
    if facts is None:
        return
    sentences = [*_say_precision(facts), *_say_recall(facts)]
    answered = facts.answered
    if answered and answered.precision:
        where = "the hold-out" if pick.holdout_answers else "validation"
        sentences.append(
            f"On {where}, {_percent(answered.coverage)} of the images are answered,"
            f" {text.share(answered.precision)} % of these right; the other"
            f" {_percent(1 - answered.coverage)} go to a person."
        )
    if sentences:
        yield Labelled("Threshold", " ".join(sentences))


def _box_blocks(boxes: BoxFacts, held_out: bool) -> Iterator[Block]:
    """Yield what a detector's threshold guarantees, and how far its scores can be believed."""
    part = "the hold-out" if held_out else "validation"
    asked = boxes.guarantee
    if asked and asked.kept:
        seen = ""
        if asked.seen:
            seen = f" On {part} it is {text.share(asked.seen)} %."
        promise = (
            f"at least {_percent(asked.wanted)} of {BOXES[asked.of]}, with {CERTAINTY} certainty"
        )
        yield Labelled(
            "Threshold", f"A box counts from a score of {boxes.threshold:.3f} on: {promise}.{seen}"
        )
    if boxes.scores:
        after, before = (
            f"{100 * error.value:.1f}" for error in (boxes.scores.error, boxes.scores.error_before)
        )
        changed = (boxes.scores.slope, boxes.scores.offset) != (1.0, 0.0)
        earlier = f"; before the calibration in the file it was {before}" if changed else ""
        error = f"On {part} it is off by {after} points on average{earlier}."
        yield Labelled("Scores", f"A score is the probability that a box is right. {error}")


def _say_precision(facts: ConfidenceFacts) -> Iterator[str]:
    """Yield from which probability on an answer counts, and what this guarantees."""
    limits = facts.thresholds
    asked = facts.wanted.precision
    cover = facts.coverage
    if limits.plain is not None:
        promise = ""
        if asked.plain and facts.threshold:
            promise = f"{_percent(asked.plain)} of these answers are right"
        if not promise and cover is not None:
            promise = f"{_percent(cover.wanted)} of the images are answered"
        start = f"An answer counts from a probability of {limits.plain:.3f} on"
        yield f"{start}: at least {promise}, with {CERTAINTY} certainty."
    thresholds = []
    for name, score in limits.by_class.items():
        thresholds.append(f"'{name}' {score:.3f} ({_percent(asked.by_class[name])})")
    if thresholds:
        yield (
            "Own thresholds, with the share of right answers that is guaranteed:"
            f" {listed(thresholds, NAMED)}."
        )


def _say_recall(facts: ConfidenceFacts) -> Iterator[str]:
    """Yield the thresholds from which on an image may show a class."""
    thresholds = []
    for name, at in facts.thresholds.recall.items():
        thresholds.append(f"'{name}' {at:.3f} ({_percent(facts.recall[name].wanted)})")
    if thresholds:
        yield (
            "An image may show a class if its probability reaches the threshold. In brackets: the"
            f" share of the images of the class that reaches it, with {CERTAINTY} certainty:"
            f" {listed(thresholds, NAMED)}."
        )
