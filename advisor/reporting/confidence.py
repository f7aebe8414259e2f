"""Content of the section on confidence: reliability, thresholds, and the risk-coverage curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from advisor.core.confidence_facts import ConfidenceFacts, Threshold
from advisor.reporting.view import RunView

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
        "pick": pick,
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
