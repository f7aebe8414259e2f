"""Average precision of labels, and what it is without each image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Truth = NDArray[np.int8]


def list_precisions(truth: Truth, scores: NDArray[Any]) -> Doubles:
    """Return the average precision of each label, (C,), NaN for one without an image that has it or one that lacks it.

    It is the mean, over the images with the label, of the share of such images among those with as high a score. Images
    of equal scores count together, as a file of 8 bits has many of them.
    """
    return np.array([_Ranking(truth[:, label], scores[:, label]).precision for label in range(truth.shape[1])])


def list_precisions_without(truth: Truth, scores: NDArray[Any]) -> Doubles:
    """Return the average precision of each label without each image, (N, C); NaN as :func:`list_precisions`."""
    return np.stack(
        [_Ranking(truth[:, label], scores[:, label]).list_without() for label in range(truth.shape[1])], axis=1
    )


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
        self._rank = np.cumsum(np.bincount(block, minlength=1)).astype(float)  # all images up to there
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
