"""Fit linear heads for given penalties: logistic regression, and nearest means for classes of few images.

The regression is fitted by L-BFGS in scaled coordinates. The penalised likelihood has a curvature of about
``p (1 - p) mean(x^2) + penalty`` along each feature. It spans orders of magnitude between principal directions. Each
coordinate is divided by the root of its curvature, so that all need steps of similar size. On TrashNet this takes a
third of the time of scikit-learn's solver at equal closeness to the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Fitted = tuple[Floats, Floats]

TOLERANCE = 1e-3
"""Largest gradient, in scaled coordinates, at the end of a fit. A smaller one costs time and generalises worse: a head
that was fitted to one visit of a shop lost one to two points on another (MobileNetV2, 1e-4)."""

_MAX_ITERATIONS = 200
_TYPICAL_CURVATURE = 0.15
"""p (1 - p) of a class among a few. It scales the steps and does not change the optimum."""

ABSENT = -30.0
"""Bias of a class without an image, so that it is never predicted."""


def fit(
    features: Floats,
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[Floats],
    strengths: Sequence[float],
) -> dict[float, Fitted]:
    """Fit a head for every strength, from strong to weak penalty.

    Args:
        features: float32, shape (N, D), centred and scaled.
        targets: N class indices.
        classes: number of classes C.
        views: features (N, D) of changed copies of the same images.
        strengths: inverse strengths of the penalty, ascending; 0 for nearest mean. Each fit starts from the one
            before and ends early, so the weak penalties depend on those before them.

    Returns:
        weights (D, C) and bias (C,), float32, by strength.
    """
    stacked = np.concatenate([features, *views]) if views else features
    repeated = np.tile(targets, 1 + len(views))
    fitted = {}
    if 0.0 in strengths:
        fitted[0.0] = _nearest_mean(stacked, repeated, classes)
    penalised = [strength for strength in strengths if strength > 0]
    return fitted | _logistic(stacked, repeated, classes, penalised)


def _logistic(
    standard: Floats, targets: NDArray[np.int64], classes: int, strengths: Sequence[float]
) -> dict[float, Fitted]:
    """Minimise ``C * sum(cross entropy) + |weights|^2 / 2`` for every strength ``C``, from strong to weak penalty.

    Each fit starts from the result of the one before. A class without an image, as in a fold, is never predicted.
    """
    present = np.unique(targets)
    some = np.searchsorted(present, targets)
    weights, bias = np.zeros((standard.shape[1], len(present)), np.float32), np.zeros(len(present), np.float32)
    squares = np.einsum("nd,nd->d", standard, standard) / len(standard)
    fitted = {}
    for strength in strengths:
        if len(present) > 1:
            penalty = 1.0 / (strength * len(standard))
            weights, bias = _minimise(standard, some, penalty, squares, weights, bias)
        fitted[strength] = _all_classes(weights, bias, present, classes)
    return fitted


def _all_classes(some: Floats, offsets: Floats, present: NDArray[np.int64], classes: int) -> Fitted:
    """Return a head with one column for each class from one of the classes present, (D, P) and (P,)."""
    weights = np.zeros((len(some), classes), np.float32)
    bias = np.full(classes, ABSENT, np.float32)
    weights[:, present] = some
    bias[present] = offsets
    return weights, bias


def _nearest_mean(standard: Floats, targets: NDArray[np.int64], classes: int) -> Fitted:
    """Return the head whose logit is minus half the squared distance to the class's mean, over the mean distance."""
    present = np.unique(targets)
    means = np.stack([standard[targets == label].mean(axis=0) for label in present])
    spread = float(np.square(standard - means[np.searchsorted(present, targets)]).sum(axis=1).mean())
    temperature = max(spread, 1e-6) / max(standard.shape[1], 1) ** 0.5  # there is no direction if no feature varies
    return _all_classes((means / temperature).T, -np.square(means).sum(axis=1) / (2 * temperature), present, classes)


def _minimise(
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
    rows, shape = np.arange(len(targets)), weights.shape

    def loss_and_gradient(place: Doubles) -> tuple[float, Doubles]:
        inside, offsets = _parts(place.astype(np.float32), shape)
        weights = scale * inside
        logits = features @ weights + offsets
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
    found = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x.astype(np.float32)
    inside, offsets = _parts(found, shape)
    return scale * inside, offsets


def _parts(place: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    features, classes = shape
    return place[: features * classes].reshape(shape), place[features * classes :]
