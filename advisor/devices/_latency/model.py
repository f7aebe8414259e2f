"""Predict the latencies of models on a target from its posterior, and choose models to measure.

The predictor describes the models as :class:`Queries` and gets an :class:`Estimate` back. A
calibration asks :func:`choose_models` which models tell most about all latencies, or
:func:`choose_decisive` which one could become the pick for a budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.core import CONFIDENCE
from advisor.devices._latency.agreement import DOUBTED
from advisor.devices._latency.base import (
    CONSENSUS_SCALE,
    IDENTITY_SCALE,
    LEVEL_VARIANCE,
    Base,
    Indices,
)
from advisor.devices._latency.contrasts import COUNTS, PECULIARITY, Contrasts
from advisor.devices._latency.features import Models
from advisor.devices._latency.model_space import Floats, ModelSpace, invert_matrix, self_covariance
from advisor.devices._latency.posterior import PREDICTION_NOISE, SCALES, LatencyPosterior
from advisor.devices._latency.table import Column

# A model or family counts as known if at least this share
# of the resembled targets has measured it.
SUPPORTED = 0.5

NAMED = 1.5
"""A measurement is named if it contradicts the others by more than this factor: networks such as
vision transformers differ by less without any error.
"""

_FEATURE_NOISE = 0.15
_MARGIN = 0.25
"""A model is outside if its MACs or parameters are this far (natural logarithm) beyond those
of measured models.
"""

_TYPICAL_SCALE = SCALES[3]
_ANCHOR_PECULIARITY = 4 * PECULIARITY
"""It is larger than in prediction:
an anchor must represent many models, as they differ on the known targets.
"""


@dataclass(frozen=True, eq=False)
class Queries:
    """The models to predict, described relative to the fitted model."""

    known: NDArray[np.intp]  # (queries,) index of the model in the table, or -1
    families: NDArray[np.intp]  # (queries,) code of the family, or -1
    estimates: Floats  # (queries, base columns) estimates of the additive model
    towards: Floats  # (queries, known models) kernel
    itself: Floats  # (queries,) kernel of each model with itself
    variance: Floats  # (queries,) variance of an estimate from features alone
    # (queries, COUNTS) log MACs, log parameters, log input size, log layers, NaN if unknown.
    counts: Floats


@dataclass(frozen=True, eq=False)
class Estimate:
    """Predictions (queries,) on one target in the logarithm of milliseconds."""

    mean: Floats  # log latency
    deviation: Floats  # standard deviation before calibration, towards shorter latencies
    above: Floats  # the same towards longer latencies
    support: NDArray[np.intp]  # index into :data:`advisor.devices._latency.calibration.SUPPORT`
    outside: Floats  # distance (log) of its size from the measured range, 0 within


def queries_of(base: Base, models: Models) -> Queries:
    """Return queries for any models: by name where the table has them, by features else."""
    position = {name: i for i, name in enumerate(base.table.models)}
    places = []
    families = []
    features = []
    for model in models:
        places.append(position.get(model.name, -1))
        families.append(model.family)
        features.append(model.vector)
    known = np.array(places, dtype=np.intp)
    vectors = np.array(features)
    points = base.space.points_of(vectors, families)
    towards = base.space.towards(points)
    alone = self_covariance(points)
    estimates: Floats = base.levels[None] + towards @ base.weights
    named = known >= 0
    # A known model has an individual part besides its features, which `towards` does not have.
    towards[named] = base.gram[known[named]]
    alone[named] = np.diag(base.gram)[known[named]]
    estimates[named] = base.filled.T[known[named]]
    variance = feature_variance(base, towards, alone)
    return Queries(
        known, points.families, estimates, towards, alone, variance, vectors[:, :COUNTS]
    )


def queries_of_known(base: Base, models: Indices) -> Queries:
    """Return queries for models of the table."""
    towards = base.gram[models]
    alone = np.diag(base.gram)[models]
    return Queries(
        known=models,
        families=base.space.points.families[models],
        estimates=base.filled.T[models],
        towards=towards,
        itself=alone,
        variance=feature_variance(base, towards, alone),
        counts=base.table.features[models, :COUNTS],
    )


def feature_variance(base: Base, towards: Floats, alone: Floats) -> Floats:
    """Return the variance of a model's consensus given all other models with known features."""
    explained = ((towards @ _invert_covariance(base.space)) * towards).sum(axis=1)
    unexplained = np.maximum(alone - explained, 0)
    return np.asarray(CONSENSUS_SCALE**2 * unexplained * 0.5 + 2 * IDENTITY_SCALE**2)


@lru_cache(maxsize=4)
def _invert_covariance(space: ModelSpace) -> Floats:
    """Return the inverse covariance of the known models by their features,
    computed once for each fit.
    """
    gram = space.within()
    return invert_matrix(gram + _FEATURE_NOISE**2 * np.eye(len(gram)))


def estimate_latencies(
    posterior: LatencyPosterior, queries: Queries, log_sd: float = 0.0
) -> Estimate:
    """Predict ``queries``, described relative to the posterior's base, on one target.

    ``log_sd`` is a further deviation (log), as of latencies of another form.
    """
    base = posterior.base
    of_model, of_family = _share_measured(base, posterior, queries)
    mean, variance = posterior.predict(
        queries.estimates, queries.counts, queries.towards, queries.itself
    )
    variance = variance + (1 - of_model) * queries.variance
    below, beyond = _measure_outside(base, posterior, queries)
    deviation = np.sqrt(variance)
    # The places in SUPPORT: the model itself, another one of its family, or neither.
    support_by_family = np.where(of_family >= SUPPORTED, 1, 2)
    support = np.where(of_model >= SUPPORTED, 0, support_by_family)
    outside = np.maximum(below, beyond)
    # A network below the measured range takes no longer than one at its edge:
    # only a launch is left.
    towards_shorter = np.hypot(deviation * (1 + outside), log_sd)
    towards_longer = np.hypot(deviation * (1 + beyond), log_sd)
    return Estimate(mean, towards_shorter, towards_longer, support, outside)


def find_contradicting(posterior: LatencyPosterior, values: Floats) -> dict[str, float]:
    """Return the measured models whose latencies contradict the others.

    ``values`` are the latencies (log ms) in the order of ``seen``.

    Each is more likely wrong than right,
    and differs by a factor over :data:`NAMED` from what the others expect (ms).
    """
    is_doubted = posterior.doubts > DOUBTED
    doubted = posterior.seen[is_doubted]
    expected = estimate_latencies(posterior, queries_of_known(posterior.base, doubted)).mean
    names = posterior.base.table.models
    expected_ms = {}
    for model, mean, value in zip(doubted, expected, values[is_doubted], strict=True):
        if abs(value - mean) > np.log(NAMED):
            expected_ms[names[model]] = float(np.exp(mean))
    return expected_ms


def _share_measured(
    base: Base, posterior: LatencyPosterior, queries: Queries
) -> tuple[Floats, Floats]:
    """Return the shares (queries,) of the resembled targets that measured each model,
    and one of its family.

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


def _measure_outside(
    base: Base, posterior: LatencyPosterior, queries: Queries
) -> tuple[Floats, Floats]:
    """Return how far each model's MACs or parameters are below and above those
    that the prediction is based on.
    """
    unmeasured = np.isnan(base.table.values[posterior.shares > 0.01]).all(axis=0)
    used = np.logical_not(unmeasured)
    # What was measured on the target itself counts as well.
    used[posterior.seen] = True
    sizes = base.table.features[used, :2]
    sizes = sizes[~np.isnan(sizes).any(axis=1)]
    if not len(sizes):
        return np.zeros(len(queries.known)), np.zeros(len(queries.known))
    queried = queries.counts[:, :2]
    below = _measure_farthest(sizes.min(axis=0) - _MARGIN - queried)
    above = _measure_farthest(queried - sizes.max(axis=0) - _MARGIN)
    return below, above


def _measure_farthest(distances: Floats) -> Floats:
    """Return the larger of each model's two distances (queries, 2);
    0 within the range, or if a size is unknown.
    """
    known = ~np.isnan(distances).any(axis=1)
    beyond = np.nan_to_num(np.maximum(distances, 0))
    return np.where(known, beyond.max(axis=1), 0.0)


def choose_models(
    base: Base,
    column: Column,
    candidates: Sequence[int],
    wanted: int,
    costs: Mapping[int, float] | None = None,
) -> tuple[int, ...]:
    """Choose ``wanted`` models greedily by how much variance
    of all candidates a measurement removes; the best first.

    ``column`` is the target to be measured, ``candidates`` are indices of models. The information
    is divided by the cost of each (such as the size of its file), relative to 1 for a free one.
    """
    index = np.array(candidates, dtype=np.intp)
    # The covariance of the models' latencies on a target of this kind
    # before any measurement there.
    contrasts = Contrasts.of(base, column, np.arange(len(base.table.columns)))
    seen = contrasts.coordinates(
        base.filled.T[index], base.table.features[index, :COUNTS], _ANCHOR_PECULIARITY
    )
    cover = _TYPICAL_SCALE**2 * (base.gram[np.ix_(index, index)] + seen @ seen.T) + LEVEL_VARIANCE
    cost_of = costs or {}
    price = np.array([1.0 + cost_of.get(int(model), 0.0) for model in index])
    chosen: list[int] = []
    for _ in range(min(wanted, len(index))):
        removed = np.square(cover).sum(axis=0) / (np.diag(cover) + PREDICTION_NOISE**2)
        gains = removed / price
        # After its measurement a model has hardly any variance,
        # but rounding could still make it the best one.
        gains[chosen] = -np.inf
        best = int(np.argmax(gains))
        chosen.append(best)
        # What a measurement leaves of the covariance (Gaussian conditioning),
        # before the next model is chosen.
        cover = cover - np.outer(cover[:, best], cover[best]) / (
            cover[best, best] + PREDICTION_NOISE**2
        )
    return tuple(int(index[i]) for i in chosen)


def choose_decisive(
    chances: Floats, accuracy: Floats, distance: Floats, measured: NDArray[np.bool_]
) -> int:
    """Return the index of the model whose measurement raises the accuracy of the pick most,
    by expectation.

    The pick is the most accurate model that meets a budget with :data:`advisor.core.CONFIDENCE`. A
    measured model becomes it if it meets the budget and is more accurate. If no model can, the one
    nearest to the budget counts.

    Args:
        chances: probability of each model to meet the budget.
        accuracy: published accuracy of each in percent; 0 if none is published.
        distance: of its predicted latency from the budget (log).
        measured: whether it was measured; at least one was not.
    """
    sure = accuracy[chances >= CONFIDENCE]
    # Below every accuracy, so that a network without a published one (0) is better than no pick.
    reached = sure.max() if len(sure) else -1.0
    gains = np.where(measured, 0.0, chances * np.maximum(accuracy - reached, 0.0))
    if gains.max() > 0:
        return int(np.argmax(gains))
    return int(np.argmin(np.where(measured, np.inf, distance)))
