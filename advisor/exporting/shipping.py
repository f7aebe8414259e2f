"""Content of a bundle, by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from advisor.core.confidence_facts import Applied
from advisor.core.evaluation import Evaluation
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.exporting.vectors import Answering, classified, detected, marked
from advisor.measurement.counting import LEAST_SCORE
from advisor.tflite.metadata import one_line
from advisor.tflite.postprocess import Suppression


@dataclass(frozen=True)
class Shipping:
    """Content of a bundle of one task. Each file of code has a template of its name.

    Attributes:
        does: purpose of its programs, as a verb with its object.
        answers: name of the model's answers.
        card: template of the model card.
        snippets: path of the code for each platform.
        edgetpu: path of the program for a Coral Edge TPU; empty if there is none.
        answering: function that makes the expected answers of test vectors.
        web: there is a page for browsers, and a Core ML package.
        least: score from which on objects are shown, if the evaluation chose none; None of a classifier.
    """

    does: str
    answers: str
    card: str
    snippets: Mapping[str, str]
    edgetpu: str
    answering: Answering
    web: bool = False
    least: float | None = None

    def applied(self, evaluation: Evaluation) -> Applied:
        """Return the scores from which on answers are shown, which the evaluation chose on the validation part."""
        boxes, confidence = evaluation.answers.boxes, evaluation.answers.confidence
        if confidence is not None:
            found = confidence.applied
            return replace(found, by_class=_as_stored(found.by_class), recall=_as_stored(found.recall))
        return Applied(self.least if boxes is None else round(boxes.threshold, 4))


def _as_stored(by_class: Mapping[str, float]) -> dict[str, float]:
    return {one_line(name): score for name, score in by_class.items()}


SHIPPING: Mapping[str, Shipping] = {
    IMAGE_CLASSIFICATION: Shipping(
        "classifies images", "probabilities", "classifier_card.md.j2",
        {"android": "android/Classifier.kt", "ios": "ios/Classifier.swift", "python": "python/classify.py"},
        "edgetpu/classify_edgetpu.py", classified, web=True,
    ),
    OBJECT_DETECTION: Shipping(
        "finds objects in images", "boxes", "detector_card.md.j2",
        {"android": "android/Detector.kt", "ios": "ios/Detector.swift", "python": "python/detect.py"},
        "", detected, least=Suppression().score,
    ),
    OBJECT_COUNTING: Shipping(
        "counts objects in images", "scores", "counter_card.md.j2",
        {"android": "android/Counter.kt", "ios": "ios/Counter.swift", "python": "python/count.py"},
        "", marked, least=LEAST_SCORE,
    ),
}  # fmt: skip
"""Content of a bundle, by task."""
