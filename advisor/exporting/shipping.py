"""Content of a bundle, by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.exporting.vectors import Answering, classified, detected, marked
from advisor.measurement.counting import LEAST_SCORE
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
        least: score from which on objects are shown, if the evaluation chose none; None of a classifier.
    """

    does: str
    answers: str
    card: str
    snippets: Mapping[str, str]
    edgetpu: str
    answering: Answering
    least: float | None = None

    def threshold(self, evaluation: Evaluation, promised: float | None = None) -> float | None:
        """Return the score from which on answers are shown; None for all.

        Args:
            evaluation: chose the score on the validation part.
            promised: share (0-1) of right answers that the user asked for; None if a classifier's answers all count.
        """
        boxes, confidence = evaluation.answers.boxes, evaluation.answers.confidence
        if promised is not None and confidence is not None and confidence.threshold is not None:
            return round(confidence.threshold.score, 4)
        return self.least if boxes is None else round(boxes.threshold, 4)


SHIPPING: Mapping[str, Shipping] = {
    IMAGE_CLASSIFICATION: Shipping(
        "classifies images", "probabilities", "classifier_card.md.j2",
        {"android": "android/Classifier.kt", "ios": "ios/Classifier.swift", "python": "python/classify.py"},
        "edgetpu/classify_edgetpu.py", classified,
    ),
    OBJECT_DETECTION: Shipping(
        "finds objects in images", "boxes", "detector_card.md.j2",
        {"android": "android/Detector.kt", "ios": "ios/Detector.swift", "python": "python/detect.py"},
        "", detected, Suppression().score,
    ),
    OBJECT_COUNTING: Shipping(
        "counts objects in images", "scores", "counter_card.md.j2",
        {"android": "android/Counter.kt", "ios": "ios/Counter.swift", "python": "python/count.py"},
        "", marked, LEAST_SCORE,
    ),
}  # fmt: skip
"""Content of a bundle, by task."""
