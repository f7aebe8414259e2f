"""One target in the light of its own measurements: which known target it resembles, and how it departs from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.devices.latency.base import LEVEL_VARIANCE, Base
from advisor.devices.latency.contrasts import COUNTS, Contrasts, Indices
from advisor.devices.latency.kernels import Floats, inverse
from advisor.devices.latency.table import Column

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How far a target may depart from the one that it resembles, in the logarithm, as standard deviations."""

NOISE = 0.05
DEGREES_OF_FREEDOM = 4
_KEPT = 1e-4
_SAME_KIND = 6.0
_SAME_RUNTIME = 5.0
_SAME_PRECISION = 5.0
_SAME_DEVICE = 4.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """A column's latency as a combination of other columns and of its measured models' likeness.

    Attributes:
        column: what it belongs to.
        seen: (n,) indices of the models measured on it.
        shares: (base columns,) how much it resembles each column.
        combination: (base columns,) weights of the columns' estimates.
        coefficients: (n,) weights on the covariance with the measured models.
        level: added to the combination.
        scale: the departure's standard deviation.
        contrasts: the directions in which models differ on targets such as this.
        seen_contrasts: (n, directions) the measured models in them.
        inverse: (n, n) inverse covariance of the measured values at that scale, for the variance.
        spread: standard deviation between the references' predictions, log.
    """

    column: Column
    seen: Indices
    shares: Floats
    combination: Floats
    coefficients: Floats
    level: float
    scale: float
    contrasts: Contrasts
    seen_contrasts: Floats
    inverse: Floats
    spread: float

    def of(self, estimates: Floats, counts: Floats, towards: Floats, own: Floats) -> tuple[Floats, Floats]:
        """Return means and variances (queries,) of the log latency.

        Args:
            estimates: (queries, base columns) of :class:`Base`.
            counts: (queries, COUNTS) logarithms of what the models have (:mod:`advisor.devices.latency.contrasts`).
            towards: (queries, known models) kernel.
            own: (queries,) kernel of each with itself.
        """
        mean = estimates @ self.combination + self.level
        if not len(self.seen):
            return mean, np.full(len(estimates), self.spread**2 + NOISE**2)
        contrasts = self.contrasts.coordinates(estimates, counts)
        alike = towards[:, self.seen] + contrasts @ self.seen_contrasts.T
        cover = self.scale**2 * alike + LEVEL_VARIANCE
        total = self.scale**2 * (own + np.square(contrasts).sum(axis=1)) + LEVEL_VARIANCE
        total = total - ((cover @ self.inverse) * cover).sum(axis=1)
        return mean + alike @ self.coefficients, np.maximum(total, 0.0) + NOISE**2 + self.spread**2


def condition(base: Base, column: Column, seen: Indices, values: Floats, candidates: Indices) -> Posterior:
    """Weigh every candidate reference and departure by how well it explains the measurements.

    Args:
        base: the additive model, fitted without or with the column.
        column: the target.
        seen: (n,) indices of the measured models, n >= 1.
        values: (n,) their log latencies.
        candidates: indices of the base's columns that may serve as references.
    """
    contrasts = Contrasts.of(base, column, candidates)
    seen_contrasts = contrasts.coordinates(base.filled.T[seen], base.table.features[seen, :COUNTS])
    gram = base.gram[np.ix_(seen, seen)] + seen_contrasts @ seen_contrasts.T
    residuals = values[None] - base.filled[np.ix_(candidates, seen)]
    prior = np.array([_prior(base.table.columns[i], column) for i in candidates])
    inverses = [inverse(_cover(gram, scale)) for scale in SCALES]
    logs = np.stack([prior + _evidence(residuals, precision) for precision in inverses], axis=1)
    shares = np.exp(logs - logs.max())
    shares[shares < _KEPT] = 0
    shares /= shares.sum()
    coefficients, level = np.zeros(len(seen)), 0.0
    for position, (scale, precision) in enumerate(zip(SCALES, inverses, strict=True)):
        weights = shares[:, position] @ residuals @ precision
        coefficients += scale**2 * weights
        level += LEVEL_VARIANCE * float(weights.sum())
    resemblance = np.zeros(len(base.table.columns))
    resemblance[candidates] = shares.sum(axis=1)
    scale = float(np.sqrt(shares.sum(axis=0) @ np.square(SCALES)))
    final = inverse(_cover(gram, scale))
    return Posterior(
        column, seen, resemblance, resemblance, coefficients, level, scale, contrasts, seen_contrasts, final,
        _spread(base, resemblance),
    )  # fmt: skip


def _cover(gram: Floats, scale: float) -> Floats:
    out: Floats = scale**2 * gram + LEVEL_VARIANCE + NOISE**2 * np.eye(len(gram))
    return out


def _prior(reference: Column, column: Column) -> float:
    """Log weight of a reference before the measurements are seen."""
    return (
        _SAME_KIND * (reference.kind == column.kind)
        + _SAME_PRECISION * (reference.precision == column.precision)
        + _SAME_RUNTIME * (reference.runtime == column.runtime)
        + _SAME_DEVICE * (reference.device == column.device and reference.kind == column.kind)
    )


def _evidence(residuals: Floats, precision: Floats) -> Floats:
    """Log evidence (candidates,) of residuals (candidates, n) under a Student t of that inverse covariance.

    Heavier tails than a normal's, so that one strange run does not decide what the target resembles.
    """
    squares = ((residuals @ precision) * residuals).sum(axis=1)
    n = residuals.shape[1]
    _, log_determinant = np.linalg.slogdet(precision)
    tail = np.log1p(squares / DEGREES_OF_FREEDOM)
    out: Floats = 0.5 * log_determinant - 0.5 * (DEGREES_OF_FREEDOM + n) * tail
    return out


def _spread(base: Base, shares: Floats) -> float:
    """Return how far the references' shapes lie apart, weighted by their shares."""
    kept = np.flatnonzero(shares)
    shapes = base.filled[kept] - base.filled[kept].mean(axis=1, keepdims=True)
    departure = shapes - shares[kept] @ shapes
    return float(np.sqrt((shares[kept] @ np.square(departure)).mean()))
