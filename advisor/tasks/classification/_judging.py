"""Judge the files of classifiers by the metric of the question.

The search calls a :class:`Classified` after a file has run over the validation part, over the
hold-out, and over images under capture conditions. It keeps the answer of each image in a file of
the run, so that two files are compared image by image. What it returns is written to
``evaluations.jsonl``; names of metrics are those of ``METRICS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from advisor.core import Evaluation, Interval, Metric
from advisor.datasets import TESTS
from advisor.engine import (
    AccuracyVerdict,
    HeldOut,
    Images,
    Question,
    Role,
    Scored,
    accuracy,
    confidence,
)
from advisor.measurement import OutOfFold


@dataclass(frozen=True)
class Classified:
    """See :class:`advisor.engine.Judge`; the answers of each file are kept."""

    # What accuracy is, answers cost and thresholds shall keep.
    question: Question = field(default_factory=Question)

    def verdict(
        self, scored: Scored, images: Images, file: str
    ) -> tuple[AccuracyVerdict, Mapping[str, Sequence[float]]]:
        """Return the figure on the validation part with the thresholds and what compression lost,
        and the answers to keep by their files.
        """
        probabilities, floats, folds, *_ = scored
        question = self.question
        metric = question.metric
        answers = accuracy.read_answers(probabilities)
        part = images.part(Role.VALIDATION)
        groups = images.group_names(Role.VALIDATION)
        measured = accuracy.measure_accuracy(
            answers, accuracy.read_answers(floats), part.labels, images.classes, groups
        )
        learnt = None
        if folds:
            train = images.part(Role.TRAIN)
            learnt = OutOfFold(folds, train.labels, floats, images.group_names(Role.TRAIN))
        scores = confidence.score_metrics(probabilities, images, Role.VALIDATION, question.costs)
        by_class = replace(
            measured.answers,
            file=file,
            confidence=confidence.choose_thresholds(
                probabilities, images, question.guarantees, learnt
            ),
            metrics=confidence.describe_scores(scores, accuracy.VALIDATED),
        )
        if metric == Metric.TOP1:
            return replace(measured, answers=by_class), {file: answers}
        shares = scores[metric].shares.tolist()
        float_scores = confidence.score_metrics(
            floats, images, Role.VALIDATION, question.costs, [metric]
        )
        lost = Interval.paired_shares(float_scores[metric].shares.tolist(), shares, groups)
        verdict = replace(
            measured,
            accuracy=by_class.metrics[metric],
            drop=lost.as_drop(len(shares)),
            answers=replace(by_class, shares=_name_shares(file)),
        )
        return verdict, {file: answers, verdict.answers.shares: shares}

    def captured(self, answers: Path, images: Images, role: Role) -> accuracy.Captured:
        """Return which images are answered right under each capture condition."""
        # An array with pickled objects could run code; this one has numbers alone.
        labels = np.load(answers, allow_pickle=False)
        right = (labels == np.asarray(images.part(role).labels)).astype(float)
        return accuracy.Captured(TESTS, right, labels, groups=images.group_names(role))

    def held_out(
        self,
        evaluation: Evaluation,
        answers_path: Path,
        images: Images,
        file: str = "",
    ) -> HeldOut:
        """Return the figure on the hold-out, and the answers to keep by their files."""
        answers = accuracy.read_answers(answers_path)
        part = images.part(Role.HOLDOUT)
        metric = self.question.metric
        scores = confidence.score_metrics(answers_path, images, Role.HOLDOUT, self.question.costs)
        figures = confidence.describe_scores(scores, accuracy.HELD_OUT)
        by_class = replace(
            accuracy.per_class(answers, part.labels, images.classes, file), metrics=figures
        )
        answers_by_file: dict[str, Sequence[float]] = {file: answers} if file else {}
        if file and metric != Metric.TOP1:
            by_class = replace(by_class, shares=_name_shares(file))
            answers_by_file[by_class.shares] = scores[metric].shares.tolist()
        chosen = evaluation.answers.confidence
        if chosen is not None:
            verified = confidence.verify_thresholds(answers_path, images, chosen)
            by_class = replace(by_class, confidence=verified)
        judged = replace(evaluation, holdout_accuracy=figures[metric], holdout_answers=by_class)
        return judged, answers_by_file


def _name_shares(file: str) -> str:
    """Return the path of each image's share in the metric, beside that of the answers."""
    path = Path(file)
    return str(path.with_stem(f"{path.stem}-shares"))
