"""Judge found centres in the user's images, and ship the files that find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, ShippedModel, Shipping, runners
from advisor.measurement.accuracy import centres
from advisor.measurement.average_precision import LEAST_SCORE
from advisor.tasks.detection.judging import FoundObjects, ObjectFigures

if TYPE_CHECKING:
    from advisor.exporting.shipping import Pixels
    from advisor.measurement.average_precision import Matched


@dataclass(frozen=True)
class ByCentres:
    """Criterion of centres: a found centre is inside the object's box."""

    metric: str

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.average_precision import centre_score

        reached = centre_score(self.match(given, self.threshold(given)), given.classes)
        return ObjectFigures(reached.mean, reached.by_class)

    def shares(self, given: FoundObjects) -> list[float]:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.average_precision import centre_shares

        each: list[float] = centre_shares(self.match(given, self.threshold(given)), given.classes).tolist()
        return each

    def threshold(self, _given: FoundObjects) -> float:
        """See :class:`advisor.tasks.detection.judging.Criterion`: the training has moved it to one half."""
        from advisor.measurement.average_precision import LEAST_SCORE

        return LEAST_SCORE

    def match(self, given: FoundObjects, threshold: float) -> list[Matched]:
        """See :class:`advisor.tasks.detection.judging.Criterion`."""
        from advisor.measurement.average_precision import match_centres

        return match_centres(given.true, given.found, threshold)


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
