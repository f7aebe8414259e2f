"""Figures of single classes: recall, boxes, and what is taken for what.

``report.md`` and the page have a section of them (:func:`class_blocks`); others name the weakest
class. In a confusion matrix, rows are true classes and columns answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from advisor.core import (
    ClassBoxes,
    Evaluation,
    ImageAnswers,
    Interval,
    Metric,
    UsageError,
    listed,
)
from advisor.reporting import _text as text
from advisor.reporting._blocks import Block, Labelled, Span, TableColumn, table_of
from advisor.reporting._class_counts import count_judged_images

if TYPE_CHECKING:
    from advisor.reporting._view import RunView

HEATMAP_CLASSES = 30
"""Above this many classes the cells of a heat map are unreadable,
so only the most confused pairs are listed.
"""

PAIRS = 10

CLASSES_SHOWN = 20
"""Classes of the pick, those with the lowest figure, so that the report stays short."""

DIFFERENCES = 5
"""Pairs of classes in which pick and runner-up differ, at most."""

LEAST = 2
"""Images by which the counts of a pair must differ: a single one tells nothing."""

NO_COUNTS: Mapping[str, int] = MappingProxyType({})
"""The images of classes whose numbers are not known."""

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ClassRecall:
    """Share of a class's images that were recognised, in %;
    with interval and ``n`` where counts are known.

    The share is None for a class without an image. Of a detector it is the average precision, and
    ``boxes`` are known. ``precision`` is the share of right ones among the answers with this
    class, in %; None without such an answer.
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
        """Precision, recall, count error and that of a constant guess (0-1),
        each None if it is not known.
        """
        boxes = self.boxes
        if boxes:
            return (boxes.precision, boxes.recall, boxes.count_error, boxes.guess_error)
        return (None,) * 4

    @property
    def guesses_better(self) -> bool:
        """Return whether a constant guess has the smaller count error."""
        *_, count_error, guess = self.shares
        return count_error is not None and guess is not None and guess < count_error


@dataclass(frozen=True)
class Confused:
    """``count`` images of class ``true``, ``share`` % of it, were classified as ``answer``."""

    true: str
    answer: str
    count: int
    share: float


@dataclass(frozen=True)
class PairDifference:
    """Images of class ``true`` that were classified as ``answer``,
    by the pick and by the runner-up.
    """

    true: str
    answer: str
    pick: int
    runner_up: int


@dataclass(frozen=True)
class Heatmap:
    """Counts by true class (rows) and answer (columns), and the same in whole % of the row."""

    labels: tuple[str, ...]
    counts: Matrix
    shares: Matrix


def _read_confusion(answers: ImageAnswers, labels: Sequence[str]) -> Matrix | None:
    """Return the confusion matrix as counts, or None where it is missing;
    a damaged one is a ``UsageError``.
    """
    table = answers.confusion
    size = len(labels)
    if not table:
        return None
    are_counts = len(table) == size
    for row in table:
        are_counts = are_counts and len(row) == size and all(count >= 0 for count in row)
    if not are_counts:
        raise UsageError(
            f"the confusion matrix is not {size} x {size} counts, one row for every class",
            "search again",
        )
    return table


def compute_recalls(
    answers: ImageAnswers, labels: Sequence[str], images: Mapping[str, int] = NO_COUNTS
) -> tuple[ClassRecall, ...]:
    """Return the recall of each class with its interval:
    from the confusion matrix, else from ``per_class_recall`` (shares) and the ``images`` of each
    class, without intervals where these are not known. An image counts as in that of all images.
    """
    table = _read_confusion(answers, labels)
    top1 = answers.metrics.get(Metric.TOP1)
    apart = 1.0 if top1 is None else top1.independent_part
    if table is None:
        boxes = answers.boxes.by_class if answers.boxes else {}
        rows = []
        for label, share in answers.per_class_recall.items():
            count = 0 if share is None else images.get(label)
            row = ClassRecall(label, share and 100 * share, n=count, boxes=boxes.get(label))
            if share is not None and count:
                interval = Interval.wilson(round(share * count) * apart, count * apart)
                row = replace(row, low=100 * interval.low, high=100 * interval.high)
            rows.append(row)
        return tuple(rows)
    answered = list(map(sum, zip(*table, strict=True)))
    class_recalls = []
    for index, (label, counts) in enumerate(zip(labels, table, strict=True)):
        precision = None
        if answered[index]:
            precision = 100 * counts[index] / answered[index]
        class_recall = ClassRecall(label, None, n=sum(counts), precision=precision)
        if sum(counts):
            interval = Interval.wilson(counts[index] * apart, sum(counts) * apart)
            class_recall = replace(
                class_recall,
                recall=100 * counts[index] / sum(counts),
                low=100 * interval.low,
                high=100 * interval.high,
            )
        class_recalls.append(class_recall)
    return tuple(class_recalls)


def add_ranges(
    recalls: Sequence[ClassRecall], answers: ImageAnswers, by_class: str
) -> tuple[ClassRecall, ...]:
    """Return the figures of classes with the intervals that a task has measured for some of them.

    These are among its further figures, such as ``AP of cat``, where ``by_class`` is ``AP``.
    """
    rows = []
    for row in recalls:
        figure = answers.figures.get(f"{by_class} of {row.label}")
        if figure is not None and row.n is None:
            row = replace(row, low=figure.low, high=figure.high, n=figure.n)
        rows.append(row)
    return tuple(rows)


def compute_lost_recall(float32: ImageAnswers, form: ImageAnswers) -> dict[str, float]:
    """Return the points of recall that each class loses from the float32 file to a form of it,
    on the same images.

    Classes without an image are left out; below zero, the form recognises more.
    """
    lost = {}
    for name, float_share in float32.per_class_recall.items():
        share = form.per_class_recall.get(name)
        if float_share is not None and share is not None:
            lost[name] = 100 * (float_share - share)
    return lost


def list_confused_pairs(answers: ImageAnswers, labels: Sequence[str]) -> tuple[Confused, ...]:
    """Return the most frequent wrong answers, at most :data:`PAIRS`."""
    table = _read_confusion(answers, labels) or ()
    pairs = []
    for true, row in enumerate(table):
        for answer, count in enumerate(row):
            if true != answer and count:
                pairs.append(Confused(labels[true], labels[answer], count, 100 * count / sum(row)))
    return tuple(sorted(pairs, key=lambda pair: (-pair.count, -pair.share))[:PAIRS])


def make_heatmap(answers: ImageAnswers, labels: Sequence[str]) -> Heatmap | None:
    """Return the heat map, or None where there is no matrix or it has too many classes."""
    table = _read_confusion(answers, labels)
    if table is None or len(labels) > HEATMAP_CLASSES:
        return None
    # The row of a class without an image has no counts.
    shares = []
    for row in table:
        shares.append(tuple(round(100 * count / max(sum(row), 1)) for count in row))
    return Heatmap(tuple(labels), table, tuple(shares))


@dataclass(frozen=True)
class Confusions:
    """Confusion matrices on the images of one part, ``hold-out`` or ``validation``.

    ``wrong`` has the number of wrong answers of the pick, and of the runner-up if it was judged on
    these images. ``pick`` is None if there are too many classes to show its matrix. ``changes``
    are the counts of the runner-up less those of the pick, and ``pairs`` the wrong answers that
    differ by :data:`LEAST` or more, the largest first.
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
        return (
            f"Of {self.images} {self.part} images, the pick answers {pick} wrongly, and the"
            f" runner-up {runner_up}."
        )


def compare_confusions(
    pick: Evaluation, runner_up: Evaluation | None, labels: Sequence[str]
) -> Confusions | None:
    """Return the matrices: of the hold-out if both files ran there, otherwise of validation.

    Without a matrix of the runner-up there is the pick's alone, of the hold-out if it ran there.
    None without any.
    """
    parts = (
        ("hold-out", pick.holdout_answers, runner_up.holdout_answers if runner_up else None),
        ("validation", pick.answers, runner_up.answers if runner_up else None),
    )
    for part, pick_answers, other in parts:
        if pick_answers is None or other is None:
            continue
        first = _read_confusion(pick_answers, labels)
        second = _read_confusion(other, labels)
        if first is None or second is None:
            continue
        # Equal sums of the rows: both files ran on the same images,
        # so their counts can be subtracted.
        if list(map(sum, first)) == list(map(sum, second)):
            changes = tuple(map(_subtract_counts, first, second))
            maps = (make_heatmap(pick_answers, labels), make_heatmap(other, labels))
            wrong = (_count_wrong(first), _count_wrong(second))
            pairs = _list_differences(first, changes, labels)
            return Confusions(part, sum(map(sum, first)), wrong, *maps, changes, pairs)
    for part, pick_answers, _ in parts:
        table = _read_confusion(pick_answers, labels) if pick_answers else None
        if pick_answers and table:
            return Confusions(
                part,
                sum(map(sum, table)),
                (_count_wrong(table),),
                make_heatmap(pick_answers, labels),
            )
    return None


def _subtract_counts(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    return tuple(new - old for old, new in zip(before, after, strict=True))


def _count_wrong(table: Matrix) -> int:
    return sum(sum(row) - row[label] for label, row in enumerate(table))


def _list_differences(
    pick: Matrix, changes: Matrix, labels: Sequence[str]
) -> tuple[PairDifference, ...]:
    differing = []
    for true, row in enumerate(changes):
        for answer, change in enumerate(row):
            if true != answer and abs(change) >= LEAST:
                count = pick[true][answer]
                differing.append(
                    PairDifference(labels[true], labels[answer], count, count + change)
                )
    return tuple(
        sorted(differing, key=lambda pair: -abs(pair.runner_up - pair.pick))[:DIFFERENCES]
    )


def class_blocks(view: RunView) -> Iterator[Block]:
    """Yield the weakest classes of the pick, and what it and the runner-up take for what."""
    pick = view.decision.pick
    task = view.task
    if pick is None or not pick.answers.has_classes:
        return
    answers = pick.holdout_answers or pick.answers
    class_recalls = compute_recalls(answers, view.classes, count_judged_images(view, pick))
    if not class_recalls:
        return
    class_recalls = add_ranges(class_recalls, answers, task.by_class)
    # A class without an image has no figure, and comes last.
    weak = sorted(class_recalls, key=lambda row: math.inf if row.recall is None else row.recall)[
        :CLASSES_SHOWN
    ]
    on = "hold-out" if pick.holdout_answers else "validation"
    others = ""
    if len(class_recalls) > len(weak):
        others = f"; {len(class_recalls) - len(weak)} more are in report.html"
    counted = ""
    if answers.boxes:
        counted = f", and counts from a score of {answers.boxes.threshold:.2f} on"
    better = [row.label for row in class_recalls if row.guesses_better]
    guess = ""
    if better:
        guess = f" A constant guess counts better: {listed(better, CLASSES_SHOWN)}."
    sentence = f"{task.by_class} on {on}: {task.by_class_is}{counted}{others}.{guess}"
    yield replace(
        table_of(_list_columns(task.by_class, answers.boxes is not None), weak), notes=[sentence]
    )
    compared = compare_confusions(pick, view.decision.runner_up, view.classes)
    if compared and compared.sentence:
        pairs = (
            f"{pair.true} taken for {pair.answer} ({pair.pick} and {pair.runner_up})"
            for pair in compared.pairs
        )
        most = ""
        if compared.pairs:
            most = f" They differ most in {', '.join(pairs)}."
        yield Labelled("Pick and runner-up", compared.sentence + most)


def _show_decimal(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.1f}"


def _show_recall(row: ClassRecall) -> str:
    recall = _show_decimal(row.recall) or text.MISSING
    if row.low is None or row.high is None:
        return recall
    return f"{recall} ({row.low:.0f}{text.DASH}{row.high:.0f})"


def _make_share_cell(place: int) -> Callable[[ClassRecall], str | None]:

    def percent(row: ClassRecall) -> str | None:
        share = row.shares[place]
        if share is None:
            return None
        return f"{100 * share:.1f}"

    return percent


def _list_columns(metric: str, boxes: bool) -> tuple[TableColumn[ClassRecall], ...]:
    """Return the columns of the table of classes: of answers, or of ``boxes``."""
    name = TableColumn[ClassRecall]("class", lambda row: Span(row.label, "name"), left=True)
    if not boxes:
        return (
            name,
            TableColumn("images", lambda row: row.n),
            TableColumn(f"{metric.lower()} % (95 %)", _show_recall),
            TableColumn("precision %", lambda row: _show_decimal(row.precision)),
        )
    return (
        name,
        TableColumn("true", lambda row: row.boxes.true if row.boxes else None),
        TableColumn("found", lambda row: row.boxes.found if row.boxes else None),
        TableColumn(f"{metric} %", lambda row: _show_decimal(row.recall)),
        TableColumn("precision %", _make_share_cell(0)),
        TableColumn("recall %", _make_share_cell(1)),
        TableColumn("count error %", _make_share_cell(2)),
        TableColumn("constant guess %", _make_share_cell(3)),
    )
