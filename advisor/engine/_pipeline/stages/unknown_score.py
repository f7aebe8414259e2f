"""Compute the score by which a classifier tells images of its classes from images of other things.

The jobs of ``unknown_jobs.py`` make the rule, write it into the file and judge it. The score has
two parts. A known image has a large logit, and its features are near those of a training image: D.
Hendrycks et al., "Scaling Out-of-Distribution Detection for Real-World Settings" (2022), and Y.
Sun et al., "Out-of-Distribution Detection with Deep Nearest Neighbors" (2022). ``offset - weight *
similarity`` is the logit of one more class, ``unknown``. So its probability is one more output of
the same softmax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import DEVIATIONS, Interval

Floats = NDArray[np.floating[Any]]

RANK = 64
"""Dimensions in which features are compared with those of training images. On TrashNet's seeds 5
to 7, a class that was left out has an AUROC of .831 with 64 dimensions and of .838 with 128; by
the largest logit alone of .740 (EfficientNet-Lite0, frozen).
"""

MOST_COSINES = 50_000_000
"""Most cosines in memory at a time: 0.2 GB.
Those of 20,000 images with 80,000 training images would take 6.4 GB.
"""

LEAST_SQUARE = 1e-6
"""Square of a singular value that counts as zero: images that show the same have such values."""

LEAST_SPREAD = 1e-3
"""Standard deviation of similarities below which they tell nothing apart:
that is the precision of float16.
"""

KEPT_SHARE = 0.95
"""Share of known images that are not to be answered ``unknown``."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Features of training images, of length 1, as a product of two matrices,
    float32 (F, R) and (R, N).
    """

    axes: Floats
    images: Floats

    @classmethod
    def of(cls, features: Floats, rank: int = RANK) -> Neighbours:
        """Return the best approximation of features (N, F) by
        at most a rank (C. Eckart and G. Young, 1936).
        """
        from scipy.linalg import eigh

        rows = _normalise_features(features)
        count, width = rows.shape
        side = min(count, width)
        # eigh gives the eigenvalues in ascending order: the largest ones are the last.
        largest = [side - min(rank, side), side - 1]
        # Both products have the same eigenvalues but for zeros, and the smaller one is faster.
        if count < width:
            squares, vectors = eigh(rows @ rows.T, subset_by_index=largest)
            axes = rows.T @ vectors / np.sqrt(np.maximum(squares, LEAST_SQUARE))
        else:
            _, axes = eigh(rows.T @ rows, subset_by_index=largest)
        return cls(axes.astype(np.float32), (axes.T @ rows.T).astype(np.float32))

    @classmethod
    def none(cls, features: Floats) -> Neighbours:
        """Return neighbours to which every image is equally near,
        for features (N, F) that tell nothing.
        """
        return cls(np.zeros((features.shape[1], 1), np.float32), np.zeros((1, 1), np.float32))

    def similarity(self, features: Floats) -> Floats:
        """Return the cosine of each row (N, F) with the nearest training image, (N,)."""
        rows = _normalise_features(features) @ self.axes
        step = max(1, MOST_COSINES // self.images.shape[1])
        largest = []
        for start in range(0, max(1, len(rows)), step):
            cosines = rows[start : start + step] @ self.images
            largest.append(cosines.max(axis=1))
        return np.concatenate(largest)


@dataclass(frozen=True)
class UnknownRule:
    """The logit of the class ``unknown``: ``offset - weight * similarity``."""

    weight: float
    offset: float

    def scores(self, logits: Floats, similarity: Floats) -> Floats:
        """Return by how much the logit of ``unknown`` exceeds the largest other one, (N,);
        above 0 it is the answer.
        """
        return np.asarray(self.offset - self.weight * similarity - logits.max(axis=1))


def make_rule(logits: Floats, similarity: Floats, share_kept: float = KEPT_SHARE) -> UnknownRule:
    """Return the rule that keeps a share of known images,
    in which both parts of the score vary equally.

    Nothing was fitted to these images,
    with logits (N, C) and similarities (N,) with the nearest training image.
    """
    spread = float(similarity.std())
    weight = 0.0
    if spread > LEAST_SPREAD:
        weight = float(logits.max(axis=1).std()) / spread
    largest = logits.max(axis=1) + weight * similarity
    return UnknownRule(weight, float(np.quantile(largest, 1 - share_kept)))


def compute_auroc(known: Floats, unknown: Floats) -> Interval:
    """Return the probability that an unknown image has a higher score than a known one,
    with a 95 % interval.

    It is the area under the receiver operating characteristic. The interval is that of E. R.
    DeLong et al., "Comparing the Areas under Two or More Correlated Receiver Operating
    Characteristic Curves" (1988). ValueError if one is empty.
    """
    from scipy.stats import rankdata

    if not len(known) or not len(unknown):
        raise ValueError("auroc: no known or no unknown image")
    ranks = rankdata(np.concatenate([known, unknown]))
    # Of each unknown image, the share of known ones below it: ranks count ties by half.
    below = (ranks[len(known) :] - rankdata(unknown)) / len(known)
    above = 1 - (ranks[: len(known)] - rankdata(known)) / len(unknown)
    value = float(below.mean())
    variance = 0.0
    for shares in (below, above):
        # A single image shows no spread.
        if len(shares) > 1:
            variance += float(shares.var(ddof=1)) / len(shares)
    half = DEVIATIONS * math.sqrt(variance)
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def share_accepted(known: Floats, unknown: Floats) -> float:
    """Return the share (0-1) of unknown images that pass as known at the score
    that keeps :data:`KEPT_SHARE` of the known ones.
    """
    return float((unknown <= np.quantile(known, KEPT_SHARE)).mean())


def mean_of(intervals: Sequence[Interval]) -> Interval:
    """Return the mean of independent shares (0-1) with its interval."""
    value = sum(interval.value for interval in intervals) / len(intervals)
    half_widths = [(interval.high - interval.low) / 2 for interval in intervals]
    half = math.sqrt(sum(width**2 for width in half_widths)) / len(intervals)
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _normalise_features(features: Floats) -> Floats:
    return np.asarray(features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6))
