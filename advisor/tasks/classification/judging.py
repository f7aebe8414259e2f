"""Judge classifiers: how their answers on images become figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.core.evaluation import Evaluation
from advisor.core.metrics import TOP1
from advisor.core.statistics import paired_shares
from advisor.engine.pipeline.evaluation import accuracy, confidence, metrics
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict
from advisor.engine.pipeline.evaluation.judging import HeldOut, Scored, shares_name
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.question import Question
from advisor.store import RunFolder, answers_file


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
