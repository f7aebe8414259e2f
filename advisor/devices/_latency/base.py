"""Fit the additive model that every prediction is based on.

log latency(model, column) = level of the column + consensus of all columns + consensus of the
column's kind + consensus of its build and precision + deviation of the column + noise.

The four terms in the middle are Gaussian processes over the models' features. The columns are
independent given the consensus, so one system of equations over the known models solves the whole.
The result is an estimate of every model on every column; measured cells keep their measured value.

``kept_base.py`` keeps a fit in the cache. Its key has a hash of this module, so no version has to
be raised here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.devices._latency.model_space import Floats, ModelSpace, invert_matrix, solve_system
from advisor.devices._latency.table import Column, LatencyTable

# Standard deviations (log latency) of the layers, from what all targets share to what one column
# has alone. Each layer has a part that follows the models' features (SCALE) and one that is
# individual to each model (IDENTITY_SCALE), because models of equal features still differ.
CONSENSUS_SCALE = 1.2
KIND_SCALE = 0.5
# A column's own scale is not known before it is measured, so the likeliest of these is chosen.
COLUMN_SCALES = (0.12, 0.25, 0.5, 0.9)
IDENTITY_SCALE = 0.2
KIND_IDENTITY_SCALE = 0.15
BUILD_SCALE = 0.3
BUILD_IDENTITY_SCALE = 0.15
NOISE = 0.08  # standard deviation (log) of one measurement around the fit
# Wide on purpose (a standard deviation of 3, a factor of 20):
# the level comes from measurements, not from the prior.
LEVEL_VARIANCE = 9.0
_LAYER_SCALES = (CONSENSUS_SCALE, KIND_SCALE, BUILD_SCALE)
_IDENTITY_SCALES = (IDENTITY_SCALE, KIND_IDENTITY_SCALE, BUILD_IDENTITY_SCALE)
# The layers and the columns' scales are fitted in turn; each needs the other.
_ROUNDS = 3
_FIRST_SCALE = COLUMN_SCALES[1]

Indices = NDArray[np.intp]
Measured = list[tuple[Indices, Floats]]  # of each column, its measured models and their values


@dataclass(frozen=True, eq=False)
class Base:
    """A fitted additive model."""

    table: LatencyTable  # the measurements that it was fitted to
    space: ModelSpace  # the models' features
    gram: Floats  # (models, models) kernel matrix of the known models
    # (columns, models) estimate of every cell; measured cells contain the measured value.
    filled: Floats
    smooth: Floats  # (columns, models) estimate of every cell, also of the measured ones
    weights: Floats  # (models, columns) coefficients of the kernel between new and known models
    levels: Floats  # (columns,) level of each column


@lru_cache(maxsize=1)
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator,unused-ignore]
def fit_base(table: LatencyTable) -> Base:
    """Fit the additive model to ``table``; every column needs at least one measurement.

    One thread is several times faster: the matrices are small.
    A process that predicts again uses its last fit.
    """
    space = ModelSpace(table.features, table.families)
    gram = space.within()
    # The layers have a mean of 0, so the mean of all measurements is taken out first.
    middle = float(np.nanmean(table.values))
    seen = [np.flatnonzero(~np.isnan(row)) for row in table.values]
    cells: Measured = []
    for measured, row in zip(seen, table.values, strict=True):
        cells.append((measured, row[measured] - middle))
    groups = _group_columns(table.columns)
    scales = np.full(len(cells), _FIRST_SCALE)
    for _ in range(_ROUNDS):
        layers = _fit_consensus(cells, scales, gram, groups)
        scales = _choose_column_scales(cells, gram, _sum_layers(layers, groups))
    shared = _sum_layers(layers, groups)
    deviations, deviation_weights, levels = _fit_columns(cells, scales, gram, shared)
    # The coefficients (models, columns) that extend the layers to new models.
    weights = deviation_weights
    for layer, members, scale, prior in zip(
        layers, groups, _LAYER_SCALES, _make_priors(gram), strict=True
    ):
        # Only the part that follows the features extends to a new model:
        # its individual part is 0 on average.
        weights = weights + (scale**2 * solve_system(prior, layer.T))[:, members]
    levels = levels + middle
    smooth = levels[:, None] + shared + deviations
    filled = np.where(np.isnan(table.values), smooth, table.values)
    return Base(table, space, gram, filled, smooth, weights, levels)


def _cover_measurements(gram: Floats, seen: Indices, scale: float) -> Floats:
    """Return the covariance of a column's measurements around the consensus."""
    return np.asarray(
        scale**2 * gram[np.ix_(seen, seen)] + LEVEL_VARIANCE + NOISE**2 * np.eye(len(seen))
    )


def _group_columns(columns: Sequence[Column]) -> tuple[Indices, Indices, Indices]:
    """Return the group (columns,) of each column in each layer:
    all targets, their kind, their build and precision.
    """
    kinds = [(column.kind,) for column in columns]
    builds = [(column.kind, *column.build, column.precision) for column in columns]
    return np.zeros(len(columns), dtype=np.intp), _number_names(kinds), _number_names(builds)


def _number_names(names: Sequence[tuple[str, ...]]) -> Indices:
    """Return the place of each name among the different ones."""
    order = {name: index for index, name in enumerate(sorted(set(names)))}
    return np.array([order[name] for name in names], dtype=np.intp)


def _sum_layers(layers: Sequence[Floats], groups: Sequence[Indices]) -> Floats:
    """Return (columns, models) the sum of the layers that a column belongs to."""
    parts = [layer[members] for layer, members in zip(layers, groups, strict=True)]
    total: Floats = np.sum(parts, axis=0)
    return total


def _make_priors(gram: Floats) -> list[Floats]:
    """Return the prior covariance of each layer: features plus an individual part."""
    identity_matrix = np.eye(len(gram))
    scales = zip(_LAYER_SCALES, _IDENTITY_SCALES, strict=True)
    return [scale**2 * gram + identity**2 * identity_matrix for scale, identity in scales]


@dataclass(frozen=True, eq=False)
class _Layer:
    """The estimates of the groups of one layer by the measurements."""

    information: Floats  # (groups, models, models) precision of the measurements
    evidence: Floats  # (groups, models) precision times measurements
    covers: Floats  # (groups, models, models) covariance of each group given the layer above
    above: Indices  # (groups,) group of each in the layer above


def _fit_consensus(
    cells: Measured, scales: Floats, gram: Floats, groups: Sequence[Indices]
) -> list[Floats]:
    """Return the posterior mean (groups, models) of each layer:
    of all targets, of each kind, and of each build.
    """
    priors = list(map(invert_matrix, _make_priors(gram)))
    information, evidence = _sum_measurements(cells, scales, gram, groups[-1])
    lower = []
    # From the builds up to what all share, then back down with the means:
    # each matrix is only as large as the models.
    for index in range(len(groups) - 1, 0, -1):
        above = np.zeros(len(information), dtype=np.intp)
        above[groups[index]] = groups[index - 1]
        covers = np.array([invert_matrix(priors[index] + known) for known in information])
        layer = _Layer(information, evidence, covers, above)
        lower.append(layer)
        information, evidence = _eliminate_groups(layer)
    means = [solve_system(priors[0] + information[0], evidence[0])[None]]
    total = means[0]
    for layer in reversed(lower):
        left = layer.evidence - np.einsum("gij,gj->gi", layer.information, total[layer.above])
        mean = np.einsum("gij,gj->gi", layer.covers, left)
        total = total[layer.above] + mean
        means.append(mean)
    return means


def _sum_measurements(
    cells: Measured, scales: Floats, gram: Floats, builds: Indices
) -> tuple[Floats, Floats]:
    """Return the precision (builds, models, models) of the measurements,
    and it times the measurements.
    """
    models = len(gram)
    information = np.zeros((int(builds.max()) + 1, models, models))
    evidence = np.zeros((len(information), models))
    for (seen, values), scale, build in zip(cells, scales, builds, strict=True):
        precision = invert_matrix(_cover_measurements(gram, seen, float(scale)))
        information[build][np.ix_(seen, seen)] += precision
        evidence[build, seen] += precision @ values
    return information, evidence


def _eliminate_groups(layer: _Layer) -> tuple[Floats, Floats]:
    """Return the precision and the evidence of the layer above.

    Groups are independent given the layer above, so each is eliminated in turn (Schur complement).
    """
    size = int(layer.above.max()) + 1
    information = np.zeros((size, *layer.information.shape[1:]))
    evidence = np.zeros((size, layer.evidence.shape[1]))
    groups = zip(layer.information, layer.evidence, layer.covers, layer.above, strict=True)
    for known, values, cover, group in groups:
        information[group] += known - known @ cover @ known
        evidence[group] += values - known @ (cover @ values)
    return information, evidence


def _choose_column_scales(cells: Measured, gram: Floats, shared: Floats) -> Floats:
    """Return the most likely scale of deviation of each column."""
    scales = []
    for (seen, values), consensus in zip(cells, shared, strict=True):
        residual = values - consensus[seen]
        covers = [_cover_measurements(gram, seen, scale) for scale in COLUMN_SCALES]
        evidences = []
        for cover in covers:
            evidences.append(
                -0.5 * (residual @ solve_system(cover, residual))
                - 0.5 * np.linalg.slogdet(cover)[1]
            )
        scales.append(COLUMN_SCALES[int(np.argmax(evidences))])
    return np.array(scales)


def _fit_columns(
    cells: Measured, scales: Floats, gram: Floats, shared: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return each column's deviation (columns, models),
    its coefficients (models, columns) and its level (columns,).
    """
    deviations = np.zeros(shared.shape)
    weights = np.zeros(shared.shape[::-1])
    levels = np.zeros(len(cells))
    for index, ((seen, values), scale) in enumerate(zip(cells, scales, strict=True)):
        coefficients = solve_system(
            _cover_measurements(gram, seen, float(scale)), values - shared[index, seen]
        )
        deviations[index] = scale**2 * gram[:, seen] @ coefficients
        weights[seen, index] = scale**2 * coefficients
        levels[index] = LEVEL_VARIANCE * coefficients.sum()
    return deviations, weights, levels
