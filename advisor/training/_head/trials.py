"""Cross-validate heads of one kind: their features, their space, and the grid of penalties.

`_head` compares the kinds by it, and `quantized.py` refits a chosen one. The names of the kinds
are stored with a run and in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.training._head.space import Space, find_space, find_unit_space

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Fitted = tuple[Floats, Floats]

TOLERANCE = 1e-3
"""Largest gradient, in scaled coordinates, at the end of a fit. A smaller one costs time and
generalises worse: a head that was fitted to one visit of a shop lost one to two points on another
(MobileNetV2, 1e-4).
"""

_MAX_ITERATIONS = 200
# p (1 - p) of a class among a few. It scales the steps and does not change the optimum.
_TYPICAL_CURVATURE = 0.15
# Bias of a class without an image, so that it is never predicted.
ABSENT = -30.0

FOLDS = 5
# Inverse strengths of the L2 penalty, scikit-learn's ``C``.
GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Tried too if the strongest of GRID is chosen.
STRONGER = (0.0001, 0.0003, 0.001)
# Tried too if the weakest of GRID is chosen.
WEAKER = (100.0, 300.0, 1000.0)
# Folds after which a kind may be dropped.
FIRST_LOOK = 2
# Kinds of heads.
LAST_LAYER = "last_layer"
COSINE = "cosine"
ALL_LEVELS = "all_levels"
NEAREST_MEAN = "nearest_mean"

TIE = 0.01
"""Nats by which the mean cross entropy of a stronger penalty may exceed the least. Accuracy is a
worse guide: weak penalties give nearly equal heads, and chance decides between them.
"""


def fit_strengths(
    features: Floats,
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[Floats],
    strengths: Sequence[float],
) -> dict[float, Fitted]:
    """Return weights (D, C) and bias (C,) on centred and scaled features for every strength.

    The ``strengths``, scikit-learn's ``C``, ascend; 0 stands for nearest mean. Minimises ``C *
    sum(cross entropy) + |weights|^2 / 2``. Each fit starts from the one before and ends early, so
    the weak penalties depend on those before them. A class without an image, as in a fold, is
    never predicted. ``views`` are features (N, D) of changed copies of the same images.
    """
    standard = np.concatenate([features, *views]) if views else features
    repeated = np.tile(targets, 1 + len(views))
    present = np.unique(repeated)
    # Labels among the classes that have images, without gaps.
    present_targets = np.searchsorted(present, repeated)
    weights = np.zeros((standard.shape[1], len(present)), np.float32)
    bias = np.zeros(len(present), np.float32)
    squares = np.einsum("nd,nd->d", standard, standard) / len(standard)
    fitted = {}
    for strength in strengths:
        if not strength:
            fitted[strength] = _fit_nearest_mean(standard, repeated, classes)
            continue
        # Each strength starts from the weights before it: a path takes few more steps than its
        # end.
        if len(present) > 1:
            penalty = 1.0 / (strength * len(standard))
            weights, bias = _minimise_loss(
                standard, present_targets, penalty, squares, weights, bias
            )
        fitted[strength] = _spread_to_all_classes(weights, bias, present, classes)
    return fitted


def _spread_to_all_classes(
    present_weights: Floats, present_bias: Floats, present: NDArray[np.int64], classes: int
) -> Fitted:
    """Return a head with a column for each class, given one of the P classes with images."""
    weights = np.zeros((len(present_weights), classes), np.float32)
    bias = np.full(classes, ABSENT, np.float32)
    weights[:, present] = present_weights
    bias[present] = present_bias
    return weights, bias


def _fit_nearest_mean(standard: Floats, targets: NDArray[np.int64], classes: int) -> Fitted:
    """Return the head whose logit is minus half the squared distance to the class's mean.

    The distance is over the mean distance.
    """
    present = np.unique(targets)
    means = np.stack([standard[targets == label].mean(axis=0) for label in present])
    differences = standard - means[np.searchsorted(present, targets)]
    spread = float(np.square(differences).sum(axis=1).mean())
    # There is no direction if no feature varies.
    temperature = max(spread, 1e-6) / max(standard.shape[1], 1) ** 0.5
    weights = (means / temperature).T
    bias = -np.square(means).sum(axis=1) / (2 * temperature)
    return _spread_to_all_classes(weights, bias, present, classes)


def _minimise_loss(
    features: Floats,
    targets: NDArray[np.int64],
    penalty: float,
    squares: Floats,
    weights: Floats,
    bias: Floats,
) -> Fitted:
    """Fit for one penalty on the mean loss, starting from the given weights and bias."""
    from scipy.optimize import minimize

    scale = (1.0 / np.sqrt(_TYPICAL_CURVATURE * squares + penalty)).astype(np.float32)[:, None]
    rows = np.arange(len(targets))
    shape = weights.shape

    def loss_and_gradient(place: Doubles) -> tuple[float, Doubles]:
        inside, offsets = _split_parts(place.astype(np.float32), shape)
        weights = scale * inside
        logits = features @ weights + offsets
        # With the largest logit at 0, softmax does not change, and no power of e overflows.
        logits -= logits.max(axis=1, keepdims=True)
        shares = np.exp(logits)
        totals = shares.sum(axis=1)
        loss = float((np.log(totals) - logits[rows, targets]).mean(dtype=np.float64))
        shares /= totals[:, None]
        shares[rows, targets] -= 1.0
        shares /= len(targets)
        gradient = scale * (features.T @ shares + penalty * weights)
        loss += 0.5 * penalty * float(np.square(weights).sum(dtype=np.float64))
        return loss, np.concatenate([gradient.ravel(), shares.sum(axis=0)]).astype(np.float64)

    start = np.concatenate([(weights / scale).ravel(), bias]).astype(np.float64)
    options = {"maxiter": _MAX_ITERATIONS, "gtol": TOLERANCE, "ftol": 0.0}
    solution = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    inside, offsets = _split_parts(solution.x.astype(np.float32), shape)
    return scale * inside, offsets


def _split_parts(place: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    features, classes = shape
    return place[: features * classes].reshape(shape), place[features * classes :]


@dataclass(frozen=True, eq=False)
class OutOfFoldAnswers:
    """Out-of-fold answers of the heads of one kind and strength."""

    trial: Trial  # the heads' kind, space and images
    strength: float  # their inverse strength of the penalty, 0 for nearest mean
    probabilities: Floats  # float32 (N, C); a row of zeros for an image that was in no fold

    @property
    def right(self) -> NDArray[np.bool_]:
        """A mask of the images that are classified correctly, (N,)."""
        correct: NDArray[np.bool_] = self.probabilities.argmax(axis=1) == self.trial.targets
        return correct & self.probabilities.any(axis=1)

    @property
    def loss(self) -> float:
        """Mean cross entropy of the images that were in a fold."""
        known = self.probabilities.any(axis=1)
        of_truth = self.probabilities[known, self.trial.targets[known]]
        return -float(np.log(np.maximum(of_truth, 1e-7)).mean())

    def merit(self) -> tuple[float, float]:
        """Return accuracy and mean log-likelihood, to compare in this order."""
        return round(float(self.right.mean()), 6), -self.loss


@dataclass(frozen=True, eq=False)
class Trial:
    """Heads of one kind, in their space."""

    kind: str  # one of the kinds of heads
    space: Space  # of the features that they read
    inside: Floats  # the features in it, (N, D)
    constant: Floats  # what the bias is multiplied by, (N, 1)
    views: Sequence[Floats]  # features of changed copies in the space, (N, D) each
    targets: NDArray[np.int64]  # class indices, (N,)
    classes: int  # number of classes C
    width: int  # number of features F

    @classmethod
    def of(
        cls,
        features: Floats,
        targets: NDArray[np.int64],
        classes: int,
        views: Sequence[Floats],
        last: int,
        kind: str,
    ) -> Trial:
        """Find the space of a kind in the features (N, F) of a training part.

        The first ``last`` features are those of the last layer.
        """
        read = slice(None) if kind == ALL_LEVELS or not last else slice(last)
        features_read = features[:, read]
        if kind == COSINE:
            space = find_unit_space(features_read)
        else:
            space = find_space(features_read, last)
        others = [space.enter(view[:, read]) for view in views]
        inside = space.enter(features_read)
        constant = space.constant(features_read)
        return cls(kind, space, inside, constant, others, targets, classes, features.shape[1])

    def find_best(
        self, fold: NDArray[np.int64], first: Sequence[OutOfFoldAnswers] = ()
    ) -> OutOfFoldAnswers:
        """Return the best answers of any strength.

        ``first`` are those of :data:`GRID` in the first folds, if known.
        """
        trials = self.cross_validate(fold, GRID, range(FIRST_LOOK if first else 0, FOLDS))
        for place, first_answers in enumerate(first):
            # An image has zeros in the folds that it is not in: the sum has all answers.
            probabilities = trials[place].probabilities + first_answers.probabilities
            trials[place] = replace(trials[place], probabilities=probabilities)
        best = choose_strongest(trials)
        # At an end of the grid, the true best may lie beyond: only then is the grid longer.
        if best.strength == GRID[0]:
            best = choose_strongest(self.cross_validate(fold, (*STRONGER, *GRID)))
        elif best.strength == GRID[-1]:
            best = choose_strongest(self.cross_validate(fold, (*GRID, *WEAKER)))
        return best

    def cross_validate(
        self,
        fold: NDArray[np.int64],
        strengths: Sequence[float],
        held: Sequence[int] = range(FOLDS),
        asked: Floats | None = None,
    ) -> list[OutOfFoldAnswers]:
        """Return the answers of each strength on the folds ``held``.

        ``fold`` is the fold of each image. ``asked`` are other features (N, F) of the images, to
        be answered in place of those that the heads are fitted to.
        """
        from scipy.special import softmax

        inside = self.inside
        constant = self.constant
        if asked is not None:
            inside = self.space.enter(asked)
            constant = self.space.constant(asked)
        shape = (len(self.targets), self.classes)
        probabilities = {strength: np.zeros(shape, np.float32) for strength in strengths}
        for number in np.intersect1d(fold, held):
            seen = fold != number
            unseen = fold == number
            # Changed copies of an image stay in its fold.
            views = [view[seen] for view in self.views]
            fitted = fit_strengths(
                self.inside[seen], self.targets[seen], self.classes, views, strengths
            )
            for strength, (weights, bias) in fitted.items():
                logits = inside[unseen] @ weights + constant[unseen] * bias
                probabilities[strength][unseen] = softmax(logits, axis=1)
        answers = []
        for strength in strengths:
            answers.append(OutOfFoldAnswers(self, strength, probabilities[strength]))
        return answers

    def fit_strength(self, strength: float) -> tuple[Floats, Floats]:
        """Return the head of a strength on all images, (F, C) and (C,), for original features."""
        path = path_to(strength)
        fitted = fit_strengths(self.inside, self.targets, self.classes, self.views, path)
        read, bias = self.space.leave(*fitted[strength])
        weights = np.zeros((self.width, self.classes), np.float32)
        weights[: len(read)] = read
        return weights, bias


def path_to(strength: float) -> tuple[float, ...]:
    """Return the strengths that are fitted one after another up to this one."""
    grid = GRID if strength >= GRID[0] else STRONGER
    return (*(weaker for weaker in grid if weaker < strength), strength)


def choose_strongest(trials: Sequence[OutOfFoldAnswers]) -> OutOfFoldAnswers:
    """Return the answers of the strongest penalty with a loss near the least, by :data:`TIE`."""
    losses = [answers.loss for answers in trials]
    most = min(losses) + TIE
    # The grid goes from the strongest penalty to the weakest, so the first one is the strongest.
    return next(answers for answers, loss in zip(trials, losses, strict=True) if loss <= most)
