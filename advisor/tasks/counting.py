"""Object counting: a centre and a class for each object in an image. Images, checks and stages are detection's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.core.training import HEAD
from advisor.tasks.detection import Detection

if TYPE_CHECKING:
    from pathlib import Path

    from advisor.engine.pipeline.evaluation.scorer import Judge
    from advisor.engine.question import Question
    from advisor.exporting.shipping import Crops, Found, ShippedModel, Shipping
    from advisor.measurement.average_precision import Matched
    from advisor.tasks.detection.files import FoundObjects, ObjectFigures
    from advisor.training.detection import HeadKind

DIGITS = 4  # Digits of the scores of a map, which has thousands


class Counting(Detection):
    """See :class:`advisor.tasks.task.Task`."""

    @property
    def head(self) -> HeadKind:
        """The kind of head that is trained."""
        from advisor.training.detection import HeadKind
        from advisor.training.detection.boxes import centre_detector_head

        return HeadKind(16, centre_detector_head, 30)

    def recognized(self, data: Path) -> str:
        """Return nothing: detection is suggested for images with boxes."""
        return ""

    def judge(self, question: Question) -> Judge:
        """Return the judge by centres inside boxes."""
        from advisor.tasks.detection.files import Detected

        return Detected(ByCentres(self.metric))

    def shipping(self) -> Shipping:
        """Return a bundle with a map of scores."""
        from advisor.exporting.shipping import Shipping
        from advisor.measurement.average_precision import LEAST_SCORE

        return Shipping(
            "counts objects in images", "scores", "counter_card.md.j2",
            {"android": "android/Counter.kt", "ios": "ios/Counter.swift", "python": "python/count.py"},
            "", marked, least=LEAST_SCORE,
        )  # fmt: skip

    def found(self, outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
        """Return the centres that the app shows."""
        from advisor.exporting.shipping import Found
        from advisor.measurement.accuracy import centres

        seen = centres(outputs[0], model.threshold or 0.0)
        rows = zip(seen.labels.tolist(), seen.scores.tolist(), seen.boxes.tolist(), strict=True)
        return tuple(Found(model.labels[label], score, tuple(box)) for label, score, box in rows)


@dataclass(frozen=True)
class ByCentres:
    """See :class:`advisor.tasks.detection.files.Criterion`: a found centre is inside the object's box."""

    metric: str

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """Return the F1 of the classes."""
        from advisor.measurement.average_precision import centre_score
        from advisor.tasks.detection.files import ObjectFigures

        reached = centre_score(self.match(given, self.threshold(given)), given.classes)
        return ObjectFigures(reached.mean, reached.by_class)

    def shares(self, given: FoundObjects) -> list[float]:
        """Return each image's share in the mean."""
        from advisor.measurement.average_precision import centre_shares

        return list(map(float, centre_shares(self.match(given, self.threshold(given)), given.classes)))

    def threshold(self, _given: FoundObjects) -> float:
        """Return the score to which the training has moved the threshold: one half."""
        from advisor.measurement.average_precision import LEAST_SCORE

        return LEAST_SCORE

    def match(self, given: FoundObjects, threshold: float) -> list[Matched]:
        """Return which objects have a centre, and which centres are right, in each image."""
        from advisor.measurement.average_precision import match_centres

        return match_centres(given.true, given.found, threshold)


def marked(model: ShippedModel, images: Crops) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the scores of a map of centres.

    The tolerance is the smallest one of which half contains the difference between two kernels in enough images.
    """
    from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, runners

    own, other = runners(model, images)
    scores = [own(place)[0] for place in range(len(images))]
    apart = [float(abs(values - other(place)[0]).max()) for place, values in enumerate(scores)]
    order = sorted(range(len(images)), key=lambda place: -float(scores[place].max()))[:LOOKED_AT]
    for tolerance in TOLERANCES:
        same = [place for place in order if apart[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, {"scores": scores[place].reshape(-1).round(DIGITS).tolist()}) for place in same]


COUNTING = Counting(
    "object-counting", "Object detector", "F1", "F1", "F1 of a class's centres", (HEAD,), "images with boxes",
    "A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
    side=320, cards=4,
)  # fmt: skip
