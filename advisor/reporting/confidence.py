"""Confidence: reliability, thresholds, the risk-coverage curve, and guarantees of thresholds that are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from advisor.core.confidence_facts import ConfidenceFacts, Reachable, RecallThreshold, Threshold
from advisor.core.evaluation import Evaluation
from advisor.core.statistics import wilson
from advisor.core.units import listed

if TYPE_CHECKING:
    from advisor.reporting.view import RunView

NAMED = 3
"""Classes that a sentence names; the others are counted."""

PRECISION, RECALL, COVERAGE = "Precision", "Recall", "Coverage"

SHOWN = 100
"""Rows of a table, at most."""

ROUND = 0.1
"""The curve's axis begins at the next multiple of this share of right answers below its lowest point."""


class Mark(NamedTuple):
    """A point of the drawing: its place in percent of the sides, from the left and from the top, and what it is."""

    x: float
    y: float
    title: str


class Curve(NamedTuple):
    """A risk-coverage curve to draw: its points, the chosen threshold if there is one, and the lowest share (0-1)."""

    points: tuple[Mark, ...]
    chosen: Mark | None
    lowest: float


class ThresholdRow(NamedTuple):
    """A row of the table of thresholds: whose answers, the guaranteed share of right ones (0-1), the threshold."""

    name: str
    guaranteed: float
    threshold: Threshold | None


def confidence(view: RunView) -> Mapping[str, object] | None:
    """Return the variables of the section's template; None if the run keeps no probabilities."""
    pick = view.decision.pick
    facts = (pick.holdout_answers or pick.answers).confidence if pick else None
    if pick is None or facts is None or facts.guaranteed is None:
        return None
    return {
        "judged_on": "images held out from training" if pick.holdout_answers else "validation images",
        "facts": facts,
        "thresholds": list(_rows(facts))[:SHOWN],
        "recalls": list(facts.recall.items())[:SHOWN],
        "asked": bool(facts.wanted.options),
        "curve": curve_of(facts),
        "reachable": pick.answers.confidence.reachable if pick.answers.confidence else None,
    }


def _rows(facts: ConfidenceFacts) -> Iterator[ThresholdRow]:
    own, guaranteed = facts.wanted.precision.by_class, facts.guaranteed or 0.0
    yield ThresholdRow("other classes" if own else "all classes", guaranteed, facts.threshold)
    for name, one in facts.by_class.items():
        yield ThresholdRow(name, own.get(name, guaranteed), one)


def curve_of(facts: ConfidenceFacts) -> Curve | None:
    """Return the risk-coverage curve with the threshold that counts, or would count; None if it was not kept."""
    if not facts.curve:
        return None
    of = facts.curve[-1].images
    lowest = min(point.right / point.images for point in facts.curve)
    floor = min(ROUND * (lowest // ROUND), 1 - ROUND)

    def mark(images: int, right: float, score: float) -> Mark:
        share, said = images / of, f"from {score:.3f} on: {100 * images / of:.1f} % answered, {100 * right:.1f} % right"
        return Mark(100 * share, 100 * (1 - right) / (1 - floor), said)

    chosen = facts.answered or facts.threshold
    return Curve(
        tuple(mark(point.images, point.right / point.images, point.score) for point in facts.curve),
        mark(chosen.images, chosen.precision.value, chosen.score) if chosen and chosen.precision else None,
        floor,
    )


class Unkept(NamedTuple):
    """A guarantee that is not kept: what it is about, and a sentence that says what is reachable or what was seen."""

    name: str
    text: str


def unkept(evaluation: Evaluation) -> Iterator[Unkept]:
    """Yield what is wrong with the guarantees of a classifier; nothing if none was asked for."""
    chosen = evaluation.answers.confidence
    if chosen is None or not chosen.wanted.options:
        return
    yield from _precision(chosen)
    yield from _recall(chosen)
    yield from _coverage(chosen)
    seen = evaluation.holdout_answers.confidence if evaluation.holdout_answers else None
    if seen is not None:
        yield from _contradicted(seen)


def _precision(chosen: ConfidenceFacts) -> Iterator[Unkept]:
    wanted, cover = chosen.wanted.precision, chosen.coverage
    if wanted.plain is not None and chosen.threshold is None:
        others = " of the other classes" if wanted.by_class else ""
        left = "no threshold"
        if cover is not None and cover.kept:
            left = f"the threshold for the wanted coverage, which guarantees {_percent(cover.precision)}"
        yield Unkept(
            PRECISION,
            f"No threshold can guarantee {_percent(wanted.plain)} of right answers{others}: the images support "
            f"{_most(chosen.reachable)}. The bundle has {left}: add images, or ask for less with --min-precision.",
        )
    missing = [name for name in wanted.by_class if chosen.by_class.get(name) is None]
    if missing:
        best = chosen.reachable_by_class
        said = [
            f"'{name}' {_percent(wanted.by_class[name])} (the images support {_most(best.get(name))})"
            for name in missing
        ]
        yield Unkept(
            PRECISION,
            f"No threshold can guarantee the wanted share of right answers of these classes: {listed(said, NAMED)}. "
            "The bundle has no own threshold for them: add images of these classes, or ask for less with "
            "--min-precision.",
        )
    if wanted.plain is not None and chosen.threshold and cover and chosen.threshold.score > cover.at.score:
        yield Unkept(
            COVERAGE,
            f"{_percent(wanted.plain)} of right answers need a probability of {chosen.threshold.score:.3f}, which "
            f"{_percent(chosen.threshold.coverage)} of the images reach, not {_percent(cover.wanted)}. With "
            f"{_percent(cover.wanted)} of the images answered, {_percent(cover.precision)} of right answers can be "
            "guaranteed. The bundle has the threshold for precision.",
        )


def _recall(chosen: ConfidenceFacts) -> Iterator[Unkept]:
    missing = {name: one for name, one in chosen.recall.items() if not one.kept}
    if missing:
        said = [f"'{name}' {_percent(one.wanted)} ({_best(one)})" for name, one in missing.items()]
        yield Unkept(
            RECALL,
            f"No threshold can guarantee the wanted recall of these classes: {listed(said, NAMED)}. The bundle has no "
            "recall threshold for them: add images of these classes, or ask for less with --min-recall.",
        )


def _best(one: RecallThreshold) -> str:
    """Say which recall can be guaranteed, and what it costs."""
    if not one.guaranteed:
        return "validation has no image of it"
    return f"the images support {_percent(one.guaranteed)} at most, which flags {_percent(one.flagged)} of all images"


def _coverage(chosen: ConfidenceFacts) -> Iterator[Unkept]:
    cover = chosen.coverage
    if cover is not None and not cover.kept:
        yield Unkept(
            COVERAGE,
            f"No threshold can guarantee that {_percent(cover.wanted)} of the images are answered: the {cover.at.of} "
            f"images support {_percent(cover.guaranteed)} at most. Add images, or ask for less with "
            "--min-coverage.",
        )


def _contradicted(seen: ConfidenceFacts) -> Iterator[Unkept]:
    """Yield what the hold-out says against a guarantee: its 95 % interval lies below what was guaranteed."""
    asked = seen.wanted.precision
    plain = [("the answers", asked.plain, seen.threshold)] if asked.plain is not None else []
    own = [(f"the answers '{name}'", share, seen.by_class.get(name)) for name, share in asked.by_class.items()]
    for what, share, one in (*plain, *own):
        if share is not None and one and one.precision and one.precision.high < share:
            yield Unkept(
                PRECISION,
                f"On the hold-out {100 * one.precision.value:.1f} % of {what} from the threshold on are right, less "
                f"than the {_percent(share)} that was guaranteed.",
            )
    for name, found in seen.recall.items():
        if found.kept and found.recall and found.recall.high < found.wanted:
            yield Unkept(
                RECALL,
                f"On the hold-out {100 * found.recall.value:.1f} % of the images of '{name}' reach their threshold, "
                f"less than the {_percent(found.wanted)} that was guaranteed.",
            )
    cover = seen.coverage
    if cover is not None and cover.kept and _answered(cover.at) < cover.wanted:
        yield Unkept(
            COVERAGE,
            f"On the hold-out {100 * cover.at.coverage:.1f} % of the images reach the threshold, less than the "
            f"{_percent(cover.wanted)} that was guaranteed.",
        )


def _answered(one: Threshold) -> float:
    """Return the upper end of the interval of the share of images that reach a threshold."""
    return wilson(one.images, one.of).high if one.of else 1.0


def _most(best: Reachable | None) -> str:
    if best is None or not best.precision:
        return "less than 50 %"
    return f"{_percent(best.precision)} at most, with {_percent(best.coverage)} of them answered"


def _percent(share: float) -> str:
    return f"{round(100 * share, 1):g} %"
