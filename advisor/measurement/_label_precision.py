"""Average precision of labels, what it is without each image,
and the figures that scores of labels reach.

The task of tagging judges files with :class:`LabelScores`, on validation and on the hold-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import BoxGuarantee, ImageUnits, Interval
from advisor.measurement._label_thresholds import answers_of_label
from advisor.measurement._other_images import Floats, interval_of_gain, of_other_images

Doubles = NDArray[np.float64]
Truth = NDArray[np.int8]

# Score from which on a label is shown: heads are fitted so that it is the threshold of each label.
LEAST = 0.5


def list_precisions(truth: Truth, scores: NDArray[Any]) -> Doubles:
    """Return the average precision of each label, (C,),
    NaN for one without an image that has it or one that lacks it.

    It is the mean, over the images with the label, of the share of such images among those with as
    high a score. Images of equal scores count together, as a file of 8 bits has many of them.
    """
    precisions = []
    for label in range(truth.shape[1]):
        precisions.append(_Ranking(truth[:, label], scores[:, label]).precision)
    return np.array(precisions)


def list_precisions_without(truth: Truth, scores: NDArray[Any]) -> Doubles:
    """Return the average precision of each label without each image, (N, C);
    NaN as :func:`list_precisions`.
    """
    columns = []
    for label in range(truth.shape[1]):
        columns.append(_Ranking(truth[:, label], scores[:, label]).list_without())
    return np.stack(columns, axis=1)


def mean_precision(truth: Truth, scores: NDArray[Any]) -> float:
    """Return the mean over the labels of their average precision; 0 if there is none."""
    values = list_precisions(truth, scores)
    return 0.0 if np.isnan(values).all() else float(np.nanmean(values))


class _Ranking:
    """The images of which a label is known, in blocks of equal scores, the highest first."""

    def __init__(self, truth: Truth, scores: NDArray[Any]) -> None:
        known = np.flatnonzero(truth >= 0)
        _, block = np.unique(-scores[known], return_inverse=True)
        self._count = len(truth)
        self._known = known
        self._block = block
        self._there = truth[known] == 1
        self._hits = np.bincount(block, self._there, minlength=1).astype(float)  # of each block
        self._above = np.cumsum(self._hits)  # images with the label up to the end of each block
        # All images up to there.
        self._rank = np.cumsum(np.bincount(block, minlength=1)).astype(float)
        self._total = float(self._there.sum())

    @property
    def precision(self) -> float:
        """The average precision."""
        if not self._total or self._total == len(self._known):
            return float("nan")
        return float((self._hits * self._above / self._rank).sum() / self._total)

    def list_without(self) -> Doubles:
        """Return the average precision without each image, (N,).

        An image changes the rank of all that come behind it, and of its own block.
        """
        without = np.full(self._count, self.precision)
        lacking = len(self._known) - self._total
        for there in (False, True):
            places = self._there == there
            if not places.any():
                continue
            if (self._total - there) <= 0 or (lacking - (not there)) <= 0:
                without[self._known[places]] = np.nan
                continue
            ahead = self._hits * self._above / self._rank
            behind = self._hits * (self._above - there) / np.maximum(self._rank - 1, 1)
            within = (self._hits - there) * (self._above - there) / np.maximum(self._rank - 1, 1)
            before = np.cumsum(ahead) - ahead
            after = behind.sum() - np.cumsum(behind)
            sums = (before + within + after) / (self._total - there)
            without[self._known[places]] = sums[self._block[places]]
        return without


@dataclass(frozen=True, eq=False)
class LabelScores:
    """The scores that a file gives N images, beside their labels."""

    scores: Floats  # (N, C)
    truth: Truth  # (N, C): 1, 0, or -1 where nothing is known
    groups: Sequence[int] = ()  # the number of the group of each image; empty if each image is one
    least: Sequence[float] = (LEAST,)  # the threshold of each label, or of all

    @cached_property
    def by_class(self) -> Doubles:
        """The average precision of each label, (C,); NaN for one that all images have or lack."""
        return list_precisions(self.truth, self.scores)

    @cached_property
    def _without(self) -> Doubles:
        """The same without each image, (N, C)."""
        return list_precisions_without(self.truth, self.scores)

    @property
    def figure(self) -> Interval:
        """The mean average precision, with its range on as many other images."""
        known = ~np.isnan(self.by_class)
        if not known.any():
            return Interval(0.0, 0.0, 1.0)
        values = float(self.by_class[known].mean())
        without = _mean_known(self._without[:, known])
        return self._range(values, without)

    @property
    def shares(self) -> list[float]:
        """Each image's share in it, whose mean it is:
        pseudo-values of the jackknife, see :func:`.split_precision`.
        """
        known = ~np.isnan(self.by_class)
        if not known.any():
            return [0.0] * len(self.truth)
        whole = float(self.by_class[known].mean())
        without = _mean_known(self._without[:, known])
        without = np.where(np.isfinite(without), without, whole)
        return list(map(float, whole + (len(without) - 1) * (without.mean() - without)))

    def _range(self, value: float, without: Doubles) -> Interval:
        """Return a figure with its range;
        ``without`` is the figure without each image, which add up to first order.
        """
        units = ImageUnits.of(self.groups, len(without))
        # Without its only image a label has no figure;
        # such an image counts as one that moves nothing.
        moved = np.where(np.isfinite(without), without - value, 0.0)
        return of_other_images(value, value + units.sum_values(moved))

    def list_ranges(self) -> list[Interval | None]:
        """Return the average precision of each label with its range; None as for ``by_class``."""
        ranges = []
        for label, value in enumerate(self.by_class):
            interval = None
            if not np.isnan(value):
                interval = self._range(float(value), self._without[:, label])
            ranges.append(interval)
        return ranges

    @property
    def flags(self) -> Truth:
        """1 where a label is shown and known to be there or not, else 0, (N, C)."""
        return np.asarray((self.scores >= self._thresholds) & (self.truth >= 0), np.int8)

    @property
    def _thresholds(self) -> Floats:
        # In the type of the scores: a score that is exactly the threshold reaches it.
        return np.asarray(self.least, self.scores.dtype)

    @property
    def errors(self) -> Doubles:
        """Number of wrong labels of each image,
        with the distance of each from the threshold added, float (N,).
        """
        wrong = (self.flags != (self.truth == 1)) & (self.truth >= 0)
        return np.asarray(
            (wrong * (1 + np.abs(self.scores - self._thresholds))).sum(axis=1), np.float64
        )

    def complete(self, label: int, chosen: BoxGuarantee | None) -> BoxGuarantee | None:
        """Return a guarantee of a label's threshold with what these images show of it."""
        answers = answers_of_label(self.truth[:, label], self.scores[:, label], self.groups)
        least = float(np.broadcast_to(self._thresholds, self.scores.shape[1:])[label])
        return answers.complete_guarantee(least, chosen)

    def f1_scores(self) -> tuple[Interval, Interval, Interval]:
        """Return macro F1, micro F1, and the share of images with all known labels right."""
        there = (self.truth == 1).astype(float)
        shown = self.flags.astype(float)
        counts = np.stack([shown * there, shown, there], axis=-1)  # (N, C, 3): right, shown, true
        whole = counts.sum(axis=0)
        units = ImageUnits.of(self.groups, len(counts))
        left = whole - units.sum_values(counts)
        macro = of_other_images(float(_compute_f1(whole).mean()), _compute_f1(left).mean(axis=-1))
        micro = of_other_images(
            float(_compute_f1(whole.sum(axis=0))), _compute_f1(left.sum(axis=1))
        )
        exact = (self.errors == 0).astype(float)
        rest = (exact.sum() - units.sum_values(exact)) / np.maximum(len(exact) - units.sizes, 1)
        return macro, micro, of_other_images(float(exact.mean()), rest)


def measure_gain(before: LabelScores, after: LabelScores) -> Interval:
    """Return the mean average precision that later scores of the same images gain, -1 to 1, with
    its 95 % interval (:func:`.interval_of_gain`).
    """
    known = ~np.isnan(after.by_class)
    if not known.any():
        return Interval(0.0, 0.0, 0.0)
    value = float((after.by_class - before.by_class)[known].mean())
    without = _mean_known((after._without - before._without)[:, known])
    moved = np.where(np.isfinite(without), without - value, 0.0)
    units = ImageUnits.of(after.groups, len(moved))
    return interval_of_gain(value, value + units.sum_values(moved))


def precision_by_chance(truth: Truth) -> float:
    """Return the mean average precision (0-1) of scores that know nothing of the image.

    In a random order, the precision of a label is the share of the images that have it.
    """
    present = (truth == 1).sum(axis=0)
    known = (truth >= 0).sum(axis=0)
    # A label that no image has, has no average precision.
    has_label = present > 0
    if not has_label.any():
        return 0.0
    return float((present[has_label] / known[has_label]).mean())


def _mean_known(values: Doubles) -> Doubles:
    """Return the mean of each row without NaN, (N,); NaN for a row of them."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0).sum(axis=1)
    counts = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
    return np.asarray(sums / counts)


def _compute_f1(counts: Doubles) -> Doubles:
    """Return the F1 of counts (..., 3) of right, shown and true labels;
    1 where there is nothing to find or show.
    """
    right, shown, true = np.moveaxis(counts, -1, 0)
    labels = shown + true
    f1 = 2 * right / np.maximum(labels, 1e-9)
    return np.asarray(np.where(labels > 0, f1, 1.0))
