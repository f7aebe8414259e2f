"""Estimate how many right answers stay right on another occasion: another visit, camera or day.

A stage of the search calls :func:`expect_new_conditions` for each card. If equal features give
another estimate after a change, raise ``EXPECTATION_VERSION``: it is a part of the stage's key.

A hold-out that is drawn at random shares its occasions with the training images. Photographs of
one occasion look alike, so the images of a class form clusters. This module finds the clusters in
the features. It answers each image by a classifier that has not seen the image's cluster. No image
of another occasion is used, so the result is an estimate. The distance at which images count as
alike is an assumption: its range makes most of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.core import NewConditions
from advisor.datasets import measure_silhouettes

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

# Raised when equal features give another estimate.
EXPECTATION_VERSION = 2
# Images that are read at most, evenly over the classes: the work grows with the third power.
MAX_IMAGES = 3000

ALIKE = (0.75, 0.8, 0.85, 0.9)
"""Mean distances of clusters at which they are joined, over the median distance of the class. The
estimate is their mean. Chosen on GroceryStoreDataset's ``train`` part with its ``val`` part, see
decision 0051.
"""

STRUCTURE_AT = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75)
"""Joining distances that the silhouette is averaged over."""

STRUCTURE = (0.2, 0.24)
"""Mean silhouette below which images come from no common occasions, and above which they surely
do, if the split found no groups. Between them, the estimate moves from the plain figure to that of
clusters. Measured: 0.12-0.16 on TrashNet, up to 0.19 on 30 or 100 images a class of it and 0.23 on
10; 0.29-0.36 on GroceryStoreDataset.
"""

# Correlation of the answers to two images of a class on another visit:
# 0.39-0.48, by four networks.
BETWEEN = 0.45
# Of the ridge classifier; on the choosing data any value of 0.003-0.3 is as accurate.
PENALTY = 0.1


@dataclass(frozen=True, eq=False)
class _Class:
    """The images of one class: places (n,), distances (n, n) and the tree of their clusters."""

    places: Numbers
    distances: Doubles
    tree: Doubles
    median: float

    def find_clusters(self, alike: float) -> Numbers:
        """Return the cluster (n,) of each image, from 0, joined up to a share of the median."""
        from scipy.cluster.hierarchy import fcluster

        if len(self.places) == 1:
            return np.zeros(1, np.int64)
        clusters = fcluster(self.tree, alike * self.median, "distance")
        return np.asarray(clusters.astype(np.int64) - 1)


@dataclass(frozen=True, eq=False)
class _Ridge:
    """A ridge classifier that answers each image without the images of its group, in closed form.

    With ``A`` the inverse of the regularised kernel matrix and ``Y`` the targets, the scores of a
    block of rows that is left out are ``Y - inv(A[block, block]) @ (A @ Y)[block]``. Source: G. C.
    Cawley, N. L. C. Talbot, "Fast exact leave-one-out cross-validation of sparse least-squares
    support vector machines", Neural Networks 17 (2004).
    """

    labels: Numbers
    inverse: Doubles
    weights: Doubles

    @classmethod
    def fit_rows(cls, rows: Floats, labels: Numbers) -> _Ridge:
        """Fit to rows (N, F) of length one and labels (N,)."""
        # The constant stands for the bias of the classifier.
        kernel = (rows @ rows.T).astype(np.float64) + 1.0
        kernel[np.diag_indices_from(kernel)] += PENALTY
        inverse: Doubles = np.linalg.inv(kernel).astype(np.float64)
        return cls(labels, inverse, inverse @ np.eye(labels.max() + 1)[labels])

    def find_right_without(self, groups: Numbers) -> NDArray[np.bool_]:
        """Return which images (N,) a classifier that has not seen their group answers rightly."""
        right = np.empty(len(self.labels), bool)
        order = np.argsort(groups, kind="stable")
        for block in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            right[block] = self.find_right_in(block)
        return right

    def find_right_in(self, block: Numbers) -> NDArray[np.bool_]:
        """Return which images (n,) a classifier that has not seen the block answers rightly."""
        lost = np.linalg.solve(self.inverse[np.ix_(block, block)], self.weights[block])
        targets = np.eye(self.weights.shape[1])[self.labels[block]]
        right: NDArray[np.bool_] = (targets - lost).argmax(axis=1) == self.labels[block]
        return right


def expect_new_conditions(
    features: Floats, labels: Sequence[int], validation: Sequence[int], grouped: bool = False
) -> NewConditions:
    """Estimate which share of a head's right answers stays right on another occasion.

    ``features`` (N, F) are those of the images that may be learnt from, and ``validation`` the
    rows on which the plain figure is measured. If the images are not known to come in groups
    (``grouped``), clear clusters must show it.
    """
    places = _draw_evenly(np.asarray(labels, dtype=np.int64))
    # Numbers without gaps: a class may have no image among those that are read.
    targets = np.unique(np.asarray(labels)[places], return_inverse=True)[1].astype(np.int64)
    compared = np.flatnonzero(np.isin(places, np.asarray(validation)))
    with threadpool_limits(limits=1):
        rows = features[places]
        rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-6)
        lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
        rows = (rows / lengths).astype(np.float32)
        classes = []
        for label in range(targets.max() + 1):
            classes.append(_cluster_class(rows, np.flatnonzero(targets == label)))
        return _estimate_conditions(_Ridge.fit_rows(rows, targets), classes, compared, grouped)


def _estimate_conditions(
    ridge: _Ridge, classes: Sequence[_Class], compared: Numbers, grouped: bool
) -> NewConditions:
    """Return the estimate, by answers without the own cluster at each distance of ALIKE."""
    silhouette = _mean_silhouette(classes)
    low, high = STRUCTURE
    # Without known groups, clear clusters must show that the images come from common occasions.
    weight = 1.0
    if not grouped:
        weight = min(1.0, max(0.0, (silhouette - low) / (high - low)))
    plain = 1.0
    if len(compared):
        plain = float(ridge.find_right_in(compared).mean())
    clusters_at = [_cluster_of_images(classes, alike, len(ridge.labels)) for alike in ALIKE]
    accuracies = []
    shares = []
    deviations = []
    for clusters in clusters_at:
        right = ridge.find_right_without(clusters)
        accuracy = _compute_reached(right, clusters, ridge.labels, plain)
        accuracies.append(accuracy)
        # Other conditions are no easier than the same ones.
        share = min(1.0, accuracy / plain) if plain else 1.0
        shares.append(1.0 - weight * (1.0 - share))
        deviations.append(_deviation_between(right, clusters, ridge.labels))
    least_deviation = _deviation_unseen(float(np.mean(accuracies)), ridge.labels)
    return NewConditions(
        kept=float(np.mean(shares)),
        kept_low=min(shares),
        kept_high=max(shares),
        sd=weight * max(float(np.mean(deviations)), least_deviation),
        silhouette=silhouette,
        clusters=int(clusters_at[0].max()) + 1,
        images=len(ridge.labels),
    )


def _mean_silhouette(classes: Sequence[_Class]) -> float:
    """Return the mean silhouette of the clusters over the distances of STRUCTURE_AT."""
    mean_silhouettes = []
    for alike in STRUCTURE_AT:
        scores = []
        for class_images in classes:
            labels = class_images.find_clusters(alike)
            scores.append(measure_silhouettes(class_images.distances, labels))
        mean_silhouettes.append(np.concatenate(scores).mean())
    return float(np.mean(mean_silhouettes))


def _draw_evenly(labels: Numbers) -> Numbers:
    """Return the places of at most ``MAX_IMAGES``, in proportion to the classes, two of each."""
    ordered = np.argsort(labels, kind="stable")
    if len(ordered) <= MAX_IMAGES:
        return np.sort(ordered).astype(np.int64)
    evenly = ordered[np.linspace(0, len(ordered) - 1, MAX_IMAGES).astype(int)]
    starts = np.flatnonzero(np.diff(labels[ordered], prepend=-1))
    seconds = np.minimum(starts + 1, len(ordered) - 1)
    return np.unique(np.concatenate([evenly, ordered[starts], ordered[seconds]]))


def _cluster_class(rows: Floats, places: Numbers) -> _Class:
    """Return the clusters' tree of one class, by average linkage of cosine distances."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    inside = rows[places]
    distances = np.maximum(1.0 - (inside @ inside.T).astype(np.float64), 0.0)
    # The product of float32 rows is symmetric but for rounding; `squareform` expects it exactly.
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0.0)
    pairs = squareform(distances, checks=False)
    # Average linkage: single linkage chains up to 98 % of a class (decision 0050).
    tree = linkage(pairs, "average") if len(places) > 1 else np.empty((0, 4))
    middle = 0.0
    if len(pairs):
        middle = float(np.median(pairs))
    return _Class(places, distances, tree, middle)


def _cluster_of_images(classes: Sequence[_Class], alike: float, count: int) -> Numbers:
    """Return the cluster (N,) of each image of all classes."""
    clusters = np.zeros(count, np.int64)
    number = 0
    for class_images in classes:
        inside = class_images.find_clusters(alike)
        clusters[class_images.places] = number + inside
        number += int(inside.max()) + 1
    return clusters


def _compute_reached(
    right: NDArray[np.bool_], groups: Numbers, labels: Numbers, plain: float
) -> float:
    """Return the accuracy without the own group, or the plain one if it cannot be known.

    It is that of classes with several groups: of another, nothing would be left to learn from.
    """
    counts = []
    for label in range(labels.max() + 1):
        counts.append(len(np.unique(groups[labels == label])))
    several = np.asarray(counts)[labels] > 1
    if several.any():
        return float(right[several].mean())
    return plain


def _deviation_between(right: NDArray[np.bool_], clusters: Numbers, labels: Numbers) -> float:
    """Return the standard deviation of the accuracy if each class shows one of its clusters.

    The cluster is drawn by its size.
    """
    share_of = np.bincount(clusters, right) / np.bincount(clusters)
    shares = share_of[clusters]
    counts = np.bincount(labels)
    means = np.bincount(labels, shares) / counts
    variances = np.bincount(labels, (shares - means[labels]) ** 2) / counts
    return float(np.sqrt((counts**2 * variances).sum())) / len(labels)


def _deviation_unseen(accuracy: float, labels: Numbers) -> float:
    """Return the least standard deviation to expect, by the correlation of answers to a class.

    One more class counts as right and one more as wrong: three classes without an error are no
    proof of none.
    """
    counts = np.bincount(labels)
    classes = float(counts.sum() ** 2 / (counts**2).sum())
    share = (accuracy * classes + 1) / (classes + 2)
    return math.sqrt(share * (1 - share) * BETWEEN / classes)
