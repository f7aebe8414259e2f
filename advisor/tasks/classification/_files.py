"""Files of classifiers: judge their answers, ship them, and take users' own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog import Array, ImportedModel, ModelFacts, classifier
from advisor.core import Evaluation, Interval, Metric, UsageError, as_probabilities
from advisor.datasets import TESTS, InputSpec
from advisor.engine import (
    AccuracyVerdict,
    HeldOut,
    Images,
    Question,
    Role,
    Scored,
    accuracy,
    confidence,
    confidence as metrics,
)
from advisor.exporting import VECTOR_COUNT, VECTOR_TOLERANCES, Found, ShippedModel
from advisor.isolation import Scratch
from advisor.measurement import OutOfFold
from advisor.store import RunFolder, answers_file
from advisor.tflite import Metadata, Model, count, form_of, read, with_fixed_batch

if TYPE_CHECKING:
    from advisor.exporting import Crops
    from advisor.measurement import Pixels

DIGITS = 6
SHOWN = 5  # Classes of the answer to a photograph


class OwnClassifiers:
    """See :class:`advisor.catalog.OwnFiles`."""

    search_options = ""

    def takes(self, model: Model, asked: bool) -> bool:
        """Return True: a file of no other task is a classifier, and refused if it is none."""
        return True

    def prepare(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write the master of a classifier;
        a run of the file shows whether its scores are probabilities.
        """
        data = classifier.with_two_classes(data, name)
        input_size, classes = classifier.shape_of(data, name)
        end = "" if classifier.sums_to_one(data, input_size, name) else "SOFTMAX"
        edited = classifier.name_output(data, name, end)
        target.write_bytes(edited)
        cost = count(read(edited, name))
        master, has_features = classifier.with_features(edited, name)
        width = None
        if has_features:
            width = read(master).outputs[1].shape[-1]
        return ModelFacts(input_size, classes, cost.parameters, cost.macs, width, metadata)

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a classifier as it is, with a batch of one image;
        a run shows that the runtime has its operators.
        """
        input_size, classes = classifier.shape_of(data, name, finished=True)
        target.write_bytes(with_fixed_batch(data, name))
        model = read(target.read_bytes(), name)
        cost = count(model)
        classifier.scores_of(
            target.read_bytes(), np.zeros((1, input_size, input_size, 3), np.float32), name
        )
        return ModelFacts(
            input_size,
            classes,
            cost.parameters,
            cost.macs,
            None,
            metadata,
            form=form_of(model, cost),
        )

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the probabilities; those of a finished file are read from its only output."""
        if not finished:
            return classifier.run(data, image)
        row = as_probabilities(classifier.scores_of(data, image, "the model")[None])
        # Probabilities of 8 bits are rounded, and their sum is not quite 1.
        return {classifier.PROBABILITIES: row / max(float(row.sum()), 1e-6)}

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the class with the highest probability."""
        (row,) = outputs[classifier.PROBABILITIES]
        if not np.isfinite(row).all() or abs(float(row.sum()) - 1.0) > 1e-3:
            raise UsageError(
                f"the model's answer to a photograph ({title}) is not a row of probabilities",
                classifier.SCORES,
            )
        return [(int(row.argmax()), float(row.max()))]

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield what a search cannot do with the classifier, and what its metadata asks for."""
        if not added.card.form and added.features is None:
            yield "it does not end in a linear classifier: it is a candidate only without --data"
        if added.card.top1() is None:
            yield "no --top1 was stated: a search without --data cannot rank it"
        if added.threshold is not None and added.threshold > 1:
            yield (
                f"its metadata asks for a score of at least {added.threshold:g}: clients that read"
                " it, such as MediaPipe, show no answer; files that are made of it have no"
                " threshold"
            )


def find_classes(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the most probable classes of an image by the row of its probabilities."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(Found(*pair) for pair in best[:SHOWN])


def classify_images(
    model: ShippedModel, images: Crops
) -> tuple[float, list[tuple[int, Mapping[str, object]]]]:
    """See :data:`Answering`: the probabilities of each class,
    and what the app does with them at its thresholds.
    """
    places = range(len(images))[:: max(1, len(images) // VECTOR_COUNT)][:VECTOR_COUNT]
    rows = answers(model.content, np.stack([images[place]() for place in places]), model)
    vectors = list[tuple[int, Mapping[str, object]]]()
    for place, row in zip(places, rows, strict=True):
        answer = {
            "label": row.index(max(row)),
            "probabilities": [round(value, DIGITS) for value in row],
        }
        vectors.append((place, answer | _done(model, row)))
    return VECTOR_TOLERANCES[0], vectors


def _done(model: ShippedModel, row: Sequence[float]) -> dict[str, object]:
    """Return whether the app answers and which labels it flags,
    as far as it has thresholds for that.
    """
    thresholds = model.thresholds
    outcome = dict[str, object]()
    if thresholds.plain is not None or thresholds.by_class:
        outcome["answered"] = max(row) >= thresholds.least(model.labels[row.index(max(row))])
    if thresholds.recall:
        scores = zip(model.labels, row, strict=True)
        outcome["may_show"] = [
            label for label, score in scores if score >= thresholds.recall.get(label, math.inf)
        ]
    return outcome


def answers(content: bytes, pixels: Pixels, model: ShippedModel) -> list[list[float]]:
    """Return the probabilities of uint8 images (N, size, size, 3), computed with one thread."""
    from advisor.measurement import predict_pixels

    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    with Scratch() as folder:
        path = folder / "model.tflite"
        path.write_bytes(content)
        rows: list[list[float]] = predict_pixels(path, pixels, view).tolist()
    return rows


@dataclass(frozen=True)
class Classified:
    """Judge of classifiers, which keeps the answers of each file,
    so that files are compared image by image.
    """

    # What accuracy is, answers cost and thresholds shall keep.
    question: Question = field(default_factory=Question)

    def verdict(
        self, scored: Scored, images: Images, run: RunFolder, name: str
    ) -> AccuracyVerdict:
        (file, floats, folds, *_), question, metric = scored, self.question, self.question.metric
        answers = accuracy.read_answers(file)
        part = images.part(Role.VALIDATION)
        measured = accuracy.measure_accuracy(
            answers, accuracy.read_answers(floats), part.labels, images.classes
        )
        learnt = None
        if folds:
            learnt = OutOfFold(folds, images.part(Role.TRAIN).labels, floats)
        scores = metrics.score_metrics(file, images, Role.VALIDATION, question.costs)
        by_class = replace(
            measured.answers,
            file=run.keep_answers(name, answers),
            confidence=confidence.choose_thresholds(file, images, question.guarantees, learnt),
            metrics=metrics.describe_scores(scores, accuracy.VALIDATED),
        )
        if metric == Metric.TOP1:
            return replace(measured, answers=by_class)
        shares = scores[metric].shares.tolist()
        reference = metrics.score_metrics(
            floats, images, Role.VALIDATION, question.costs, [metric]
        )[metric].shares
        return replace(
            measured,
            accuracy=by_class.metrics[metric],
            drop=accuracy.drop_of(Interval.paired_shares(reference.tolist(), shares), len(shares)),
            answers=replace(by_class, shares=run.keep_answers(f"{name}-shares", shares)),
        )

    def captured(self, answers: Path, images: Images, role: Role) -> accuracy.Captured:
        # An array with pickled objects could run code; this one has numbers alone.
        labels = np.load(answers, allow_pickle=False)
        right = (labels == np.asarray(images.part(role).labels)).astype(float)
        return accuracy.Captured(TESTS, right, labels)

    def held_out(
        self, evaluation: Evaluation, answers_path: Path, images: Images, file: str = ""
    ) -> HeldOut:
        answers = accuracy.read_answers(answers_path)
        part = images.part(Role.HOLDOUT)
        metric = self.question.metric
        scores = metrics.score_metrics(answers_path, images, Role.HOLDOUT, self.question.costs)
        figures = metrics.describe_scores(scores, accuracy.HELD_OUT)
        by_class = replace(
            accuracy.per_class(answers, part.labels, images.classes, file), metrics=figures
        )
        answers_by_file: dict[str, Sequence[float]] = {file: answers} if file else {}
        if file and metric != Metric.TOP1:
            by_class = replace(by_class, shares=answers_file(f"{Path(file).stem}-shares"))
            answers_by_file[by_class.shares] = scores[metric].shares.tolist()
        if evaluation.answers.confidence is not None:
            believed = confidence.verify_thresholds(
                answers_path, images, evaluation.answers.confidence
            )
            by_class = replace(by_class, confidence=believed)
        return (
            replace(evaluation, holdout_accuracy=figures[metric], holdout_answers=by_class),
            answers_by_file,
        )
