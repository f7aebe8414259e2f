"""Figures of single classes: recall, boxes of a detector, and confusion (rows: true class, columns: answer)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ClassBoxes, ImageAnswers
from advisor.core.quantity import wilson
from advisor.reporting import text
from advisor.reporting.blocks import Block, DataTable, Labelled, Span, Words, columns

if TYPE_CHECKING:
    from advisor.reporting.view import RunView

HEATMAP_CLASSES = 30
"""Above this many classes the cells of a heat map are unreadable, so only the most confused pairs are listed."""

PAIRS = 10

CLASSES_SHOWN = 20
"""Classes of the pick, those with the lowest figure, so that the report stays short."""

DIFFERENCES = 5
"""Pairs of classes in which pick and runner-up differ, at most."""

LEAST = 2
"""Images by which the counts of a pair must differ: a single one tells nothing."""

Matrix = tuple[tuple[int, ...], ...]


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


@dataclass(frozen=True)
class PairDifference:
    """Images of class ``true`` that were classified as ``answer``, by the pick and by the runner-up."""

    true: str
    answer: str
    pick: int
    runner_up: int


@dataclass(frozen=True)
class Confusions:
    """Confusion matrices on the images of one part.

    Attributes:
        part: ``hold-out`` or ``validation``.
        images: number of images.
        wrong: number of wrong answers of the pick, and of the runner-up if it was judged on these images.
        pick: matrix of the pick; None if there are too many classes to show it.
        runner_up: the same of the runner-up.
        changes: its counts less those of the pick.
        pairs: wrong answers whose counts differ by :data:`LEAST` or more, the largest first.
    """

    part: str
    images: int
    wrong: tuple[int, ...]
    pick: Heatmap | None
    runner_up: Heatmap | None = None
    changes: Matrix = ()
    pairs: tuple[PairDifference, ...] = ()

    @property
    def sentence(self) -> str:
        """The wrong answers of both files in words; empty without a runner-up."""
        if len(self.wrong) < 2:
            return ""
        pick, runner_up = self.wrong
        return f"Of {self.images} {self.part} images, the pick answers {pick} wrongly, and the runner-up {runner_up}."


def confusions(pick: Evaluation, runner_up: Evaluation | None, labels: Sequence[str]) -> Confusions | None:
    """Return the matrices: of the hold-out if both files ran there, otherwise of validation.

    Without a matrix of the runner-up there is the pick's alone, of the hold-out if it ran there. None without any.

    Raises:
        UsageError: a matrix is damaged.
    """
    parts = {
        "hold-out": (pick.holdout_answers, runner_up.holdout_answers if runner_up else None),
        "validation": (pick.answers, runner_up.answers if runner_up else None),
    }
    for part, (own, other) in parts.items():
        first, second = (confusion_of(each, labels) if each else None for each in (own, other))
        if own and other and first and second and list(map(sum, first)) == list(map(sum, second)):
            changes = tuple(
                tuple(after - before for before, after in zip(*rows, strict=True))
                for rows in zip(first, second, strict=True)
            )
            maps, wrong = (heatmap(own, labels), heatmap(other, labels)), (_wrong(first), _wrong(second))
            pairs = _differences(first, changes, labels)
            return Confusions(part, sum(map(sum, first)), wrong, *maps, changes, pairs)
    for part, (own, _) in parts.items():
        table = confusion_of(own, labels) if own else None
        if own and table:
            return Confusions(part, sum(map(sum, table)), (_wrong(table),), heatmap(own, labels))
    return None


def _wrong(table: Matrix) -> int:
    return sum(sum(row) - row[label] for label, row in enumerate(table))


def _differences(pick: Matrix, changes: Matrix, labels: Sequence[str]) -> tuple[PairDifference, ...]:
    differing = [
        (abs(change), PairDifference(labels[true], labels[answer], pick[true][answer], pick[true][answer] + change))
        for true, row in enumerate(changes)
        for answer, change in enumerate(row)
        if true != answer and abs(change) >= LEAST
    ]
    return tuple(pair for _, pair in sorted(differing, key=lambda each: -each[0])[:DIFFERENCES])


def class_blocks(view: RunView) -> Iterator[Block]:
    """Return the weakest classes of the pick, and what it and the runner-up take for what."""
    pick, task = view.decision.pick, view.task
    if pick is None or not pick.answers.has_classes:
        return
    answers = pick.holdout_answers or pick.answers
    if not (found := recalls(answers, view.classes)):
        return
    weak = sorted(found, key=lambda each: math.inf if each.recall is None else each.recall)[:CLASSES_SHOWN]
    on = "hold-out" if pick.holdout_answers else "validation"
    others = f"; {len(found) - len(weak)} more are in report.html" if len(found) > len(weak) else ""
    counted = f", and counts from a score of {answers.boxes.threshold:.2f} on" if answers.boxes else ""
    cells = [_cells(task.by_class, each, answers.boxes is not None) for each in weak]
    said = f"{task.by_class} on {on}: {task.by_class_is}{counted}{others}."
    yield DataTable(columns(*cells[0], left=["class"]), [list(each.values()) for each in cells], notes=[said])
    compared = confusions(pick, view.decision.runner_up, view.classes)
    if compared and compared.sentence:
        pairs = (f"{pair.true} taken for {pair.answer} ({pair.pick} and {pair.runner_up})" for pair in compared.pairs)
        most = f" They differ most in {', '.join(pairs)}." if compared.pairs else ""
        yield Labelled("Pick and runner-up", compared.sentence + most)


def _cells(metric: str, own: ClassRecall, boxes: bool) -> dict[str, Words]:
    """Return the cells of a class by the titles of their columns."""
    figure, precision = (text.MISSING if each is None else f"{each:.1f}" for each in (own.recall, own.precision))
    if not boxes:
        interval = "" if own.low is None or own.high is None else f" ({own.low:.0f}{text.DASH}{own.high:.0f})"
        return {
            "class": Span(own.label, "name"), "images": text.MISSING if own.n is None else str(own.n),
            f"{metric.lower()} % (95 %)": f"{figure}{interval}", "precision %": precision,
        }  # fmt: skip
    true, counted = (str(own.boxes.true), str(own.boxes.found)) if own.boxes else (text.MISSING, text.MISSING)
    precision, recall, error = (text.MISSING if each is None else f"{100 * each:.1f}" for each in own.shares)
    return {
        "class": Span(own.label, "name"), "true": true, "found": counted, f"{metric} %": figure,
        "precision %": precision, "recall %": recall, "count error %": error,
    }  # fmt: skip
