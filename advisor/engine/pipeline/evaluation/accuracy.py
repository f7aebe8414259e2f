"""Top-1 of an artefact: measured if there are images, otherwise published or estimated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.cards import Card
from advisor.core.evaluation_facts import Agreement, CaptureAccuracy, ConditionAccuracy, ImageAnswers
from advisor.core.quantity import Interval, Provenance, Quantity, paired_difference, paired_shares, wilson
from advisor.engine.pipeline.stages.figures import Answer
from advisor.measurement.accuracy import robustness

Captured = Any  # int64 (T, N): labels of N images under T tests

LEVEL = 0.95
MAX_CONFUSION_CLASSES = 40

VALIDATED = "validation part of --data, run in LiteRT"
HELD_OUT = "hold-out of --data, run in LiteRT"
CAPTURED_VALIDATION = "validation part of --data under capture conditions, run in LiteRT"
CAPTURED_HOLDOUT = "hold-out of --data under capture conditions, run in LiteRT"


@dataclass(frozen=True)
class AccuracyVerdict:
    """Accuracy of one artefact and its loss against float32; the fields are those of an evaluation."""

    accuracy: Quantity | None
    drop: Quantity | None
    answers: ImageAnswers = field(default_factory=ImageAnswers)
    agreement: Agreement | None = None
    capture: CaptureAccuracy = field(default_factory=CaptureAccuracy)


def read_answers(probabilities: Path) -> tuple[int, ...]:
    """Return the most probable label of each row of a ``.npy`` file."""
    return tuple(int(label) for label in np.load(probabilities, allow_pickle=False).argmax(axis=1))


def read_labels(file: Path) -> Captured:
    """Return the labels of a ``.npy`` file, int64 (T, N)."""
    return np.load(file, allow_pickle=False)


def measured(
    answers: Sequence[int], float_answers: Sequence[int], labels: Sequence[int], classes: Sequence[str]
) -> AccuracyVerdict:
    """Return the accuracy of an artefact's answers on the validation part, and its loss against the float answers."""
    right = [answer == label for answer, label in zip(answers, labels, strict=True)]
    float_right = [answer == label for answer, label in zip(float_answers, labels, strict=True)]
    lost = paired_difference(float_right, right, LEVEL)
    return AccuracyVerdict(
        accuracy=share_of(right, VALIDATED), drop=drop_of(lost, len(right)), answers=per_class(answers, labels, classes)
    )


def share_of(right: Sequence[bool], source: str) -> Quantity:
    """Return the share of correctly answered images, in %, with Wilson's interval."""
    return percent(wilson(sum(right), len(right), LEVEL), len(right), source)


def robust(
    answers: Captured, float_answers: Captured, labels: Sequence[int], source: str = CAPTURED_VALIDATION
) -> AccuracyVerdict:
    """Return the accuracy of answers to images under capture conditions.

    ``answers`` are the artefact's labels, int (T, N), with a row for each of :data:`advisor.datasets.capture.TESTS`;
    ``float_answers`` those of the float32 artefact of the same card. ``source`` names the image set.
    """
    found = robustness(answers, labels)
    share = found.accuracy
    if share.low == share.high:  # all images give the same value, so resampling them shows no spread
        ends = wilson(round(share.value * len(labels)), len(labels), LEVEL)
        share = Interval(share.value, min(share.value, ends.low), max(share.value, ends.high))
    own, floats = ((rows == labels).mean(axis=0).tolist() for rows in (answers, float_answers))
    lost = paired_shares(floats, own, LEVEL)
    return AccuracyVerdict(
        accuracy=percent(share, len(labels), source),
        drop=drop_of(lost, len(labels)),
        capture=CaptureAccuracy(
            tuple(ConditionAccuracy(name, strength, 100 * share) for name, strength, share in found.by_test)
        ),
    )


def percent(share: Interval, images: int, source: str, unit: str = "%") -> Quantity:
    """Return a share of some images, in %."""
    value, low, high = (100 * each for each in (share.value, share.low, share.high))
    return Quantity(value, unit, Provenance.MEASURED, low, high, LEVEL, images, source)


def drop_of(lost: Interval, images: int) -> Quantity:
    """Return what is lost against float32, in points."""
    return percent(lost, images, "against float32 on the same images", "points")


def quoted(card: Card, recipe: str) -> AccuracyVerdict:
    """Return the published top-1 of the form, if there is one; random weights allow no estimate.

    The agreement of a random graph with its compressed form does not describe the trained graph.
    """
    float_top1 = card.top1()
    if float_top1 is None:
        return AccuracyVerdict(None, None)
    if recipe in ("float32", "float16"):
        source = "the published figure is that of the float weights"
        no_drop = Quantity(0.0, "points", Provenance.PUBLISHED, source=source)
        source = f"ImageNet, {_source(card, 'float32')}"
        return AccuracyVerdict(Quantity(float_top1, "%", Provenance.PUBLISHED, source=source), no_drop)
    quantised = card.top1("int8") if recipe == "int8" else None
    if quantised is None:
        return AccuracyVerdict(None, None)
    source = _source(card, "int8")
    drop = Quantity(float_top1 - quantised, "points", Provenance.PUBLISHED, source=source)
    return AccuracyVerdict(Quantity(quantised, "%", Provenance.PUBLISHED, source=f"ImageNet, {source}"), drop)


def published(card: Card, recipe: str, answers: Sequence[Answer], float_answers: Sequence[Answer]) -> AccuracyVerdict:
    """Return the published top-1, or estimate that of a compressed form.

    If no figure is published for a quantised form, its top-1 is the published float top-1 times the share of kept
    answers on photographs. Each photograph is weighted by the float form's probability, which approximates its chance
    to be correct. A changed answer counts as a wrong one.
    """
    float_top1, verdict = card.top1(), quoted(card, recipe)
    if float_top1 is None:
        return verdict
    same = [answer[0] == other[0] for answer, other in zip(answers, float_answers, strict=True)]
    weights = [probability for _, probability in float_answers]
    share = sum(weight for weight, agrees in zip(weights, same, strict=True) if agrees) / sum(weights)
    agreement = Agreement(sum(same) / len(same), len(same), share)
    if verdict.accuracy is not None:
        return replace(verdict, agreement=agreement)
    least = wilson(round(share * len(same)), len(same), LEVEL).low
    source = f"published float top-1 {float_top1:.1f} % x share of answers kept on {len(same)} photographs"
    accuracy = Quantity(
        float_top1 * share, "%", Provenance.ESTIMATED, float_top1 * least, float_top1, LEVEL, len(same), source
    )
    drop = Quantity(float_top1 * (1 - share), "points", Provenance.ESTIMATED, source=source)
    return AccuracyVerdict(accuracy, drop, agreement=agreement)


def _source(card: Card, precision: str) -> str:
    return next((row.source for row in card.published if row.precision == precision and row.top1 is not None), "")


def per_class(answers: Sequence[int], labels: Sequence[int], classes: Sequence[str], file: str = "") -> ImageAnswers:
    """Return the recall of each class and, for a readable number of classes, the confusion matrix.

    The recall of a class without an image is None. An answer that is none of the classes is wrong; the matrix leaves it
    out. ``file`` is the path of the answers in the run.
    """
    images, confusion = Counter(labels), [[0] * len(classes) for _ in classes]
    for answer, label in zip(answers, labels, strict=True):
        if answer < len(classes):
            confusion[label][answer] += 1
    recall = {name: confusion[i][i] / images[i] if images[i] else None for i, name in enumerate(classes)}
    shown = tuple(map(tuple, confusion)) if len(classes) <= MAX_CONFUSION_CLASSES else None
    return ImageAnswers(recall, shown, file)
