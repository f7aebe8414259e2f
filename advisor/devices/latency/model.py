"""The fitted statistics behind predictions: many models on many targets at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.devices.latency.base import CONSENSUS_SCALE, IDENTITY_SCALE, Base
from advisor.devices.latency.contrasts import COUNTS, Indices
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.latency.kernels import Floats, inverse, own
from advisor.devices.latency.posterior import Posterior, condition
from advisor.devices.latency.table import Column
from advisor.devices.latency.unmeasured import expect

SUPPORTED = 0.5
"""Share of the resembled targets that measured the model or its family, from which on it counts as known there."""

_FEATURE_NOISE = 0.15
_MARGIN = 0.25
"""How far beyond the measured models' MACs or parameters (natural logarithm) a model may lie before it is outside."""


@dataclass(frozen=True, eq=False)
class Queries:
    """Models to predict, placed against the base.

    Attributes:
        known: (queries,) index of the model in the table, or -1.
        families: (queries,) code of the family, or -1.
        estimates: (queries, base columns).
        towards: (queries, known models) kernel.
        own: (queries,) kernel with itself.
        doubt: (queries,) variance of what features alone say of a model.
        counts: (queries, COUNTS) log MACs, log parameters, log input size, log layers, NaN where unknown.
    """

    known: NDArray[np.intp]
    families: NDArray[np.intp]
    estimates: Floats
    towards: Floats
    own: Floats
    doubt: Floats
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


def place_known(base: Base, models: Sequence[int] | Indices) -> Queries:
    """Return queries for models of the table."""
    index = np.asarray(models, dtype=np.intp)
    doubt = _doubt(base, base.gram[index], np.diag(base.gram)[index])
    return Queries(
        index,
        base.space.points.families[index],
        base.filled.T[index],
        base.gram[index],
        np.diag(base.gram)[index],
        doubt,
        base.table.features[index, :COUNTS],
    )


def place(base: Base, models: Sequence[ModelFeatures]) -> Queries:
    """Return queries for any models: by name where the table has them, by features else."""
    position = {name: i for i, name in enumerate(base.table.models)}
    known = np.array([position.get(model.name, -1) for model in models], dtype=np.intp)
    vectors = np.array([model.vector for model in models])
    points = base.space.place(vectors, [model.family for model in models])
    towards = base.space.towards(points)
    alone = own(points)
    estimates = base.new_models(towards)
    named = known >= 0
    towards[named] = base.gram[known[named]]
    alone[named] = np.diag(base.gram)[known[named]]
    estimates[named] = base.filled.T[known[named]]
    doubt = _doubt(base, towards, alone)
    return Queries(known, points.families, estimates, towards, alone, doubt, vectors[:, :COUNTS])


def _doubt(base: Base, towards: Floats, alone: Floats) -> Floats:
    """Variance of a model's consensus given those of all others of known features."""
    explained = ((towards @ _precision(base)) * towards).sum(axis=1)
    out: Floats = CONSENSUS_SCALE**2 * np.maximum(alone - explained, 0) * 0.5 + 2 * IDENTITY_SCALE**2
    return out


@lru_cache(maxsize=4)
def _precision(base: Base) -> Floats:
    """The inverse covariance of the known models by their features: made once for all predictions of a fit."""
    return inverse(base.gram + _FEATURE_NOISE**2 * np.eye(len(base.gram)))


def posterior_of(
    base: Base, column: Column, seen: Indices, values: Floats, *, excluded: Sequence[int] = ()
) -> Posterior:
    """Return a target's posterior from its measurements, or what to expect of it where it has none.

    Args:
        base: the additive model.
        column: the target.
        seen: indices of the models measured on it.
        values: their log latencies.
        excluded: columns of the base that may not serve as references (the target itself).
    """
    candidates = np.setdiff1d(np.arange(len(base.table.columns)), np.asarray(excluded, dtype=np.intp))
    if not len(seen):
        return expect(base, column, candidates)
    return condition(base, column, seen, values, candidates)


def estimate(base: Base, posterior: Posterior, queries: Queries) -> Estimate:
    """Predict ``queries`` on one target."""
    of_model, of_family = _shares(base, posterior, queries)
    mean, variance = posterior.of(queries.estimates, queries.counts, queries.towards, queries.own)
    variance = variance + (1 - of_model) * queries.doubt
    outside = _outside(base, posterior, queries)
    deviation = np.sqrt(variance) * (1 + outside)
    support = np.where(of_model >= SUPPORTED, 0, np.where(of_family >= SUPPORTED, 1, 2))
    return Estimate(mean, deviation, support, outside)


def _shares(base: Base, posterior: Posterior, queries: Queries) -> tuple[Floats, Floats]:
    """Return the shares (queries,) of the resembled targets that measured each model, and another of its family.

    A family that was measured on the target itself counts in full.
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
    """How far each query's MACs or parameters lie beyond those of the models behind the prediction."""
    behind = np.isnan(base.table.values[posterior.shares > 0.01]).all(axis=0)
    used = np.logical_not(behind)
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
