"""One target in the light of its own measurements: which known target it resembles, and how it departs from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.base import LEVEL_VARIANCE, Base
from advisor.devices.latency.kernels import Floats, inverse
from advisor.devices.latency.table import Column

Indices = NDArray[np.intp]

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How far a target may depart from the one that it resembles, in the logarithm, as standard deviations."""

NOISE = 0.05
DEGREES_OF_FREEDOM = 4
PECULIARITY = 5.0
"""Weight of how columns were seen to differ from each other, against how models' features say that they may."""

_KEPT = 1e-4
_SAME_KIND = 6.0
_SAME_RUNTIME = 5.0
_SAME_PRECISION = 5.0
_SAME_DEVICE = 4.0
_MEASURED_ENOUGH = 8
_PEERS = 4


@dataclass(frozen=True, eq=False)
class Posterior:
    """A column's latency as a combination of other columns and of its measured models' likeness.

    Attributes:
        column: what it belongs to.
        seen: (n,) indices of the models measured on it.
        shares: (base columns,) how much it resembles each column.
        combination: (base columns,) weights of the columns' estimates.
        coefficients: (n,) weights on the kernel towards the measured models.
        level: added to the combination.
        scale: the departure's standard deviation.
        peers: (p,) indices of the columns whose differences tell how models differ.
        seen_peers: (n, p) centred estimates of the measured models on the peers.
        peer_levels: (p,) what the estimates are centred by.
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
    peers: Indices
    seen_peers: Floats
    peer_levels: Floats
    inverse: Floats
    spread: float

    def mean(self, estimates: Floats, towards: Floats) -> Floats:
        """Return log latencies (queries,).

        Args:
            estimates: (queries, base columns) of :class:`Base`.
            towards: (queries, known models) kernel.
        """
        out: Floats = estimates @ self.combination + towards[:, self.seen] @ self.coefficients + self.level
        return out

    def variance(self, estimates: Floats, towards: Floats, own: Floats) -> Floats:
        """Return variances (queries,) of the log latency; ``own`` is each query's kernel with itself."""
        if not len(self.seen):
            return np.full(len(estimates), self.spread**2 + NOISE**2)
        peers = _centred(estimates[:, self.peers], self.peer_levels)
        cover = self.scale**2 * (towards[:, self.seen] + PECULIARITY * peers @ self.seen_peers.T) + LEVEL_VARIANCE
        total = self.scale**2 * (own + PECULIARITY * np.square(peers).sum(axis=1)) + LEVEL_VARIANCE
        total = total - ((cover @ self.inverse) * cover).sum(axis=1)
        out: Floats = np.maximum(total, 0.0) + NOISE**2 + self.spread**2
        return out


def condition(base: Base, column: Column, seen: Indices, values: Floats, candidates: Indices) -> Posterior:
    """Weigh every candidate reference and departure by how well it explains the measurements.

    Args:
        base: the additive model, fitted without or with the column.
        column: the target.
        seen: (n,) indices of the measured models, n >= 1.
        values: (n,) their log latencies.
        candidates: indices of the base's columns that may serve as references.
    """
    peers = peers_of(base, column, candidates)
    levels = base.filled[peers].mean(axis=1)
    seen_peers = _centred(base.filled[np.ix_(peers, seen)].T, levels)
    gram = base.gram[np.ix_(seen, seen)] + PECULIARITY * seen_peers @ seen_peers.T
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
    combination = resemblance.copy()
    on_peers = PECULIARITY * seen_peers.T @ coefficients / np.sqrt(max(len(peers) - 1, 1))
    on_peers -= on_peers.mean() if len(peers) else 0.0
    combination[peers] += on_peers
    level -= float(on_peers @ levels)
    scale = float(np.sqrt(shares.sum(axis=0) @ np.square(SCALES)))
    final = inverse(_cover(gram, scale))
    return Posterior(
        column, seen, resemblance, combination, coefficients, level, scale, peers, seen_peers, levels, final,
        _spread(base, resemblance),
    )  # fmt: skip


def peers_of(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the well-measured columns whose differences say how models differ on targets such as this one."""
    table = base.table
    counts = (~np.isnan(table.values)).sum(axis=1)
    alike = [
        i
        for i in candidates
        if table.columns[i].kind == column.kind
        and table.columns[i].precision == column.precision
        and counts[i] >= _MEASURED_ENOUGH
    ]
    same = [i for i in alike if table.columns[i].runtime == column.runtime]
    chosen = same if len(same) >= _PEERS else alike if len(alike) >= _PEERS else []
    return np.array(chosen, dtype=np.intp)


def _centred(estimates: Floats, levels: Floats) -> Floats:
    """Return (models, peers) estimates less each peer's level and less the peers' mean, scaled to a covariance."""
    if not estimates.shape[1]:
        return estimates
    shapes = estimates - levels
    out: Floats = (shapes - shapes.mean(axis=1, keepdims=True)) / np.sqrt(max(estimates.shape[1] - 1, 1))
    return out


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
