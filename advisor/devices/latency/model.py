"""Predict the latencies of models on a target from the fitted additive model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.base import CONSENSUS_SCALE, IDENTITY_SCALE, Base
from advisor.devices.latency.contrasts import COUNTS, Indices
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.latency.kernels import Floats, inverse, self_covariance
from advisor.devices.latency.posterior import Posterior, condition
from advisor.devices.latency.table import Column
from advisor.devices.latency.unmeasured import unmeasured_posterior

SUPPORTED = 0.5
"""A model or family counts as known if at least this share of the resembled targets has measured it."""

_FEATURE_NOISE = 0.15
_MARGIN = 0.25
"""A model is outside if its MACs or parameters are this far (natural logarithm) beyond those of measured models."""


@dataclass(frozen=True, eq=False)
class Queries:
    """The models to predict, described relative to the fitted model.

    Attributes:
        known: (queries,) index of the model in the table, or -1.
        families: (queries,) code of the family, or -1.
        estimates: (queries, base columns) estimates of the additive model.
        towards: (queries, known models) kernel.
        itself: (queries,) kernel of each model with itself.
        variance: (queries,) variance of an estimate from features alone.
        counts: (queries, COUNTS) log MACs, log parameters, log input size, log layers, NaN if unknown.
    """

    known: NDArray[np.intp]
    families: NDArray[np.intp]
    estimates: Floats
    towards: Floats
    itself: Floats
    variance: Floats
    counts: Floats


@dataclass(frozen=True, eq=False)
class Estimate:
    """Predictions (queries,) on one target in the logarithm of milliseconds.

    Attributes:
        mean: log latency.
        deviation: standard deviation before calibration.
        support: index into :data:`advisor.devices.latency.conformal.SUPPORT`: what is known of the model there.
        outside: how far (log) its size lies beyond the measured range, 0 within.
    """

    mean: Floats
    deviation: Floats
    support: NDArray[np.intp]
    outside: Floats


def queries_of_known(base: Base, models: Sequence[int] | Indices) -> Queries:
    """Return queries for models of the table."""
    index = np.asarray(models, dtype=np.intp)
    variance = _feature_variance(base, base.gram[index], np.diag(base.gram)[index])
    return Queries(
        index,
        base.space.points.families[index],
        base.filled.T[index],
        base.gram[index],
        np.diag(base.gram)[index],
        variance,
        base.table.features[index, :COUNTS],
    )


def queries_of(base: Base, models: Sequence[ModelFeatures]) -> Queries:
    """Return queries for any models: by name where the table has them, by features else."""
    position = {name: i for i, name in enumerate(base.table.models)}
    known = np.array([position.get(model.name, -1) for model in models], dtype=np.intp)
    vectors = np.array([model.vector for model in models])
    points = base.space.points_of(vectors, [model.family for model in models])
    towards = base.space.towards(points)
    alone = self_covariance(points)
    estimates = base.new_models(towards)
    named = known >= 0
    towards[named] = base.gram[known[named]]
    alone[named] = np.diag(base.gram)[known[named]]
    estimates[named] = base.filled.T[known[named]]
    variance = _feature_variance(base, towards, alone)
    return Queries(known, points.families, estimates, towards, alone, variance, vectors[:, :COUNTS])


def _feature_variance(base: Base, towards: Floats, alone: Floats) -> Floats:
    """Return the variance of a model's consensus given all other models with known features."""
    explained = ((towards @ _precision(base)) * towards).sum(axis=1)
    out: Floats = CONSENSUS_SCALE**2 * np.maximum(alone - explained, 0) * 0.5 + 2 * IDENTITY_SCALE**2
    return out


@lru_cache(maxsize=4)
def _precision(base: Base) -> Floats:
    """Return the inverse covariance of the known models by their features, computed once for each fit."""
    return inverse(base.gram + _FEATURE_NOISE**2 * np.eye(len(base.gram)))


def posterior_of(
    base: Base, column: Column, seen: Indices, values: Floats, *, excluded: Sequence[int] = ()
) -> Posterior:
    """Return the posterior of a target from its measurements; without any, from its processor and similar targets.

    Args:
        base: the additive model.
        column: the target.
        seen: indices of the models measured on it.
        values: their log latencies.
        excluded: columns of the base that cannot be references (the target itself).
    """
    candidates = np.setdiff1d(np.arange(len(base.table.columns)), np.asarray(excluded, dtype=np.intp))
    if not len(seen):
        return unmeasured_posterior(base, column, candidates)
    return condition(base, column, seen, values, candidates)


def estimate(base: Base, posterior: Posterior, queries: Queries) -> Estimate:
    """Predict ``queries`` on one target."""
    of_model, of_family = _shares(base, posterior, queries)
    mean, variance = posterior.predict(queries.estimates, queries.counts, queries.towards, queries.itself)
    variance = variance + (1 - of_model) * queries.variance
    outside = _outside(base, posterior, queries)
    deviation = np.sqrt(variance) * (1 + outside)
    support = np.where(of_model >= SUPPORTED, 0, np.where(of_family >= SUPPORTED, 1, 2))
    return Estimate(mean, deviation, support, outside)


def _shares(base: Base, posterior: Posterior, queries: Queries) -> tuple[Floats, Floats]:
    """Return the shares (queries,) of the resembled targets that measured each model, and one of its family.

    A family that was measured on the target itself has the share 1.
    """
    resembled = np.flatnonzero(posterior.shares)
    measured = np.logical_not(np.isnan(base.table.values[resembled]))
    by_model = posterior.shares[resembled] @ measured
    codes = base.space.points.families
    by_family = np.zeros(len(base.space.codes))
    for code in range(len(by_family)):
        by_family[code] = posterior.shares[resembled] @ measured[:, codes == code].any(axis=1)
    by_family[codes[posterior.seen]] = 1.0
    of_model = np.where(queries.known >= 0, by_model[np.maximum(queries.known, 0)], 0.0)
    of_family = np.where(queries.families >= 0, by_family[np.maximum(queries.families, 0)], 0.0)
    return of_model, of_family


def _outside(base: Base, posterior: Posterior, queries: Queries) -> Floats:
    """Return how far each model's MACs or parameters are beyond those of the models that the prediction is based on."""
    unmeasured = np.isnan(base.table.values[posterior.shares > 0.01]).all(axis=0)
    used = np.logical_not(unmeasured)
    used[posterior.seen] = True
    sizes = base.table.features[used, :2]
    sizes = sizes[~np.isnan(sizes).any(axis=1)]
    if not len(sizes):
        return np.zeros(len(queries.known))
    asked = queries.counts[:, :2]
    below = sizes.min(axis=0) - _MARGIN - asked
    above = asked - sizes.max(axis=0) - _MARGIN
    beyond = np.nan_to_num(np.maximum(np.maximum(below, above), 0)).max(axis=1)
    out: Floats = np.where(np.isnan(asked).any(axis=1), 0.0, beyond)
    return out
