"""The additive model under every prediction.

log latency(model, column) = level of the column + consensus of all columns + consensus of the column's kind
+ the column's own deviation + noise, the three in the middle Gaussian processes over the models' features. Given the
consensus the columns are independent, so the whole is solved at once through the consensus of the known models.
What it yields is an estimate of every model on every column: measured where it is, drawn from what is alike elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.kernels import Floats, ModelSpace, inverse, solve
from advisor.devices.latency.table import LatencyTable

CONSENSUS_SCALE = 1.2
KIND_SCALE = 0.5
COLUMN_SCALES = (0.12, 0.25, 0.5, 0.9)
IDENTITY_SCALE = 0.2
KIND_IDENTITY_SCALE = 0.15
NOISE = 0.08
LEVEL_VARIANCE = 9.0
_ROUNDS = 3
_FIRST_SCALE = COLUMN_SCALES[1]

Measured = list[tuple[NDArray[np.intp], Floats]]


@dataclass(frozen=True, eq=False)
class Base:
    """A fitted additive model.

    Attributes:
        table: what it was fitted on.
        space: the models' features.
        gram: (models, models) kernel of the known models.
        filled: (columns, models) estimate of every cell, the measured ones as measured.
        smooth: (columns, models) estimate without the measured cells put back.
        weights: (models, columns) coefficients on the kernel towards the known models, for new models.
        levels: (columns,) level of each column.
    """

    table: LatencyTable
    space: ModelSpace
    gram: Floats
    filled: Floats
    smooth: Floats
    weights: Floats
    levels: Floats

    def new_models(self, towards: Floats) -> Floats:
        """Return the estimate (queries, columns) of new models from their kernel (queries, known models)."""
        out: Floats = self.levels[None] + towards @ self.weights
        return out


def fit_base(table: LatencyTable) -> Base:
    """Fit the additive model to ``table``; every column needs at least one measurement."""
    space = ModelSpace.of(table.features, table.families)
    gram = space.within()
    middle = float(np.nanmean(table.values))
    cells: Measured = []
    for row in table.values:
        seen = np.flatnonzero(~np.isnan(row))
        cells.append((seen, row[seen] - middle))
    kinds = sorted({column.kind for column in table.columns})
    kind_of = np.array([kinds.index(column.kind) for column in table.columns], dtype=np.intp)
    scales = np.full(len(cells), _FIRST_SCALE)
    for _ in range(_ROUNDS):
        consensus, by_kind = _consensus(cells, scales, gram, kind_of)
        scales = _column_scales(cells, gram, consensus + by_kind[kind_of])
    shared = consensus + by_kind[kind_of]
    own, own_weights, levels = _columns(cells, scales, gram, shared)
    weights = _new_model_weights(gram, consensus, by_kind)[:, kind_of] + own_weights
    levels = levels + middle
    smooth = levels[:, None] + shared + own
    filled = np.where(np.isnan(table.values), smooth, table.values)
    return Base(table, space, gram, filled, smooth, weights, levels)


def _cover(gram: Floats, seen: NDArray[np.intp], scale: float) -> Floats:
    """Covariance of a column's measurements about the consensus."""
    out: Floats = scale**2 * gram[np.ix_(seen, seen)] + LEVEL_VARIANCE + NOISE**2 * np.eye(len(seen))
    return out


def _priors(gram: Floats) -> tuple[Floats, Floats]:
    """Covariances of the consensus and of a kind's consensus: features, and what is a model's own."""
    alone = np.eye(len(gram))
    return (
        CONSENSUS_SCALE**2 * gram + IDENTITY_SCALE**2 * alone,
        KIND_SCALE**2 * gram + KIND_IDENTITY_SCALE**2 * alone,
    )


def _consensus(cells: Measured, scales: Floats, gram: Floats, kind_of: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return the posterior mean of the consensus (models,) and of each kind's (kinds, models)."""
    models, kinds = len(gram), int(kind_of.max()) + 1
    information = np.zeros((kinds, models, models))
    evidence = np.zeros((kinds, models))
    for (seen, values), scale, kind in zip(cells, scales, kind_of, strict=True):
        precision = inverse(_cover(gram, seen, float(scale)))
        information[kind][np.ix_(seen, seen)] += precision
        evidence[kind, seen] += precision @ values
    everywhere, within = (inverse(prior) for prior in _priors(gram))
    # The kinds are independent given the consensus: each is eliminated in turn (Schur complement).
    left, right = everywhere.copy(), np.zeros(models)
    eliminated = []
    for kind in range(kinds):
        block = inverse(within + information[kind])
        left += information[kind] - information[kind] @ block @ information[kind]
        right += evidence[kind] - information[kind] @ block @ evidence[kind]
        eliminated.append(block)
    consensus = solve(left, right)
    by_kind = [block @ (evidence[kind] - information[kind] @ consensus) for kind, block in enumerate(eliminated)]
    return consensus, np.array(by_kind)


def _column_scales(cells: Measured, gram: Floats, shared: Floats) -> Floats:
    """Return each column's likeliest scale of deviation."""
    found = []
    for (seen, values), consensus in zip(cells, shared, strict=True):
        residual = values - consensus[seen]
        evidences = []
        for scale in COLUMN_SCALES:
            cover = _cover(gram, seen, scale)
            evidences.append(-0.5 * float(residual @ solve(cover, residual)) - 0.5 * float(np.linalg.slogdet(cover)[1]))
        found.append(COLUMN_SCALES[int(np.argmax(evidences))])
    return np.array(found)


def _columns(cells: Measured, scales: Floats, gram: Floats, shared: Floats) -> tuple[Floats, Floats, Floats]:
    """Return each column's deviation (columns, models), its coefficients (models, columns) and its level (columns,)."""
    own = np.zeros(shared.shape)
    weights = np.zeros(shared.shape[::-1])
    levels = np.zeros(len(cells))
    for index, ((seen, values), scale) in enumerate(zip(cells, scales, strict=True)):
        coefficients = solve(_cover(gram, seen, float(scale)), values - shared[index, seen])
        own[index] = scale**2 * gram[:, seen] @ coefficients
        weights[seen, index] = scale**2 * coefficients
        levels[index] = LEVEL_VARIANCE * coefficients.sum()
    return own, weights, levels


def _new_model_weights(gram: Floats, consensus: Floats, by_kind: Floats) -> Floats:
    """Return coefficients (models, kinds) on the kernel, by which the consensus extends to new models."""
    everywhere, within = _priors(gram)
    common = CONSENSUS_SCALE**2 * solve(everywhere, consensus)
    out: Floats = common[:, None] + KIND_SCALE**2 * solve(within, by_kind.T)
    return out
