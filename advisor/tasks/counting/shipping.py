"""Ship a counter: its bundle, the expected answers of test vectors, and the centres in a photograph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from advisor.exporting.model import ShippedModel
from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, Shipping, runners
from advisor.measurement.counting import LEAST_SCORE, centres

if TYPE_CHECKING:
    from advisor.exporting.shipping import Pixels

DIGITS = 4
"""Digits of the scores of a map, which has thousands."""


def found(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the centres that the app shows."""
    seen = centres(outputs[0], model.threshold or 0.0)
    rows = zip(seen.labels.tolist(), seen.scores.tolist(), seen.boxes.tolist(), strict=True)
    return tuple(Found(model.labels[label], score, tuple(box)) for label, score, box in rows)


def marked(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the scores of a map of centres.

    The tolerance is the smallest one of which half contains the difference between two kernels in enough images.
    """
    own, other = runners(model, images)
    scores = [own(place)[0] for place in range(len(images))]
    apart = [float(abs(values - other(place)[0]).max()) for place, values in enumerate(scores)]
    order = sorted(range(len(images)), key=lambda place: -float(scores[place].max()))[:LOOKED_AT]
    for tolerance in TOLERANCES:
        same = [place for place in order if apart[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, {"scores": scores[place].reshape(-1).round(DIGITS).tolist()}) for place in same]


SHIPPING = Shipping(
    "counts objects in images", "scores", "counter_card.md.j2",
    {"android": "android/Counter.kt", "ios": "ios/Counter.swift", "python": "python/count.py"},
    "", marked, least=LEAST_SCORE,
)  # fmt: skip
