"""Confusion matrices of the pick and the runner-up on the same images, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation
from advisor.reporting.classes import Heatmap, confusion_of, heatmap

PAIRS = 5

LEAST = 2
"""Images by which the counts of a pair must differ: a single one tells nothing."""

Table = tuple[tuple[int, ...], ...]


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
        pairs: wrong answers whose counts differ by :data:`LEAST` or more, the largest first, at most :data:`PAIRS`.
    """

    part: str
    images: int
    wrong: tuple[int, ...]
    pick: Heatmap | None
    runner_up: Heatmap | None = None
    changes: Table = ()
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
            pairs = _pairs(first, changes, labels)
            return Confusions(part, sum(map(sum, first)), wrong, *maps, changes, pairs)
    for part, (own, _) in parts.items():
        table = confusion_of(own, labels) if own else None
        if own and table:
            return Confusions(part, sum(map(sum, table)), (_wrong(table),), heatmap(own, labels))
    return None


def _wrong(table: Table) -> int:
    return sum(sum(row) - row[label] for label, row in enumerate(table))


def _pairs(pick: Table, changes: Table, labels: Sequence[str]) -> tuple[PairDifference, ...]:
    differing = [
        (abs(change), PairDifference(labels[true], labels[answer], pick[true][answer], pick[true][answer] + change))
        for true, row in enumerate(changes)
        for answer, change in enumerate(row)
        if true != answer and abs(change) >= LEAST
    ]
    return tuple(pair for _, pair in sorted(differing, key=lambda each: -each[0])[:PAIRS])
