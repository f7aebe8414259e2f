"""Say how alike two models are by their features: the covariance of their latencies.

The additive model of all targets is fitted with this kernel (``base.py``), and extends to new
models by it. The functions at the end solve its systems of equations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LINEAR_SHARE = 0.5
RADIAL_SHARE = 0.25
FAMILY_SHARE = 0.25
RADIUS = 1.3  # Radius of the radial part, in standard deviations of a feature
# Distance in log MACs over which two models of a family are similar beyond their features.
FAMILY_RADIUS = 2.5


@dataclass(frozen=True, eq=False)
class Points:
    """Models in the space of their features."""

    features: Floats  # (models, features) standardised, zero if unknown
    known: NDArray[np.bool_]  # (models,) True if the features are known
    families: NDArray[np.intp]  # (models,) code of the family, -1 for an unknown family
    log_macs: Floats  # (models,) natural logarithm of the MACs, 0 if unknown


class ModelSpace:
    """The known models, with features in standard deviations of theirs.

    Attributes:
        codes: code of every family.
        points: the known models.
    """

    def __init__(self, features: Floats, families: Sequence[str]) -> None:
        known = features[~np.isnan(features).any(axis=1)]
        self._centre = known.mean(axis=0)
        self._scale = np.maximum(known.std(axis=0), 1e-3)
        self.codes = {family: code for code, family in enumerate(sorted(set(families)))}
        self.points = self.points_of(features, families)

    def points_of(self, features: Floats, families: Sequence[str]) -> Points:
        """Return models (models, features) as points;
        rows with NaN are models with unknown features.
        """
        known: NDArray[np.bool_] = np.logical_not(np.isnan(features).any(axis=1))
        return Points(
            np.where(known[:, None], (features - self._centre) / self._scale, 0.0),
            known,
            np.array([self.codes.get(family, -1) for family in families], dtype=np.intp),
            np.where(known, features[:, 0], 0.0),
        )

    def within(self) -> Floats:
        """Return the kernel matrix (models, models) of the known models."""
        gram = compute_kernel(self.points, self.points)
        alone = ~self.points.known
        gram[alone, alone] = 1.0
        return gram

    def towards(self, points: Points) -> Floats:
        """Return the kernel matrix (queries, models) of new models and the known ones."""
        return compute_kernel(points, self.points)


def compute_kernel(left: Points, right: Points) -> Floats:
    """Return the covariance (n, m) at unit scale.

    A linear part, so that trends extrapolate, a radial part for similarity, and a part for what a
    family has in common beyond its features. A model with unknown features is similar to itself
    only.
    """
    size = left.features.shape[1]
    products = left.features @ right.features.T / size
    lengths = np.square(left.features).sum(1)[:, None] + np.square(right.features).sum(1)[None]
    radial = np.exp(-np.maximum(lengths / size - 2 * products, 0) / (2 * RADIUS**2))
    same = (left.families[:, None] == right.families[None]) & (left.families[:, None] >= 0)
    apart = left.log_macs[:, None] - right.log_macs[None]
    family = same * np.exp(-np.square(apart) / (2 * FAMILY_RADIUS**2))
    out: Floats = LINEAR_SHARE * products + RADIAL_SHARE * radial + FAMILY_SHARE * family
    out *= left.known[:, None] & right.known[None]
    return out


def self_covariance(points: Points) -> Floats:
    """Return each model's covariance (n,) with itself."""
    lengths = np.square(points.features).mean(axis=1)
    return np.asarray(LINEAR_SHARE * lengths + RADIAL_SHARE + FAMILY_SHARE)


def solve_system(matrix: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive-definite system; a small value is added to the diagonal."""
    return np.asarray(
        np.linalg.solve(matrix + 1e-9 * np.eye(len(matrix)), right), dtype=np.float64
    )


def invert_matrix(matrix: Floats) -> Floats:
    """Invert a symmetric positive-definite matrix."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
