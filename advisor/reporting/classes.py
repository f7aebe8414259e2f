"""Figures of single classes: recall and confusion (rows: true class, columns: answer), boxes of a detector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.core.box_facts import ClassBoxes
from advisor.core.errors import UsageError
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.statistics import wilson

HEATMAP_CLASSES = 30
"""Above this many classes the cells of a heat map are unreadable, so only the most confused pairs are listed."""

PAIRS = 10


@dataclass(frozen=True)
class ClassRecall:
    """Share of a class's images that were recognised, in %; with interval and ``n`` where counts are known.

    The share is None for a class without an image. Of a detector it is the average precision, and ``boxes`` are known.
    ``precision`` is the share of right ones among the answers with this class, in %; None without such an answer.
    """

    label: str
    recall: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    boxes: ClassBoxes | None = None
    precision: float | None = None

    @property
    def shares(self) -> tuple[float | None, ...]:
        """Precision, recall and error of counting of its boxes (0-1), each None if it is not known."""
        own = self.boxes
        return (own.precision, own.recall, own.count_error) if own else (None, None, None)


@dataclass(frozen=True)
class Confused:
    """``count`` images of class ``true`` were classified as ``answer``: ``share`` % of the class."""

    true: str
    answer: str
    count: int
    share: float


@dataclass(frozen=True)
class Heatmap:
    """Counts by true class (rows) and answer (columns), and each as a share of its row in whole %."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[int, ...], ...]


def confusion_of(answers: ImageAnswers, labels: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
    """Return the confusion matrix as counts, or None where it is missing.

    Raises:
        UsageError: it is damaged: no square table of counts with one row for each label.
    """
    table, size = answers.confusion, len(labels)
    if not table:
        return None
    square = len(table) == size and all(len(row) == size for row in table)
    if not square or any(count < 0 for row in table for count in row):
        raise UsageError(f"the confusion matrix is not {size} x {size} counts, one row for every class", "search again")
    return table


def recalls(answers: ImageAnswers, labels: Sequence[str]) -> tuple[ClassRecall, ...]:
    """Return the recall of each class: from the confusion matrix with intervals, else ``per_class_recall`` (shares)."""
    table = confusion_of(answers, labels)
    if table is None:
        boxes = answers.boxes.by_class if answers.boxes else {}
        return tuple(
            ClassRecall(
                label, None if value is None else 100 * value, n=0 if value is None else None, boxes=boxes.get(label)
            )
            for label, value in answers.per_class_recall.items()
        )
    answered = [sum(column) for column in zip(*table, strict=True)]
    return tuple(
        replace(
            _recall(label, row[index], sum(row)),
            precision=100 * row[index] / answered[index] if answered[index] else None,
        )
        for index, (label, row) in enumerate(zip(labels, table, strict=True))
    )


def lost(float32: ImageAnswers, form: ImageAnswers) -> dict[str, float]:
    """Return the points of recall that each class loses from the float32 file to a form of it, on the same images.

    Classes without an image are left out; below zero, the form recognises more.
    """
    pairs = {name: (share, form.per_class_recall.get(name)) for name, share in float32.per_class_recall.items()}
    return {name: 100 * (own - other) for name, (own, other) in pairs.items() if own is not None and other is not None}


def weakest(found: Sequence[ClassRecall]) -> ClassRecall | None:
    """Return the class with the lowest recall; None where no class has an image."""
    known = [(each.recall, place) for place, each in enumerate(found) if each.recall is not None]
    return found[min(known)[1]] if known else None


def _recall(label: str, right: int, total: int) -> ClassRecall:
    if total == 0:
        return ClassRecall(label, None, n=0)
    interval = wilson(right, total)
    return ClassRecall(label, 100 * interval.value, 100 * interval.low, 100 * interval.high, total)


def confused_pairs(answers: ImageAnswers, labels: Sequence[str]) -> tuple[Confused, ...]:
    """Return the most frequent wrong answers, at most :data:`PAIRS`."""
    table = confusion_of(answers, labels) or ()
    pairs = [
        Confused(labels[true], labels[answer], count, 100 * count / sum(row))
        for true, row in enumerate(table)
        for answer, count in enumerate(row)
        if true != answer and count
    ]
    return tuple(sorted(pairs, key=lambda pair: (-pair.count, -pair.share))[:PAIRS])


def heatmap(answers: ImageAnswers, labels: Sequence[str]) -> Heatmap | None:
    """Return the heat map, or None where there is no matrix or it has too many classes."""
    table = confusion_of(answers, labels)
    if table is None or len(labels) > HEATMAP_CLASSES:
        return None
    shares = tuple(tuple(round(100 * count / max(sum(row), 1)) for count in row) for row in table)
    return Heatmap(tuple(labels), table, shares)
