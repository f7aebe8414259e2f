"""Train the head: a linear classifier on the backbone's features, with a penalty chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.core.errors import StageError
from advisor.core.evaluation_facts import HeadFacts
from advisor.training.head.fits import ROUGHLY, fit
from advisor.training.head.space import find_space

VERSION = 4
"""Raised when equal features give another head."""

FOLDS = 5
GRID = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the L2 penalty on standardised features, as scikit-learn's ``C``."""
FEW_IMAGES = 10
"""Below this number of images in a class, the nearest-mean head is tried too."""
ALL_LEVELS, NEAREST_MEAN = "all_levels", "nearest_mean"
"""Kinds of heads."""


@dataclass(frozen=True, eq=False)
class Head:
    """A linear classifier: ``softmax(features @ weights + bias)`` on the backbone's features.

    Attributes:
        weights: float32, shape (F, C).
        bias: float32, shape (C,).
        facts: how it was chosen. Its accuracies are slightly too high, as they are the best of the grid.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    facts: HeadFacts


def train_head(
    features: NDArray[np.float32],
    labels: Sequence[int],
    classes: int,
    seed: int,
    views: Sequence[NDArray[np.float32]] = (),
    groups: Sequence[int] = (),
) -> Head:
    """Fit a multinomial logistic regression whose penalty is chosen by cross-validation that holds whole groups out.

    The fit runs in the space of :mod:`advisor.training.head.space` and is folded back into weights and bias. If a class
    has fewer than ``FEW_IMAGES`` images, a nearest-mean head is a candidate too.

    Args:
        features: float32, shape (N, F): the training part.
        labels: N class indices below ``classes``.
        classes: number of classes; each must occur.
        seed: for the folds.
        views: features (N, F) of changed copies of the same images, for training only; the copies stay in the fold of
            their image.
        groups: N numbers; images of one number belong together. Empty if each image is a group.

    Raises:
        StageError: a class has no image, or the arrays' shapes do not match.
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    with threadpool_limits(limits=1):
        space = find_space(features)
        inside, others = space.enter(features), [space.enter(view) for view in views]
        few = int(np.bincount(targets, minlength=classes).min()) < FEW_IMAGES
        strengths = (0.0, *GRID) if few else GRID
        fold = folds(targets, FOLDS, seed, groups)
        candidates = _cross_validated(inside, targets, classes, fold, others, strengths)
        best = max(candidates, key=lambda strength: _merit(candidates[strength], targets))
        plain = candidates[best]
        if len(set(groups)) < len(groups):
            plain = _cross_validated(inside, targets, classes, folds(targets, FOLDS, seed), others, (best,))[best]
        weights, bias = space.leave(*fit(inside, targets, classes, others, (best,))[best])
    facts = HeadFacts(
        kind=ALL_LEVELS if best else NEAREST_MEAN,
        regularization=best,
        at_grid_end=best in (GRID[0], GRID[-1]),
        cv_accuracy=float((candidates[best].argmax(axis=1) == targets).mean()),
        cv_plain_accuracy=float((plain.argmax(axis=1) == targets).mean()),
        cv_images=len(targets),
    )
    return Head(weights, bias, facts)


def fit_head(
    features: NDArray[np.float32],
    labels: Sequence[int],
    classes: int,
    regularization: float,
    views: Sequence[NDArray[np.float32]] = (),
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Fit a head with a known penalty, such as one that :func:`train_head` chose on fewer images.

    Args as of :func:`train_head`, and ``regularization``: ``C``, 0 for nearest mean.

    Returns:
        weights, float32 (F, C), and bias, float32 (C,).

    Raises:
        StageError: as :func:`train_head`.
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    with threadpool_limits(limits=1):
        space = find_space(features)
        others = [space.enter(view) for view in views]
        fitted = fit(space.enter(features), targets, classes, others, (regularization,))
        return space.leave(*fitted[regularization])


def folds(labels: NDArray[np.int64], count: int, seed: int, groups: Sequence[int] = ()) -> NDArray[np.int64]:
    """Return the fold of each image: whole groups, with each class spread as evenly over ``count`` folds as they allow.

    Unlike in scikit-learn, a class may have fewer images than there are folds.

    Args:
        labels: N class indices.
        count: number of folds.
        seed: of the order of groups of equal size.
        groups: N numbers; images of one number belong together. Empty if each image is a group.
    """
    generator = np.random.default_rng(seed)
    if len(set(groups)) < len(groups):
        return _group_folds(labels, np.asarray(groups), count, generator)
    fold = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        fold[members] = (np.arange(len(members)) + start) % count
        start += len(members)
    return fold


def _group_folds(
    labels: NDArray[np.int64], groups: NDArray[np.int64], count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Give each group, the largest first, to the fold with the fewest images of its classes, then with the fewest."""
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    members = np.split(labels[order], np.cumsum(sizes)[:-1])
    filled = np.zeros((count, int(labels.max()) + 1))
    chosen = np.empty(len(sizes), dtype=np.int64)
    for each in sorted(generator.permutation(len(sizes)), key=lambda each: -sizes[each]):
        own = np.bincount(members[each], minlength=filled.shape[1])
        chosen[each] = np.lexsort((filled.sum(axis=1), filled @ own))[0]
        filled[chosen[each]] += own
    return chosen[group]


def _merit(probabilities: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[float, float]:
    """Return accuracy and mean log-likelihood, to compare in this order."""
    right = probabilities.argmax(axis=1) == targets
    likelihood = np.log(np.maximum(probabilities[np.arange(len(targets)), targets], 1e-7))
    return round(float(right.mean()), 6), float(likelihood.mean())


def _cross_validated(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    fold: NDArray[np.int64],
    views: Sequence[NDArray[np.float32]],
    strengths: Sequence[float],
) -> dict[float, NDArray[np.float32]]:
    """Return the out-of-fold probabilities (N, C) of each candidate strength; ``fold`` is the fold of each image."""
    from scipy.special import softmax

    found = {strength: np.zeros((len(targets), classes), np.float32) for strength in strengths}
    for number in np.unique(fold):
        seen, unseen = fold != number, fold == number
        fitted = fit(features[seen], targets[seen], classes, [view[seen] for view in views], strengths, ROUGHLY)
        for strength, (weights, bias) in fitted.items():
            found[strength][unseen] = softmax(features[unseen] @ weights + bias, axis=1)
    return found


def _require_fitting(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[NDArray[np.float32]],
) -> None:
    if features.ndim != 2 or len(features) != len(targets) or any(view.shape != features.shape for view in views):
        shapes = [features.shape, *(view.shape for view in views)]
        raise StageError(f"features {shapes} and {len(targets)} labels do not fit together")
    counts = np.bincount(targets, minlength=classes)
    if len(counts) > classes or classes < 2 or not counts.all():
        raise StageError(f"a head for {classes} classes needs images of each of at least two, got {counts.tolist()}")
