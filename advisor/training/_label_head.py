"""Fit a head with a score for each of several labels: a logistic regression for each label.

The task ``tagging`` calls :func:`fit_label_head` on the features of a backbone, and fine-tuning
starts from :func:`fit_logits`. The kind of features and one penalty for all labels are chosen by
cross-validation that holds whole groups out. Labels of which nothing is known in an image do not
count there. Scores are shifted so that one half is the threshold of each label: the score from
which on a product shows it.

Levels are read if their mAP is at least that of the last layer in the folds. To ask for 2.5 points
more spared cards noise in early draws. On two four-fold divisions of training and validation
images with MobileNetV2 and EfficientNet-Lite0, levels without such a margin gain 1.0 and 0.7
points of mAP on playing cards, 1.5 and 2.1 on blood cells, and nothing on pasted waste, where both
rules take them. Six divisions with four other networks judged: 0.5, 1.9 and 0.1 more. On the
official test parts, with all six networks, it is 1.2 more on blood cells (-1.5 to 2.3) and 0.1
less on cards (-2.0 to 0.8).

The strongest penalties lower the loss of logits that are calibrated later anyway: without them it
is 0.4 more on cards and on waste 0.7, on blood cells 0.4 less. One penalty for all labels ranks as
well as one for each, the weights of rare labels matter little, and the shift keeps the order.

The largest score over the places of two maps is added, with as much spread as the logits of the
head (`_places.py`). EfficientNet-Lite0 and MobileNetV2 chose it on four draws: 5 points of mAP
more on blood cells, 12 on cards. MobileNetV1 0.25 judged it on four other draws: 3.3 more on blood
cells, 6.1 on cards, 0.6 on faults of tiles. With two to six labels it takes 3 CPU seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import BoxGuarantee, Guarantees
from advisor.datasets import deal_out
from advisor.measurement import label_precision, label_thresholds
from advisor.training._head.space import find_space
from advisor.training._place_maps import PlaceKernel, with_places
from advisor.training._places import (
    PlaceMap,
    find_shift,
    fit_kernel,
    make_kernel,
    read_places,
    write_places,
)

__all__ = [
    "LabelHead",
    "PlaceKernel",
    "PlaceMap",
    "fit_label_head",
    "fit_logits",
    "read_places",
    "weigh_images",
    "with_places",
    "write_places",
]

Floats = NDArray[np.float32]
Truth = NDArray[np.int8]

FOLDS = 5
# Inverse strengths of the L2 penalty, the strongest first. Stronger ones spoil the order on two of
# three sets.
GRID = (0.004, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Power of the ratio of images without a label to those with it, which weighs the latter.
WEIGHTING = 0.5
# Inverse strength of the penalty of kernels on places.
PLACES_STRENGTH = 0.3
LEAST_DEVIATION = 1e-3
# Folds of kernels: they join those of the head, and two of five hold 40 % of the images.
PLACES_FOLDS = 3
MOST_STEPS = 100
TOLERANCE = 1e-3
# P (1 - p) of a usual score. It scales the steps and does not change the optimum.
CURVATURE = 0.15


@dataclass(frozen=True, eq=False)
class LabelHead:
    """Weights (F, C) and bias (C,) of the logits of each label; a logit of 0 is the threshold.

    With kernels, the last features are the largest scores of each of them, (C,).
    """

    weights: Floats
    bias: Floats
    # What the threshold of each label keeps; None for no wish.
    guarantees: tuple[BoxGuarantee | None, ...] = ()
    # Of the maps of places, which come before the head in the file; empty if it reads none.
    kernels: tuple[PlaceKernel, ...] = ()


@dataclass(frozen=True, eq=False)
class _Trial:
    """The out-of-fold logits of one kind of features at the best penalty, (N, C)."""

    width: int  # features that are read, from the first one on
    strength: float
    logits: Floats

    def precision_of(self, truth: Truth) -> float:
        """Return the mean average precision of the logits."""
        return label_precision.mean_precision(truth, self.logits)


def fit_label_head(
    features: Floats,
    truth: Truth,
    groups: Sequence[int],
    hashes: Sequence[str],
    seed: int,
    last: int = 0,
    wishes: Sequence[Guarantees] = (),
    batch: float = 0.0,
    places: Sequence[PlaceMap] = (),
) -> LabelHead:
    """Fit a head to features (N, F) and labels (N, C): 1, 0, or -1 where nothing is known.

    The first ``last`` features are those of the last layer; 0 for one kind of features alone.
    Images of one number in ``groups`` stay in one fold, unless there are fewer groups than
    folds. ``wishes`` are what is asked of the threshold of each label, for ``batch`` times as
    many new images. ``places`` are the maps of places of the same images, if there are any.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    # Photographs of one long series are one group: a fold with all of them leaves none to learn
    # from.
    units = groups if len(set(groups)) >= FOLDS else range(len(truth))
    fold = deal_out(truth, units, hashes, [1 / FOLDS] * FOLDS, seed)
    with threadpool_limits(limits=1):
        best = _cross_validate(features, truth, fold, last or features.shape[1], last)
        if last and last < features.shape[1]:
            all_levels = _cross_validate(features, truth, fold, features.shape[1], last)
            # A gain that noise may explain counts too: levels cost a few means, and on small
            # things they gain more than the folds show.
            best = max(best, all_levels, key=lambda trial: trial.precision_of(truth))
        added = _add_places(places, truth, fold, best.logits)
    read, bias = fit_logits(features[:, : best.width], truth, last, best.strength)
    chosen = label_thresholds.choose_thresholds(added.logits, truth, groups, wishes, batch)
    weights = np.zeros((features.shape[1], truth.shape[1]), np.float32)
    weights[: best.width] = read
    # The largest score of a label tells about this label alone.
    of_places = [np.diag(factor) for factor in added.factors]
    weights = np.concatenate([weights, *of_places]) * chosen.slope
    shifted_bias = (bias + added.bias) * chosen.slope + chosen.shift
    return LabelHead(
        weights.astype(np.float32),
        shifted_bias.astype(np.float32),
        chosen.guarantees,
        added.kernels,
    )


@dataclass(frozen=True, eq=False)
class _AddedPlaces:
    """The part of the logits of a head that scores of places make."""

    logits: Floats  # out-of-fold logits of head and places, (N, C)
    bias: Floats  # what the head's bias changes by, (C,)
    factors: tuple[Floats, ...] = ()  # of the features of each kernel, (C,)
    kernels: tuple[PlaceKernel, ...] = ()


def _add_places(
    places: Sequence[PlaceMap], truth: Truth, fold: NDArray[np.int64], logits: Floats
) -> _AddedPlaces:
    """Fit a kernel to each map, and add its scores to out-of-fold logits of a head (N, C).

    All together spread over the images as the logits of the head do. They are left out if the
    order of the images is worse with them.
    """
    weight = weigh_images(truth)
    weight /= np.maximum(weight.mean(axis=0), 1e-6)
    wanted = truth == 1
    spread = logits.std(axis=0)
    bias = np.zeros_like(spread)
    factors = []
    kernels = []
    total = logits
    for place_map in places:
        rows = place_map.rows
        scores = np.zeros_like(logits)
        for number in range(PLACES_FOLDS):
            seen = fold % PLACES_FOLDS != number
            weight_seen = weight[seen]
            kernel = fit_kernel(rows[seen], wanted[seen], weight_seen, PLACES_STRENGTH)
            # Images that it did not learn from say how far its scores spread.
            others = rows[~seen]
            scores[~seen] = kernel.score_images(others)
        # A kernel that has learnt nothing gives all images one score.
        deviation = scores.std(axis=0)
        factor = np.where(deviation > LEAST_DEVIATION, spread / np.maximum(deviation, 1e-9), 0.0)
        factor = (factor / len(places)).astype(np.float32)
        total = total + scores * factor
        kernel = fit_kernel(rows, wanted, weight, PLACES_STRENGTH)
        learnt = kernel.score_images(rows)
        # The kernel of the file gives scores that are higher by this.
        bias -= find_shift(learnt) * factor
        factors.append(factor)
        kernels.append(make_kernel(place_map, kernel, learnt))
    precision = label_precision.mean_precision(truth, total)
    if not kernels or precision < label_precision.mean_precision(truth, logits):
        return _AddedPlaces(logits, np.zeros_like(spread))
    return _AddedPlaces(total, bias, tuple(factors), tuple(kernels))


def fit_logits(
    features: Floats, truth: Truth, last: int, strength: float
) -> tuple[Floats, Floats]:
    """Return weights (F, C) and bias (C,) of a head at an inverse strength of the penalty.

    See :func:`fit_label_head`. Its logits are not calibrated.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    with threadpool_limits(limits=1):
        space = find_space(features, last)
        fitted = _fit_strengths(space.enter(features), truth, [strength])
    return space.leave(*fitted[strength])


def _cross_validate(
    features: Floats,
    truth: Truth,
    fold: NDArray[np.int64],
    width: int,
    last: int,
) -> _Trial:
    """Return the out-of-fold logits of the penalty with the least mean loss over the labels."""
    inside = find_space(features[:, :width], last).enter(features[:, :width])
    logits = np.zeros((len(GRID), *truth.shape), np.float32)
    for number in range(FOLDS):
        seen = fold != number
        fitted = _fit_strengths(inside[seen], truth[seen], GRID)
        for place, (weights, bias) in enumerate(fitted.values()):
            logits[place, ~seen] = inside[~seen] @ weights + bias
    weight = weigh_images(truth)
    total = np.maximum(weight.sum(axis=0), 1e-6)
    losses = []
    for rows in logits:
        loss_of_labels = (_compute_losses(rows, truth) * weight).sum(axis=0) / total
        losses.append(float(loss_of_labels.mean()))
    best = int(np.argmin(losses))
    return _Trial(width, GRID[best], logits[best])


def weigh_images(truth: Truth) -> Floats:
    """Return the weight of each image for each label, (N, C).

    It is more where a rare label is there, and 0 where nothing is known.
    """
    there, lacking = ((truth == value).sum(axis=0) for value in (1, 0))
    weight = (np.maximum(lacking, 1) / np.maximum(there, 1)) ** WEIGHTING
    return np.asarray(np.where(truth == 1, np.maximum(weight, 1.0), truth == 0), np.float32)


def _compute_losses(logits: Floats, truth: Truth) -> Floats:
    """Return the cross entropy of each label, (N, C)."""
    signs = np.where(truth == 1, 1.0, -1.0)
    return np.asarray(np.logaddexp(0.0, -signs * logits), np.float32)


def _fit_strengths(
    inside: Floats, truth: Truth, strengths: Sequence[float]
) -> Mapping[float, tuple[Floats, Floats]]:
    """Return weights (D, C) and bias (C,) of each strength, each begun from the one before."""
    weights = np.zeros((inside.shape[1], truth.shape[1]), np.float32)
    bias = np.zeros(truth.shape[1], np.float32)
    squares = np.einsum("nd,nd->d", inside, inside) / len(inside)
    fitted = {}
    for strength in strengths:
        penalty = 1.0 / (strength * len(inside))
        weights, bias = _minimise_loss(inside, truth, penalty, squares, weights, bias)
        fitted[strength] = (weights, bias)
    return fitted


def _minimise_loss(
    inside: Floats,
    truth: Truth,
    penalty: float,
    squares: Floats,
    weights: Floats,
    bias: Floats,
) -> tuple[Floats, Floats]:
    """Minimise the mean weighted cross entropy and the penalty, for all labels in one go."""
    from scipy.optimize import minimize
    from scipy.special import expit

    weight = weigh_images(truth)
    weight /= np.maximum(weight.mean(axis=0), 1e-6)
    wanted = (truth == 1).astype(np.float32)
    scale = (1.0 / np.sqrt(CURVATURE * squares + penalty)).astype(np.float32)[:, None]
    shape = weights.shape
    split = shape[0] * shape[1]

    def loss_and_gradient(place: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        values = place.astype(np.float32)
        kernel = scale * values[:split].reshape(shape)
        logits = inside @ kernel + values[split:]
        loss = float((_compute_losses(logits, truth) * weight).sum(dtype=np.float64)) / len(truth)
        apart = (expit(logits) - wanted) * weight / len(truth)
        gradient = scale * (inside.T @ apart + penalty * kernel)
        loss += 0.5 * penalty * float(np.square(kernel).sum(dtype=np.float64))
        return loss, np.concatenate([gradient.ravel(), apart.sum(axis=0)]).astype(np.float64)

    start = np.concatenate([(weights / scale).ravel(), bias]).astype(np.float64)
    options: Any = {"maxiter": MOST_STEPS, "gtol": TOLERANCE, "ftol": 0.0}
    solution = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    values = solution.x.astype(np.float32)
    return scale * values[:split].reshape(shape), values[split:]
