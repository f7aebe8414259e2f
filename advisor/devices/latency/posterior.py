"""Infer from a target's measurements which known targets it resembles, and how it deviates from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices.latency.base import LEVEL_VARIANCE, Base
from advisor.devices.latency.contrasts import COUNTS, Contrasts, Indices
from advisor.devices.latency.kernels import Floats, inverse
from advisor.devices.latency.placement import place
from advisor.devices.latency.references import reference_of
from advisor.devices.latency.table import Column

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations (log) by which a target may deviate from the one that it resembles."""

NOISE = 0.05
DEGREES_OF_FREEDOM = 4
_KEPT = 1e-4
_SAME_KIND = 6.0
_SAME_RUNTIME = 5.0
_SAME_PRECISION = 5.0
_SAME_DEVICE = 4.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """A column's latencies as a combination of other columns and of its measured models.

    Attributes:
        column: the target.
        seen: (n,) indices of the models measured on it.
        shares: (base columns,) how much it resembles each column.
        combination: (base columns,) weights of the columns' estimates.
        coefficients: (n,) weights of the covariances with the measured models.
        level: constant added to the combination.
        scale: standard deviation of the deviation from the combination.
        contrasts: the directions in which models differ on targets like this one.
        seen_contrasts: (n, directions) coordinates of the measured models.
        inverse: (n, n) inverse covariance of the measured values at that scale.
        spread: standard deviation (log) between the predictions of the resembled columns.
        reference: how comparable the known columns are (:func:`advisor.devices.latency.references.reference_of`).
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
    reference: str

    def predict(self, estimates: Floats, counts: Floats, towards: Floats, itself: Floats) -> tuple[Floats, Floats]:
        """Return means and variances (queries,) of the log latency.

        Args:
            estimates: (queries, base columns) of :class:`Base`.
            counts: (queries, COUNTS) logarithms of the counts (:data:`advisor.devices.latency.contrasts.COUNTS`).
            towards: (queries, known models) kernel.
            itself: (queries,) kernel of each model with itself.
        """
        mean = estimates @ self.combination + self.level
        if not len(self.seen):
            return mean, np.full(len(estimates), self.spread**2 + NOISE**2)
        contrasts = self.contrasts.coordinates(estimates, counts)
        alike = towards[:, self.seen] + contrasts @ self.seen_contrasts.T
        cover = self.scale**2 * alike + LEVEL_VARIANCE
        total = self.scale**2 * (itself + np.square(contrasts).sum(axis=1)) + LEVEL_VARIANCE
        total = total - ((cover @ self.inverse) * cover).sum(axis=1)
        return mean + alike @ self.coefficients, np.maximum(total, 0.0) + NOISE**2 + self.spread**2


def posterior_of(
    base: Base, column: Column, seen: Indices, values: Floats, *, excluded: Sequence[int] = ()
) -> Posterior:
    """Return the posterior of a target from its measurements; without any, from its processor and similar targets.

    Args:
        base: the additive model, fitted without or with the column.
        column: the target.
        seen: (n,) indices of the models measured on it.
        values: (n,) their log latencies.
        excluded: columns of the base that cannot be references (the target itself).
    """
    candidates = np.setdiff1d(np.arange(len(base.table.columns)), np.asarray(excluded, dtype=np.intp))
    if not len(seen):
        return _unmeasured(base, column, candidates)
    return _condition(base, column, seen, values, candidates)


def _condition(base: Base, column: Column, seen: Indices, values: Floats, candidates: Indices) -> Posterior:
    """Return a target's posterior: every reference and deviation is weighted by how well it explains the measurements.

    ``candidates`` are the indices of the base's columns that can be references.
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
        _spread(base, resemblance), _reference(base, column, candidates),
    )  # fmt: skip


def _cover(gram: Floats, scale: float) -> Floats:
    out: Floats = scale**2 * gram + LEVEL_VARIANCE + NOISE**2 * np.eye(len(gram))
    return out


def _prior(reference: Column, column: Column) -> float:
    """Return the log weight of a reference before any measurement."""
    return (
        _SAME_KIND * (reference.kind == column.kind)
        + _SAME_PRECISION * (reference.precision == column.precision)
        + _SAME_RUNTIME * (reference.runtime == column.runtime)
        + _SAME_DEVICE * (reference.device == column.device and reference.kind == column.kind)
    )


def _evidence(residuals: Floats, precision: Floats) -> Floats:
    """Return the log evidence (candidates,) of residuals (candidates, n) under a Student t distribution.

    Its tails are heavier than those of a normal distribution, so that one outlier does not decide the resemblance.
    """
    squares = ((residuals @ precision) * residuals).sum(axis=1)
    n = residuals.shape[1]
    _, log_determinant = np.linalg.slogdet(precision)
    tail = np.log1p(squares / DEGREES_OF_FREEDOM)
    out: Floats = 0.5 * log_determinant - 0.5 * (DEGREES_OF_FREEDOM + n) * tail
    return out


def _spread(base: Base, shares: Floats) -> float:
    """Return the standard deviation between the references' shapes, weighted by their shares."""
    used = np.flatnonzero(shares)
    shapes = base.filled[used] - base.filled[used].mean(axis=1, keepdims=True)
    departure = shapes - shares[used] @ shapes
    return float(np.sqrt((shares[used] @ np.square(departure)).mean()))


def _unmeasured(base: Base, column: Column, candidates: Indices) -> Posterior:
    """Return the posterior of a target without measurements: its place among the measured ones."""
    combination, spread = place(base, column, candidates)
    none = np.array([], dtype=np.intp)
    empty = np.zeros((0, 0))
    return Posterior(
        column, none, np.abs(combination) / max(np.abs(combination).sum(), 1e-9), combination, np.zeros(0), 0.0, 0.0,
        Contrasts(none, np.zeros(0), np.zeros(0), np.ones(0)), empty, empty, max(spread, 0.1),
        _reference(base, column, candidates),
    )  # fmt: skip


def _reference(base: Base, column: Column, candidates: Indices) -> str:
    return reference_of(column, (base.table.columns[i] for i in candidates))
