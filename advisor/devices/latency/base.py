"""Fit the additive model that every prediction is based on.

log latency(model, column) = level of the column + consensus of all columns + consensus of the column's kind
+ deviation of the column + noise. The three terms in the middle are Gaussian processes over the models' features. The
columns are independent given the consensus, so one system of equations over the known models solves the whole. The
result is an estimate of every model on every column; measured cells keep their measured value.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.devices.latency.table import Floats, LatencyTable, ModelSpace, inverse, solve

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
        table: the measurements that it was fitted to.
        space: the models' features.
        gram: (models, models) kernel matrix of the known models.
        filled: (columns, models) estimate of every cell; measured cells contain the measured value.
        smooth: (columns, models) estimate of every cell, also of the measured ones.
        weights: (models, columns) coefficients of the kernel between new and known models.
        levels: (columns,) level of each column.
    """

    table: LatencyTable
    space: ModelSpace
    gram: Floats
    filled: Floats
    smooth: Floats
    weights: Floats
    levels: Floats


@lru_cache(maxsize=1)
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator,unused-ignore]
def fit_base(table: LatencyTable) -> Base:
    """Fit the additive model to ``table``; every column needs at least one measurement.

    One thread is several times faster: the matrices are small. A process that predicts again uses its last fit.
    """
    space = ModelSpace(table.features, table.families)
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
    deviations, deviation_weights, levels = _columns(cells, scales, gram, shared)
    weights = _new_model_weights(gram, consensus, by_kind)[:, kind_of] + deviation_weights
    levels = levels + middle
    smooth = levels[:, None] + shared + deviations
    filled = np.where(np.isnan(table.values), smooth, table.values)
    return Base(table, space, gram, filled, smooth, weights, levels)


def _cover(gram: Floats, seen: NDArray[np.intp], scale: float) -> Floats:
    """Return the covariance of a column's measurements around the consensus."""
    out: Floats = scale**2 * gram[np.ix_(seen, seen)] + LEVEL_VARIANCE + NOISE**2 * np.eye(len(seen))
    return out


def _priors(gram: Floats) -> tuple[Floats, Floats]:
    """Return the prior covariances of the consensus and of a kind's consensus: features plus an individual part."""
    individual = np.eye(len(gram))
    return (
        CONSENSUS_SCALE**2 * gram + IDENTITY_SCALE**2 * individual,
        KIND_SCALE**2 * gram + KIND_IDENTITY_SCALE**2 * individual,
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
    common_prior, kind_prior = (inverse(prior) for prior in _priors(gram))
    # The kinds are independent given the consensus, so each is eliminated in turn (Schur complement).
    left, right = common_prior.copy(), np.zeros(models)
    eliminated = []
    for kind in range(kinds):
        block = inverse(kind_prior + information[kind])
        left += information[kind] - information[kind] @ block @ information[kind]
        right += evidence[kind] - information[kind] @ block @ evidence[kind]
        eliminated.append(block)
    consensus = solve(left, right)
    by_kind = [block @ (evidence[kind] - information[kind] @ consensus) for kind, block in enumerate(eliminated)]
    return consensus, np.array(by_kind)


def _column_scales(cells: Measured, gram: Floats, shared: Floats) -> Floats:
    """Return the most likely scale of deviation of each column."""
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
    deviations = np.zeros(shared.shape)
    weights = np.zeros(shared.shape[::-1])
    levels = np.zeros(len(cells))
    for index, ((seen, values), scale) in enumerate(zip(cells, scales, strict=True)):
        coefficients = solve(_cover(gram, seen, float(scale)), values - shared[index, seen])
        deviations[index] = scale**2 * gram[:, seen] @ coefficients
        weights[seen, index] = scale**2 * coefficients
        levels[index] = LEVEL_VARIANCE * coefficients.sum()
    return deviations, weights, levels


def _new_model_weights(gram: Floats, consensus: Floats, by_kind: Floats) -> Floats:
    """Return the coefficients (models, kinds) of the kernel that extend the consensus to new models."""
    common_prior, kind_prior = _priors(gram)
    common = CONSENSUS_SCALE**2 * solve(common_prior, consensus)
    out: Floats = common[:, None] + KIND_SCALE**2 * solve(kind_prior, by_kind.T)
    return out
