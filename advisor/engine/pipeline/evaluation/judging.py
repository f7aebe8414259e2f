"""How the answers of a file on images become its accuracy, by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from advisor.core.evaluation import Evaluation
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.engine.pipeline.evaluation import accuracy, confidence, objects
from advisor.engine.pipeline.evaluation.accuracy import Verdict
from advisor.engine.pipeline.images import Images, Role
from advisor.store import RunFolder

HeldOut = tuple[Evaluation, tuple[int, ...]]
"""An evaluation with its hold-out figures, and its answer for each image; empty where no answers are kept."""


class Judge(Protocol):
    """Turns answers of files into figures."""

    def verdict(
        self, own: Path, floats: Path, images: Images, run: RunFolder, name: str, promise: float | None = None
    ) -> Verdict:
        """Return the accuracy on the validation part and the loss against float32.

        Args:
            own: what the file answered.
            floats: what the float32 file of the same card answered.
            images: the user's images.
            run: keeps answers for comparisons.
            name: of the file, for its answers.
            promise: share (0-1) of right answers that thresholds promise; None for the usual one.
        """

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """Return an evaluation with the accuracy of its file on the hold-out, and the answers to keep.

        Args:
            evaluation: the finalist.
            own: what its file answered.
            images: the user's images.
            file: path of the answers in the run, if they are kept.
        """


class Classified:
    """Top-1 of classifiers; the answers of each file are kept, so that files are compared image by image."""

    def verdict(
        self, own: Path, floats: Path, images: Images, run: RunFolder, name: str, promise: float | None = None
    ) -> Verdict:
        """See :class:`Judge`."""
        answers, part = accuracy.read_answers(own), images.part(Role.VALIDATION)
        found = accuracy.measured(answers, accuracy.read_answers(floats), part.labels, images.classes)
        by_class = replace(
            found.answers, file=run.keep_answers(name, answers), confidence=confidence.chosen(own, images, promise)
        )
        return replace(found, answers=by_class)

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """See :class:`Judge`."""
        answers, part = accuracy.read_answers(own), images.part(Role.HOLDOUT)
        right = [answer == label for answer, label in zip(answers, part.labels, strict=True)]
        by_class = accuracy.per_class(answers, part.labels, images.classes, file)
        if evaluation.answers.confidence is not None:
            kept = confidence.verified(own, images, evaluation.answers.confidence)
            by_class = replace(by_class, confidence=kept)
        judged = replace(
            evaluation, holdout_accuracy=accuracy.share_of(right, accuracy.HELD_OUT), holdout_answers=by_class
        )
        return judged, answers


@dataclass(frozen=True)
class Detected:
    """Judge of found objects, which keeps each image's share in the figure to compare files image by image.

    Attributes:
        by: rule by which an object counts as found.
    """

    by: objects.Criterion

    def verdict(
        self, own: Path, floats: Path, images: Images, run: RunFolder, name: str, promise: float | None = None
    ) -> Verdict:
        """See :class:`Judge`."""
        found, shares = objects.measured(own, floats, images, self.by)
        return replace(found, answers=replace(found.answers, file=run.keep_shares(name, shares)))

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """See :class:`Judge`."""
        chosen = evaluation.answers.boxes
        found, by_class = objects.held_out(own, images, self.by, chosen.threshold if chosen else None)
        return replace(evaluation, holdout_accuracy=found, holdout_answers=by_class), ()


JUDGES: Mapping[str, Judge] = {
    IMAGE_CLASSIFICATION: Classified(),
    OBJECT_DETECTION: Detected(objects.ByBoxes()),
    OBJECT_COUNTING: Detected(objects.ByCentres()),
}
"""Who judges the answers, by task."""
