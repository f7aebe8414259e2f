"""Turn the answers of a file on images into its accuracy, by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from advisor.core.evaluation import Evaluation
from advisor.core.metrics import TOP1
from advisor.core.statistics import paired_shares
from advisor.core.tasks import IMAGE_CLASSIFICATION, OBJECT_COUNTING, OBJECT_DETECTION
from advisor.engine.pipeline.evaluation import accuracy, confidence, metrics, objects
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.question import Question
from advisor.store import RunFolder, answers_file

HeldOut = tuple[Evaluation, Mapping[str, Sequence[float]]]
"""An evaluation with its hold-out figures, and what is to be kept for each image, by its path in the run."""


class Scored(NamedTuple):
    """Answers on the validation part.

    Attributes:
        own: what the file answered.
        floats: what the float32 file of the same card answered.
        folds: what the float head answered on the training part, each image by a head of other folds; None if the
            file's head was not cross-validated.
    """

    own: Path
    floats: Path
    folds: Path | None = None


class Judge(Protocol):
    """Turns answers of files into figures."""

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """Return the accuracy on the validation part and the loss against float32.

        Args:
            scored: what the files of the card answered.
            images: the user's images.
            run: keeps answers for comparisons.
            name: of the file, for its answers.
        """

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """Return an evaluation with the accuracy of its file on the hold-out, and the answers to keep.

        Args:
            evaluation: the finalist.
            own: what its file answered.
            images: the user's images.
            file: path of the answers in the run, if they are kept.
        """


@dataclass(frozen=True)
class Classified:
    """Judge of classifiers, which keeps the answers of each file, so that files are compared image by image.

    Attributes:
        question: says what accuracy is, what answers cost and what thresholds shall keep.
    """

    question: Question = field(default_factory=Question)

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """See :class:`Judge`."""
        (own, floats, folds), question, metric = scored, self.question, self.question.metric
        answers, part = accuracy.read_answers(own), images.part(Role.VALIDATION)
        found = accuracy.measured(answers, accuracy.read_answers(floats), part.labels, images.classes)
        scores = metrics.scored(own, images, Role.VALIDATION, question.costs)
        by_class = replace(
            found.answers,
            file=run.keep_answers(name, answers),
            confidence=confidence.chosen(
                own, images, question.guarantees, confidence.Folds(folds, floats) if folds else None
            ),
            metrics=metrics.quantities(scores, accuracy.VALIDATED),
        )
        if metric == TOP1:
            return replace(found, answers=by_class)
        shares = scores[metric].shares.tolist()
        reference = metrics.scored(floats, images, Role.VALIDATION, question.costs, [metric])[metric].shares
        return replace(
            found,
            accuracy=by_class.metrics[metric],
            drop=accuracy.drop_of(paired_shares(reference.tolist(), shares), len(shares)),
            answers=replace(by_class, shares=run.keep_answers(shares_name(name), shares)),
        )

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """See :class:`Judge`."""
        answers, part = accuracy.read_answers(own), images.part(Role.HOLDOUT)
        metric = self.question.metric
        scores = metrics.scored(own, images, Role.HOLDOUT, self.question.costs)
        figures = metrics.quantities(scores, accuracy.HELD_OUT)
        by_class = replace(accuracy.per_class(answers, part.labels, images.classes, file), metrics=figures)
        kept: dict[str, Sequence[float]] = {file: answers} if file else {}
        if file and metric != TOP1:
            by_class = replace(by_class, shares=answers_file(shares_name(Path(file).stem)))
            kept[by_class.shares] = scores[metric].shares.tolist()
        if evaluation.answers.confidence is not None:
            believed = confidence.verified(own, images, evaluation.answers.confidence)
            by_class = replace(by_class, confidence=believed)
        return replace(evaluation, holdout_accuracy=figures[metric], holdout_answers=by_class), kept


@dataclass(frozen=True)
class Detected:
    """Judge of found objects, which keeps each image's share in the figure to compare files image by image.

    Attributes:
        by: rule by which an object counts as found.
    """

    by: objects.Criterion

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """See :class:`Judge`."""
        found, shares = objects.measured(scored.own, scored.floats, images, self.by)
        return replace(found, answers=replace(found.answers, file=run.keep_answers(name, shares)))

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """See :class:`Judge`."""
        chosen = evaluation.answers.boxes
        found, by_class = objects.held_out(own, images, self.by, chosen.threshold if chosen else None)
        return replace(evaluation, holdout_accuracy=found, holdout_answers=by_class), {}


JUDGES: Mapping[str, Judge] = {
    IMAGE_CLASSIFICATION: Classified(),
    OBJECT_DETECTION: Detected(objects.ByBoxes()),
    OBJECT_COUNTING: Detected(objects.ByCentres()),
}
"""The judge of each task; that of classifiers is by top-1."""


def judge_of(question: Question) -> Judge:
    """Return the judge of a question's answers; only classifiers have several metrics, and thresholds."""
    return Classified(question) if question.task == IMAGE_CLASSIFICATION else JUDGES[question.task]


def shares_name(name: str) -> str:
    """Return the name of the shares beside the answers ``name``."""
    return f"{name}-shares"
