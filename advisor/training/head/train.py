"""Train the head: a linear classifier on the backbone's features, of a kind and penalty chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.core.errors import StageError
from advisor.core.evaluation_facts import HeadFacts
from advisor.training.head.fits import fit
from advisor.training.head.folds import divided, folds
from advisor.training.head.space import Space, find_space

VERSION = 6
"""Raised when equal features give another head."""

FOLDS = 5
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Inverse strengths of the L2 penalty, as scikit-learn's ``C``. Weaker penalties change nothing: a fit then ends where
the one before ended."""
STRONGER = (0.0001, 0.0003, 0.001)
"""Tried too if the strongest of :data:`GRID` is the best."""
FEW_IMAGES = 10
"""Below this number of images in a class, the nearest-mean head is tried too."""

LAST_LAYER, ALL_LEVELS, NEAREST_MEAN = "last_layer", "all_levels", "nearest_mean"
"""Kinds of heads."""

LEAST_GAIN = 0.025
"""Share of images by which a head on all levels must beat the one on the last layer. Levels hold light and texture of
the images: heads on all levels gained 3 to 6 points on images like these, lost 2 to 4 points in a new visit of a shop
if they had learnt one, and cost latency and bytes."""
SURE = 2.0
"""The same in standard errors of the difference, whole groups drawn."""

Floats = NDArray[np.float32]


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
    features: Floats,
    labels: Sequence[int],
    classes: int,
    seed: int,
    views: Sequence[Floats] = (),
    groups: Sequence[int] = (),
    last: int = 0,
) -> Head:
    """Fit the plainest of the good heads: kind and penalty are chosen by cross-validation that holds whole groups out.

    The kinds are logistic regression on the last layer, the same on all levels, and, if a class has fewer than
    ``FEW_IMAGES`` images, nearest mean on the last layer. The fit runs in the space of
    :mod:`advisor.training.head.space` and is folded back into weights and bias.

    Args:
        features: float32, shape (N, F): the training part.
        labels: N class indices below ``classes``.
        classes: number of classes; each must occur.
        seed: for the folds.
        views: features (N, F) of changed copies of the same images, for training only; the copies stay in the fold of
            their image.
        groups: N numbers; images of one number belong together. Empty if each image is a group.
        last: number of the first features that are those of the last layer; 0 for a head on all, whatever they are.

    Raises:
        StageError: a class has no image, or the arrays' shapes do not match.
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    few = int(np.bincount(targets, minlength=classes).min()) < FEW_IMAGES
    groups = divided(targets, groups)
    fold = folds(targets, FOLDS, seed, groups)
    with threadpool_limits(limits=1):
        kinds = ((LAST_LAYER,) if last else ()) + ((ALL_LEVELS,) if last < features.shape[1] else ())
        trials = [_Trial.of(kind, features, targets, classes, views, last) for kind in kinds]
        chosen, found = trials[0], trials[0].best(fold, few)
        for trial in trials[1:]:
            other = trial.best(fold, False)
            if _clearly_better(other.right(targets), found.right(targets), groups):
                chosen, found = trial, other
        plain = found
        if len(set(groups)) < len(groups):
            plain = chosen.cross_validated(folds(targets, FOLDS, seed), _path(found.strength))[-1]
        weights, bias = chosen.fitted(found.strength)
    facts = HeadFacts(
        kind=chosen.kind if found.strength else NEAREST_MEAN,
        regularization=found.strength,
        at_grid_end=found.strength in (STRONGER[0], GRID[-1]),
        cv_accuracy=float(found.right(targets).mean()),
        cv_plain_accuracy=float(plain.right(targets).mean()),
        cv_images=len(targets),
    )
    return Head(weights, bias, facts)


def fit_head(
    features: Floats,
    labels: Sequence[int],
    classes: int,
    regularization: float,
    views: Sequence[Floats] = (),
    kind: str = ALL_LEVELS,
    last: int = 0,
) -> tuple[Floats, Floats]:
    """Fit a head of known kind and penalty, such as one that :func:`train_head` chose on fewer images.

    Args as of :func:`train_head`, and ``regularization``: ``C``, 0 for nearest mean.

    Returns:
        weights, float32 (F, C), and bias, float32 (C,). The weights of features that the head does not read are 0.

    Raises:
        StageError: as :func:`train_head`.
    """
    targets = np.asarray(labels, dtype=np.int64)
    _require_fitting(features, targets, classes, views)
    with threadpool_limits(limits=1):
        return _Trial.of(kind, features, targets, classes, views, last).fitted(regularization)


@dataclass(frozen=True, eq=False)
class _Answers:
    """Out-of-fold probabilities (N, C) of the heads of one strength."""

    strength: float
    probabilities: Floats

    def right(self, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which images are classified correctly, (N,)."""
        correct: NDArray[np.bool_] = self.probabilities.argmax(axis=1) == targets
        return correct

    def merit(self, targets: NDArray[np.int64]) -> tuple[float, float]:
        """Return accuracy and mean log-likelihood, to compare in this order."""
        likelihood = np.log(np.maximum(self.probabilities[np.arange(len(targets)), targets], 1e-7))
        return round(float(self.right(targets).mean()), 6), float(likelihood.mean())


@dataclass(frozen=True, eq=False)
class _Trial:
    """Heads of one kind, in their space.

    Attributes:
        kind: one of the kinds of heads.
        space: of the features that they read.
        inside: the features in it, (N, D).
        views: those of changed copies, (N, D) each.
        targets: class indices, (N,).
        classes: number of classes C.
        width: number of features F.
    """

    kind: str
    space: Space
    inside: Floats
    views: Sequence[Floats]
    targets: NDArray[np.int64]
    classes: int
    width: int

    @classmethod
    def of(
        cls, kind: str, features: Floats, targets: NDArray[np.int64], classes: int, views: Sequence[Floats], last: int
    ) -> _Trial:
        read = slice(None) if kind == ALL_LEVELS or not last else slice(last)
        space = find_space(features[:, read], last)
        inside, others = space.enter(features[:, read]), [space.enter(view[:, read]) for view in views]
        return cls(kind, space, inside, others, targets, classes, features.shape[1])

    def best(self, fold: NDArray[np.int64], few: bool) -> _Answers:
        """Return the best answers of any strength; the grid grows where its strongest penalty is the best."""
        for path in (GRID, (*STRONGER, *GRID)):
            tried = self.cross_validated(fold, (0.0, *path) if few else path)
            found = max(tried, key=lambda each: each.merit(self.targets))
            if found.strength != path[0]:
                break
        return found

    def cross_validated(self, fold: NDArray[np.int64], strengths: Sequence[float]) -> list[_Answers]:
        """Return the answers of each strength; ``fold`` is the fold of each image."""
        from scipy.special import softmax

        shape = (len(self.targets), self.classes)
        found = {strength: np.zeros(shape, np.float32) for strength in strengths}
        for number in np.unique(fold):
            seen, unseen = fold != number, fold == number
            views = [view[seen] for view in self.views]
            fitted = fit(self.inside[seen], self.targets[seen], self.classes, views, strengths)
            for strength, (weights, bias) in fitted.items():
                found[strength][unseen] = softmax(self.inside[unseen] @ weights + bias, axis=1)
        return [_Answers(strength, found[strength]) for strength in strengths]

    def fitted(self, strength: float) -> tuple[Floats, Floats]:
        """Return the head of one strength on all images, on the original features: (F, C) and (C,)."""
        fitted = fit(self.inside, self.targets, self.classes, self.views, _path(strength))[strength]
        read, bias = self.space.leave(*fitted)
        weights = np.zeros((self.width, self.classes), np.float32)
        weights[: len(read)] = read
        return weights, bias


def _path(strength: float) -> tuple[float, ...]:
    """Return the strengths that are fitted one after another up to this one."""
    if not strength:
        return (0.0,)
    grid = GRID if strength >= GRID[0] else STRONGER
    return (*(each for each in grid if each < strength), strength)


def _clearly_better(one: NDArray[np.bool_], other: NDArray[np.bool_], groups: Sequence[int]) -> bool:
    """Return whether right answers are more frequent by :data:`LEAST_GAIN` and :data:`SURE`, drawn by whole groups."""
    gains = one.astype(float) - other.astype(float)
    if len(groups):
        _, group = np.unique(np.asarray(groups), return_inverse=True)
        residuals = np.bincount(group, gains - gains.mean())
    else:
        residuals = gains - gains.mean()
    error = float(np.sqrt(np.square(residuals).sum())) / len(gains)
    return bool(gains.mean() >= max(LEAST_GAIN, SURE * error))


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
