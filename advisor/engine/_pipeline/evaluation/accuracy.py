"""Compute the accuracy of a file: measured if there are images, else published or estimated.

The judges of the tasks and the evaluator call these functions with the answers of a file and of
its float32 form. Each returns an :class:`AccuracyVerdict`, whose fields are those of
``evaluations.jsonl``. The sources that it names are shown in the report.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Card
from advisor.core import (
    Agreement,
    CaptureAccuracy,
    ConditionAccuracy,
    Evaluation,
    ImageAnswers,
    ImageUnits,
    Interval,
    Provenance,
    Quantity,
)
from advisor.datasets import CaptureTest
from advisor.engine._pipeline.stages.figures import Answer
from advisor.measurement import resample_mean

Shares = NDArray[np.float64]

LEVEL = 0.95
MAX_CONFUSION_CLASSES = 40

VALIDATED = "validation part of --data, run in LiteRT"
HELD_OUT = "hold-out of --data, run in LiteRT"
CAPTURED_VALIDATION = "validation part of --data under capture conditions, run in LiteRT"
CAPTURED_HOLDOUT = "hold-out of --data under capture conditions, run in LiteRT"


@dataclass(frozen=True)
class AccuracyVerdict:
    """Accuracy of one artefact and its loss against float32;
    the fields are those of an evaluation.
    """

    accuracy: Quantity | None
    drop: Quantity | None
    answers: ImageAnswers = field(default_factory=ImageAnswers)
    agreement: Agreement | None = None
    capture: CaptureAccuracy = field(default_factory=CaptureAccuracy)

    def apply_to(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with these figures, whose names are those of its fields."""
        return replace(evaluation, **vars(self))


def read_answers(probabilities: Path) -> tuple[int, ...]:
    """Return the most probable label of each row of a ``.npy`` file."""
    rows = np.load(probabilities, allow_pickle=False)
    return tuple(map(int, rows.argmax(axis=1)))


def measure_accuracy(
    answers: Sequence[int],
    float_answers: Sequence[int],
    labels: Sequence[int],
    classes: Sequence[str],
    groups: Sequence[Hashable] = (),
) -> AccuracyVerdict:
    """Return the accuracy of an artefact's answers on the validation part,
    and its loss against the float answers. ``groups`` has the group of each image.
    """
    right = [answer == label for answer, label in zip(answers, labels, strict=True)]
    float_right = [answer == label for answer, label in zip(float_answers, labels, strict=True)]
    lost = Interval.difference_of_means(float_right, right, groups)
    return AccuracyVerdict(
        accuracy=share_of(right, VALIDATED, groups),
        drop=lost.as_drop(len(right)),
        answers=per_class(answers, labels, classes),
    )


def share_of(right: Sequence[bool], source: str, groups: Sequence[Hashable] = ()) -> Quantity:
    """Return the share of correctly answered images, in %, see :meth:`.Interval.share_of`."""
    return Interval.share_of(right, groups).as_percent(len(right), source)


@dataclass(frozen=True, eq=False)
class Captured:
    """The figures of some images under capture conditions."""

    tests: Sequence[CaptureTest]
    shares: Shares  # of each image in the figure under each test, (T, N)
    # What a run keeps to compare files: labels (T, N), or the share of each image, (N,).
    answers: Any
    metric: str = ""  # name of the figure; empty for top-1
    groups: Sequence[Hashable] = ()  # the group of each image, (N,); empty without groups


def compare_captured(
    captured: Captured, floats: Captured, source: str = CAPTURED_VALIDATION
) -> AccuracyVerdict:
    """Return the mean figure under capture conditions,
    and the loss against the float32 file of the same card.

    The interval is a bootstrap over images, because the answers to one image are not independent.
    ``source`` names the image set. Without an image, or an object in one, nothing is known.
    """
    if not captured.shares.size or not np.isfinite(captured.shares).all():
        return AccuracyVerdict(None, None)
    means = captured.shares.mean(axis=0)
    float_means = floats.shares.mean(axis=0)
    count = len(means)
    share = resample_mean(means, captured.groups)
    # All images give the same value, so resampling them shows no spread.
    if share.low == share.high:
        groups = ImageUnits.of(captured.groups, count).count
        ends = Interval.wilson(round(share.value * groups), groups, LEVEL)
        share = Interval(share.value, min(share.value, ends.low), max(share.value, ends.high))
    lost = Interval.paired_shares(float_means.tolist(), means.tolist(), captured.groups)
    conditions = []
    means_of_tests = captured.shares.mean(axis=1).tolist()
    for (test, strength), mean in zip(captured.tests, means_of_tests, strict=True):
        conditions.append(ConditionAccuracy(test.name, strength, 100 * mean))
    return AccuracyVerdict(
        accuracy=share.as_percent(count, f"{captured.metric} {source}".strip()),
        drop=lost.as_drop(count),
        capture=CaptureAccuracy(tuple(conditions)),
    )


def quote_top1(card: Card, recipe: str) -> AccuracyVerdict:
    """Return the published top-1 of the form, if there is one; random weights allow no estimate.

    The agreement of a random graph with its compressed form does not describe the trained graph.
    """
    float_top1 = card.top1()
    if float_top1 is None:
        return AccuracyVerdict(None, None)
    if recipe in ("float32", "float16"):
        same_weights = "the published figure is that of the float weights"
        no_drop = Quantity(0.0, "points", Provenance.PUBLISHED, source=same_weights)
        source = f"ImageNet, {_find_source(card, 'float32')}"
        accuracy = Quantity(float_top1, "%", Provenance.PUBLISHED, source=source)
        return AccuracyVerdict(accuracy, no_drop)
    quantised = card.top1("int8") if recipe == "int8" else None
    if quantised is None:
        return AccuracyVerdict(None, None)
    source = _find_source(card, "int8")
    drop = Quantity(float_top1 - quantised, "points", Provenance.PUBLISHED, source=source)
    accuracy = Quantity(quantised, "%", Provenance.PUBLISHED, source=f"ImageNet, {source}")
    return AccuracyVerdict(accuracy, drop)


def find_published_top1(
    card: Card, recipe: str, answers: Sequence[Answer], float_answers: Sequence[Answer]
) -> AccuracyVerdict:
    """Return the published top-1, or estimate that of a compressed form.

    If no figure is published for a quantised form, its top-1 is the published float top-1 times
    the share of kept answers on photographs. Each photograph is weighted by the float form's
    probability, which approximates its chance to be correct. A changed answer counts as a wrong
    one.
    """
    float_top1 = card.top1()
    verdict = quote_top1(card, recipe)
    if float_top1 is None:
        return verdict
    agreement = _compare_answers(answers, float_answers)
    if verdict.accuracy is not None:
        return replace(verdict, agreement=agreement)
    photographs = len(answers)
    share = agreement.kept
    least = Interval.wilson(round(share * photographs), photographs, LEVEL).low
    source = (
        f"published float top-1 {float_top1:.1f} % x share of answers kept on {photographs}"
        " photographs"
    )
    accuracy = Quantity(
        float_top1 * share,
        "%",
        Provenance.ESTIMATED,
        float_top1 * least,
        float_top1,
        LEVEL,
        photographs,
        source,
    )
    drop = Quantity(float_top1 * (1 - share), "points", Provenance.ESTIMATED, source=source)
    return AccuracyVerdict(accuracy, drop, agreement=agreement)


def _compare_answers(answers: Sequence[Answer], float_answers: Sequence[Answer]) -> Agreement:
    """Return how many answers are those of the float form, plain and by its probabilities."""
    weights = []
    weights_of_same = []
    for (label, _), (float_label, probability) in zip(answers, float_answers, strict=True):
        weights.append(probability)
        if label == float_label:
            weights_of_same.append(probability)
    share = len(weights_of_same) / len(weights)
    return Agreement(share, len(weights), sum(weights_of_same) / sum(weights))


def _find_source(card: Card, precision: str) -> str:
    """Return where a published top-1 of a card comes from; empty if there is none."""
    for row in card.published:
        if row.precision == precision and row.top1 is not None:
            return row.source
    return ""


def per_class(
    answers: Sequence[int], labels: Sequence[int], classes: Sequence[str], file: str = ""
) -> ImageAnswers:
    """Return the recall of each class and, for a readable number of classes, the confusion matrix.

    The recall of a class without an image is None. An answer that is none of the classes is wrong;
    the matrix leaves it out. ``file`` is the path of the answers in the run.
    """
    images = Counter(labels)
    confusion = [[0] * len(classes) for _ in classes]
    for answer, label in zip(answers, labels, strict=True):
        if answer < len(classes):
            confusion[label][answer] += 1
    recall = {}
    for label, name in enumerate(classes):
        recall[name] = confusion[label][label] / images[label] if images[label] else None
    shown = None
    if len(classes) <= MAX_CONFUSION_CLASSES:
        shown = tuple(map(tuple, confusion))
    return ImageAnswers(recall, shown, file)
