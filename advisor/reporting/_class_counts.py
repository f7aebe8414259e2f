"""The images of each class that judged a file, and the weakest class.

A run with many classes keeps no confusion matrix, and so no number of images beside a recall. The
split has the numbers: :func:`count_judged_images` takes them from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.reporting._image_risks import FEW_IMAGES

if TYPE_CHECKING:
    from advisor.core import Evaluation
    from advisor.reporting._classes import ClassRecall
    from advisor.reporting._view import RunView

SHARE_ERROR = 0.001
"""Largest distance of a number of right answers from a whole number: shares are rounded."""


def count_judged_images(view: RunView, evaluation: Evaluation) -> Mapping[str, int]:
    """Return by class how many images of validation, or of the hold-out if a file ran there,
    have judged it; nothing where the split does not tell.
    """
    if view.dataset is None or not view.task.probabilities:
        return {}
    answers = evaluation.holdout_answers
    if answers is None:
        answers = evaluation.answers
        counts = view.dataset.validated_per_class
        accuracy = evaluation.accuracy
    else:
        counts = view.dataset.held_out_per_class
        accuracy = evaluation.holdout_accuracy
        if evaluation.holdout_part is not None:
            counts = evaluation.holdout_part.count_by_class(counts)
    # Of a split that has changed, or with images that judge nothing, the counts do not fit.
    if accuracy is None or accuracy.n != sum(counts.values()):
        return {}
    for label, share in answers.per_class_recall.items():
        if not _fits_count(share, counts.get(label, 0)):
            return {}
    return counts


def _fits_count(share: float | None, count: int) -> bool:
    """Return whether a recall (0-1; None without images) can be that of so many images."""
    if share is None:
        return count == 0
    right = share * count
    return count > 0 and abs(right - round(right)) <= SHARE_ERROR


def find_weakest(recalls: Sequence[ClassRecall]) -> ClassRecall | None:
    """Return the class with the lowest recall; None where no class has an error,
    or enough images to tell.
    """
    # The place decides between equal ones: rows have no order.
    rows_with_figures = []
    for place, row in enumerate(recalls):
        is_known = row.n is None or row.n >= FEW_IMAGES
        if row.recall is not None and row.recall < 100.0 and is_known:
            rows_with_figures.append((row.recall, place))
    return recalls[min(rows_with_figures)[1]] if rows_with_figures else None


def name_compared(recalls: Sequence[ClassRecall]) -> str:
    """Return which classes can be the weakest: ``of the classes with at least 10 images``; empty
    if all of them can.
    """
    are_left_out = any(row.n is not None and row.n < FEW_IMAGES for row in recalls)
    return f"of the classes with at least {FEW_IMAGES} images" if are_left_out else ""


def are_few(recalls: Sequence[ClassRecall]) -> bool:
    """Return whether fewer images than tell something have judged each of several classes."""
    numbers = [row.n for row in recalls if row.n]
    return len(numbers) > 1 and max(numbers) < FEW_IMAGES
