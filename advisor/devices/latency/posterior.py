"""Infer from a target's measurements which known targets it resembles, and how it deviates from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices.latency.base import LEVEL_VARIANCE, Base
from advisor.devices.latency.contrasts import COUNTS, Contrasts, Indices
from advisor.devices.latency.kernels import Floats, inverse
from advisor.devices.latency.outliers import agreeing, student
from advisor.devices.latency.placement import place
from advisor.devices.latency.references import other_release, reference_of
from advisor.devices.latency.releases import with_releases
from advisor.devices.latency.table import Column

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations (log) by which a target may deviate from the one that it resembles."""

NOISE = 0.05
LEAST_SPREAD = 0.05
DOUBTED_VARIANCE = 4.0
"""Variance (log) of a measurement that is wrong."""

_KEPT = 1e-4
_SAME_KIND = 6.0
_SAME_RUNTIME = 5.0
_SAME_PRECISION = 5.0
_SAME_DEVICE = 4.0
_OTHER_RELEASE = 5.0
"""Log weights of references before any measurement."""


@dataclass(frozen=True, eq=False)
class LatencyPosterior:
    """A column's latencies as a combination of other columns and of its measured models.

    Attributes:
        base: the additive model, with the target's other releases as they would be at its release.
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
        doubts: (n,) probability that each measurement is wrong (:func:`advisor.devices.latency.outliers.agreeing`).
    """

    base: Base
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
    doubts: Floats

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
) -> LatencyPosterior:
    """Return the posterior of a target from its measurements; without any, from its processor and similar targets.

    Args:
        base: the additive model, fitted without or with the column.
        column: the target.
        seen: (n,) indices of the models measured on it.
        values: (n,) their log latencies.
        excluded: columns of the base that cannot be references (the target itself).
    """
    candidates = np.setdiff1d(np.arange(len(base.table.columns)), np.asarray(excluded, dtype=np.intp))
    wider, spreads = with_releases(base, column, candidates)
    if not len(seen):
        return _unmeasured(wider, column, candidates, spreads)
    return _condition(wider, column, seen, values, candidates, len(spreads))


def _condition(
    base: Base, column: Column, seen: Indices, values: Floats, candidates: Indices, releases: int
) -> LatencyPosterior:
    """Return a target's posterior: every reference and deviation is weighted by how well it explains the measurements.

    ``candidates`` are the indices of the measured columns that can be references; ``releases`` columns follow.
    """
    contrasts, reference = Contrasts.of(base, column, candidates), _reference(base, column, candidates, releases)
    candidates = np.append(candidates, np.arange(len(base.table.columns) - releases, len(base.table.columns)))
    seen_contrasts = contrasts.coordinates(base.filled.T[seen], base.table.features[seen, :COUNTS])
    gram = base.gram[np.ix_(seen, seen)] + seen_contrasts @ seen_contrasts.T
    residuals = values[None] - base.filled[np.ix_(candidates, seen)]
    prior = np.array([_prior(base.table.columns[i], column) for i in candidates])
    coefficients, level = np.zeros(len(seen)), 0.0
    shares, doubts = np.zeros((len(candidates), len(SCALES))), np.ones(len(seen))
    for weight, kept in agreeing(prior, residuals, [_cover(gram, scale) for scale in SCALES]):
        inverses = [inverse(_cover(gram[np.ix_(kept, kept)], scale)) for scale in SCALES]
        found = _shares(prior, residuals[:, kept], inverses)
        shares += weight * found
        doubts[kept] -= weight
        for position, (scale, precision) in enumerate(zip(SCALES, inverses, strict=True)):
            weights = weight * found[:, position] @ residuals[:, kept] @ precision
            coefficients[kept] += scale**2 * weights
            level += LEVEL_VARIANCE * float(weights.sum())
    resemblance = np.zeros(len(base.table.columns))
    resemblance[candidates] = shares.sum(axis=1)
    scale = float(np.sqrt(shares.sum(axis=0) @ np.square(SCALES)))
    doubted = np.diag(DOUBTED_VARIANCE * np.maximum(doubts, 0.0))
    final = inverse(_cover(gram, scale) + doubted)
    return LatencyPosterior(
        base, column, seen, resemblance, resemblance, coefficients, level, scale, contrasts, seen_contrasts, final,
        _spread(base, resemblance), reference, np.maximum(doubts, 0.0),
    )  # fmt: skip


def _shares(prior: Floats, residuals: Floats, inverses: Sequence[Floats]) -> Floats:
    """Return the posterior probability (candidates, scales) of each reference and deviation."""
    logs = np.stack([prior + _evidence(residuals, precision) for precision in inverses], axis=1)
    shares: Floats = np.exp(logs - logs.max())
    shares[shares < _KEPT] = 0
    shares /= shares.sum()
    return shares


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
        - _OTHER_RELEASE * (reference.runtime == column.runtime and other_release(reference, column))
    )


def _evidence(residuals: Floats, precision: Floats) -> Floats:
    """Return the log evidence (candidates,) of residuals (candidates, n), see :func:`student`."""
    squares = ((residuals @ precision) * residuals).sum(axis=1)
    return student(squares, float(np.linalg.slogdet(precision)[1]), residuals.shape[1])


def _spread(base: Base, shares: Floats) -> float:
    """Return the standard deviation between the references' shapes, weighted by their shares."""
    used = np.flatnonzero(shares)
    shapes = base.filled[used] - base.filled[used].mean(axis=1, keepdims=True)
    departure = shapes - shares[used] @ shapes
    return float(np.sqrt((shares[used] @ np.square(departure)).mean()))


def _unmeasured(base: Base, column: Column, candidates: Indices, releases: Sequence[float]) -> LatencyPosterior:
    """Return the posterior of a target without measurements: another release on it, or its place among the others.

    ``releases`` are the deviations of the other releases' levels, the last columns of the base.
    """
    if releases:
        combination, spread = np.zeros(len(base.table.columns)), min(releases)
        combination[len(base.table.columns) - len(releases) + releases.index(spread)] = 1.0
    else:
        combination, spread = place(base, column, candidates)
    none = np.array([], dtype=np.intp)
    empty = np.zeros((0, 0))
    return LatencyPosterior(
        base, column, none, np.abs(combination) / max(np.abs(combination).sum(), 1e-9), combination, np.zeros(0), 0.0,
        0.0, Contrasts(none, np.zeros(0), np.zeros(0), np.ones(0)), empty, empty, max(spread, LEAST_SPREAD),
        _reference(base, column, candidates, len(releases)), np.zeros(0),
    )  # fmt: skip


def _reference(base: Base, column: Column, candidates: Indices, releases: int) -> str:
    found = reference_of(column, (base.table.columns[i] for i in candidates))
    return "release" if releases and found == "same" else found
