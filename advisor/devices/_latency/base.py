"""Fit the additive model that every prediction is based on.

log latency(model, column) = level of the column + consensus
of all columns + consensus of the column's kind
+ consensus of its build and precision + deviation of the column + noise.
  The four terms in the middle are Gaussian
processes over the models' features. The columns are independent given the consensus, so one system
of equations over the known models solves the whole. The result is an estimate of every model on
every column; measured cells keep their measured value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

from advisor.devices._latency.table import (
    Column,
    Floats,
    LatencyTable,
    ModelSpace,
    invert_matrix,
    other_release,
    solve_system,
)

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

Measured = list[tuple[NDArray[np.intp], Floats]]

PECULIARITY = 5.0
"""Weight of the observed differences between columns,
relative to differences that the models' features allow.
"""

SHARES = {"npu": 0.5, "cpu": 0.3}
"""Weight of each share of a model's time by kind of processor;
on others the shares did not improve predictions.
"""

# Number of a model's features that are counts:
# log MACs, log parameters, log input size, log layers.
COUNTS = 4

_MEASURED_ENOUGH = 8
_PEERS = 4
# Above this number, operators are parts of an unrolled recurrence, which runtimes merge.
_MOST_LAYERS = 1000.0
_FAR = 4.0  # Shares are clipped at this many standard deviations from the known models

DEGREES_OF_FREEDOM = 4
"""Degrees of freedom of the Student t distribution of residuals:
one unusual run does not decide which targets are similar.
"""

WRONG_SHARE = 0.05
"""Share of measurements that are wrong, before they are compared: 45 of 9,143 shipped rows are
flagged for it, and people mistake names and units more often.
"""

# Range (log) in which a wrong latency lies: seconds for milliseconds are a factor of 1000.
WRONG_RANGE = log(1e2)
# At most one of this many measurements can be wrong; otherwise nothing tells which ones are right.
_AT_MOST = 3
DOUBTED = 0.5  # A measurement that is more likely wrong than right is named

_POSSIBLE = 0.05


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
    cells: Measured = [
        (measured, row[measured] - middle)
        for measured, row in zip(seen, table.values, strict=True)
    ]
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


def _cover_measurements(gram: Floats, seen: NDArray[np.intp], scale: float) -> Floats:
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
        information, evidence = _eliminate(layer)
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


def _eliminate(layer: _Layer) -> tuple[Floats, Floats]:
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


# Describe how the latencies of models differ between targets of one kind.
#
# The differences come from known targets, and from the parts of a model's time: launching it,
# starting its operators, moving its weights and computing. If one part is cheaper on a target,
# models differ there by their share of that part. For example, a small network is relatively fast
# on a slow processor with a fast driver. These shares (weights / latency, ...) need no measurement
# on the target.

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Directions in which models differ on targets like one column."""

    # (p,) indices of the columns that they are learnt from, empty if there are too few.
    peers: Indices
    levels: Floats  # (p,) level of each peer
    centre: Floats  # (s,) mean of the shares over the known models
    scale: Floats  # (s,) their standard deviation
    weight: float = 0.0  # weight of each share

    @classmethod
    def of(cls, base: Base, column: Column, candidates: Indices) -> Contrasts:
        """Return the directions for targets like ``column``, learnt from ``candidates``."""
        peers = peers_of(base, column, candidates)
        levels = base.filled[peers].mean(axis=1)
        if not len(peers):
            return cls(peers, levels, np.zeros(0), np.ones(0))
        shares = _compute_shares(base.filled.T[:, peers], base.table.features[:, :COUNTS])
        # Models that no peer measured are predictions,
        # which would narrow the spread of the shares.
        shares = shares[~np.isnan(base.table.values[peers]).all(axis=0)]
        centre = np.nanmean(shares, axis=0)
        scale = np.maximum(np.nanstd(shares, axis=0), 1e-6)
        return cls(peers, levels, centre, scale, SHARES.get(column.kind, 0.0))

    def coordinates(
        self, estimates: Floats, counts: Floats, peculiarity: float = PECULIARITY
    ) -> Floats:
        """Return the coordinates (n, p + s) of models in these directions;
        their inner products are a covariance.

        ``estimates`` (n, base columns) are those of :class:`Base`, ``counts`` (n, COUNTS)
        logarithms with NaN where unknown, ``peculiarity`` is the weight of the observed
        directions.
        """
        if not len(self.peers):
            return np.zeros((len(estimates), 0))
        on_peers = estimates[:, self.peers]
        shapes = on_peers - self.levels
        # Divided by the number of peers, so that more peers do not weigh more.
        seen = (shapes - shapes.mean(axis=1, keepdims=True)) / np.sqrt(max(len(self.peers) - 1, 1))
        if not self.weight:
            return np.asarray(np.sqrt(peculiarity) * seen)
        of_time = (_compute_shares(on_peers, counts) - self.centre) / self.scale
        of_time = np.clip(np.nan_to_num(of_time), -_FAR, _FAR)
        return np.hstack([np.sqrt(peculiarity) * seen, np.sqrt(self.weight) * of_time])


def _compute_shares(on_peers: Floats, counts: Floats) -> Floats:
    """Return (n, 5): launches, MACs, weights and operators per millisecond of each model,
    and its log latency.
    """
    log_latency = on_peers.mean(axis=1)
    layers = np.minimum(counts[:, 3], np.log(_MOST_LAYERS))
    work = np.column_stack([np.zeros(len(counts)), counts[:, 0], counts[:, 1], layers])
    return np.column_stack([np.exp(work - log_latency[:, None]), log_latency])


def peers_of(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns with enough measurements that show how models differ
    on targets like this one.
    """
    table = base.table
    counts = (~np.isnan(table.values)).sum(axis=1)
    form = column.kind, column.precision
    alike = []
    for i in candidates:
        if (table.columns[i].kind, table.columns[i].precision) == form:
            alike.append(i)
    alike = [i for i in alike if counts[i] >= _MEASURED_ENOUGH]
    package = column.runtime, column.kernels
    same = []
    for i in alike:
        if (table.columns[i].runtime, table.columns[i].kernels) == package:
            same.append(i)
    release = []
    for i in same:
        if not other_release(table.columns[i], column):
            release.append(i)
    # The nearest targets that are enough:
    # the same release, else the same build, else the same kind and precision.
    chosen = next((columns for columns in (release, same, alike) if len(columns) >= _PEERS), [])
    return np.array(chosen, dtype=np.intp)


def student_density(squares: Floats, log_determinant: Floats | float, n: int) -> Floats:
    """Return the log density of n values under a multivariate Student t distribution.

    ``squares`` are squared distances of the values by their precision,
    ``log_determinant`` is that of the precision.
    """
    freedom = DEGREES_OF_FREEDOM
    constant = lgamma((freedom + n) / 2) - lgamma(freedom / 2) - n / 2 * log(pi * freedom)
    return np.asarray(
        constant + 0.5 * log_determinant - 0.5 * (freedom + n) * np.log1p(squares / freedom)
    )


def choose_agreeing(
    prior: Floats, residuals: Floats, covers: Sequence[Floats]
) -> list[tuple[float, Indices]]:
    """Return which measurements to believe: sets of them, each with its probability.

    One measurement after the other is set aside while that explains the rest better than chance
    would (:data:`WRONG_SHARE`). Usually no measurement is: then one set of all has the probability
    1. ``prior`` (candidates,) is the log weight of each reference, ``residuals`` (candidates, n)
    the measurements minus the reference's, ``covers`` their covariance (n, n) for each scale of
    deviation.
    """
    believed = np.arange(residuals.shape[1])
    for _ in range(len(believed) // _AT_MOST):
        shown = residuals[:, believed]
        logs = _score_without_each(
            prior, shown, [cover[np.ix_(believed, believed)] for cover in covers]
        )
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        best = int(np.argmax(chances[1:]))
        # More likely wrong than right: it is set aside for good, and the rest is compared anew.
        if chances[1 + best] > DOUBTED:
            believed = np.delete(believed, best)
            continue
        # No single suspect: the answer is averaged over the likely ones.
        possible = np.flatnonzero(chances >= _POSSIBLE)
        total = float(chances[possible].sum())
        return [
            (float(chances[i]) / total, np.delete(believed, i - 1) if i else believed)
            for i in possible
        ]
    return [(1.0, believed)]


def _score_without_each(prior: Floats, residuals: Floats, covers: Sequence[Floats]) -> Floats:
    """Return the log evidence (1 + n,) that all measurements are right,
    and that each one is wrong.

    What one measurement adds to the squared distance and
    to the determinant follows from the inverse.
    """
    n = residuals.shape[1]
    logs_by_cover = []
    for cover in covers:
        precision = invert_matrix(cover)
        diagonal = np.diag(precision)
        log_determinant = float(np.linalg.slogdet(precision)[1])
        products = residuals @ precision
        squares = (products * residuals).sum(axis=1)
        # The squared distance without one value, from the whole inverse:
        # an inverse for each would cost n times as much.
        left = squares[:, None] - np.square(products) / diagonal
        alone = student_density(np.maximum(left, 0.0), log_determinant - np.log(diagonal), n - 1)
        logs_by_cover.append(
            prior[:, None] + np.column_stack([student_density(squares, log_determinant, n), alone])
        )
    logs = np.concatenate(logs_by_cover)
    # The usual log-sum-exp: the logs are far below what a float can hold as a power of e.
    top = logs.max(axis=0)
    evidence: Floats = top + np.log(np.exp(logs - top).sum(axis=0))
    evidence[0] += log(1 - WRONG_SHARE)
    evidence[1:] += log(WRONG_SHARE) - log(WRONG_RANGE)
    return evidence
