"""Fit linear heads for given penalties: logistic regression, and nearest means for classes of few images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.training.head.logistic import CLOSELY, fit_path

Fitted = tuple[NDArray[np.float32], NDArray[np.float32]]

ABSENT = -30.0
"""Bias of a class without an image, so that it is never predicted."""


def fit(
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    views: Sequence[NDArray[np.float32]],
    strengths: Sequence[float],
    tolerance: float = CLOSELY,
) -> dict[float, Fitted]:
    """Fit a head for every strength, from strong to weak penalty.

    Args:
        features: float32, shape (N, D), standardised.
        targets: N class indices.
        classes: number of classes C.
        views: features (N, D) of changed copies of the same images.
        strengths: inverse strengths of the penalty; 0 for the nearest-mean head.
        tolerance: see :mod:`advisor.training.head.logistic`.

    Returns:
        weights (D, C) and bias (C,), float32, by strength.
    """
    stacked = np.concatenate([features, *views]) if views else features
    repeated = np.tile(targets, 1 + len(views))
    fitted = {}
    if 0.0 in strengths:
        fitted[0.0] = _nearest_mean(stacked, repeated, classes)
    penalised = [strength for strength in strengths if strength > 0]
    return fitted | _logistic(stacked, repeated, classes, penalised, tolerance)


def _logistic(
    standard: NDArray[np.float32],
    targets: NDArray[np.int64],
    classes: int,
    strengths: Sequence[float],
    tolerance: float,
) -> dict[float, Fitted]:
    """Fit from strong to weak penalty; a class without an image, as in a fold, is never predicted."""
    present = np.unique(targets)
    if len(present) == 1:
        nothing = np.zeros((standard.shape[1], 1), np.float32)
        return dict.fromkeys(strengths, _all_classes(nothing, np.zeros(1, np.float32), present, classes))
    fitted = fit_path(standard, np.searchsorted(present, targets), len(present), strengths, tolerance)
    return {strength: _all_classes(*found, present, classes) for strength, found in fitted.items()}


def _all_classes(
    some: NDArray[np.float32], offsets: NDArray[np.float32], present: NDArray[np.int64], classes: int
) -> Fitted:
    """Return a head with one column for each class from one of the classes present, (D, P) and (P,)."""
    weights = np.zeros((len(some), classes), np.float32)
    bias = np.full(classes, ABSENT, np.float32)
    weights[:, present] = some
    bias[present] = offsets
    return weights, bias


def _nearest_mean(standard: NDArray[np.float32], targets: NDArray[np.int64], classes: int) -> Fitted:
    """Return the head whose logit is minus half the squared distance to the class's mean, over the mean distance."""
    present = np.unique(targets)
    means = np.stack([standard[targets == label].mean(axis=0) for label in present])
    spread = float(np.square(standard - means[np.searchsorted(present, targets)]).sum(axis=1).mean())
    temperature = max(spread, 1e-6) / standard.shape[1] ** 0.5
    return _all_classes((means / temperature).T, -np.square(means).sum(axis=1) / (2 * temperature), present, classes)
