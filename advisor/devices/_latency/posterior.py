"""Infer from a target's measurements which known targets it resembles,
and how it deviates from them.

The predictor makes one posterior for each target and form (:func:`posterior_of`), and
``model.py`` predicts models from it. Without measurements, it is the target's place: a mix of
measured targets whose processors are like its own (``placement.py``), or another release on the
same silicon (``releases.py``). Its likeness says how comparable the known targets are:
:data:`advisor.devices._latency.table.LIKENESSES`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.devices._latency.agreement import choose_agreeing, student_density
from advisor.devices._latency.base import LEVEL_VARIANCE, Base, Indices
from advisor.devices._latency.contrasts import COUNTS, Contrasts
from advisor.devices._latency.model_space import Floats, invert_matrix
from advisor.devices._latency.placement import (
    is_beyond,
    measure_other_form,
    weigh_targets,
    with_place,
)
from advisor.devices._latency.releases import release_deviation, with_releases
from advisor.devices._latency.table import Column, comparable_builds, find_likeness, other_release

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations (log) by which a target may deviate from the one that it resembles."""

PREDICTION_NOISE = 0.05  # Standard deviation (log) of a prediction that nothing else explains
LEAST_SPREAD = 0.05
DOUBTED_VARIANCE = 4.0  # Variance (log) of a measurement that is wrong

_LEAST_SHARE = 1e-4  # A reference with less than this probability is dropped

# Log weights of references before any measurement.
_SAME_KIND = 6.0
_SAME_RUNTIME = 5.0
_SAME_PRECISION = 5.0
_SAME_DEVICE = 4.0
_OTHER_RELEASE = 5.0
_UNMEASURED = 0.8


@dataclass(frozen=True, eq=False)
class LatencyPosterior:
    """A column's latencies as a combination of other columns and of its measured models."""

    # The additive model, with the target's other releases as they would be at its release.
    base: Base
    column: Column  # the target
    seen: Indices  # (n,) indices of the models measured on it
    shares: Floats  # (base columns,) how much it resembles each column
    combination: Floats  # (base columns,) weights of the columns' estimates
    coefficients: Floats  # (n,) weights of the covariances with the measured models
    level: float  # constant added to the combination
    scale: float  # standard deviation of the deviation from the combination
    contrasts: Contrasts  # the directions in which models differ on targets like this one
    seen_contrasts: Floats  # (n, directions) coordinates of the measured models
    inverse: Floats  # (n, n) inverse covariance of the measured values at that scale
    spread: float  # standard deviation (log) between the predictions of the resembled columns
    # How comparable the known columns are (:func:`advisor.devices._latency.table.find_likeness`).
    likeness: str
    # (n,) probability that each measurement is wrong (:func:`.choose_agreeing`).
    doubts: Floats
    # Whether its accelerator is of an earlier or a later generation than all known ones.
    beyond: bool = False

    def predict(
        self,
        estimates: Floats,
        counts: Floats,
        towards: Floats,
        itself: Floats,
    ) -> tuple[Floats, Floats]:
        """Return means and variances (queries,) of the log latency.

        ``estimates`` (queries, base columns) are those of :class:`Base`, ``counts`` (queries,
        COUNTS) logarithms, ``towards`` (queries, known models) is the kernel, ``itself``
        (queries,) that of each model with itself.
        """
        mean = estimates @ self.combination + self.level
        if not len(self.seen):
            return mean, np.full(len(estimates), self.spread**2 + PREDICTION_NOISE**2)
        contrasts = self.contrasts.coordinates(estimates, counts)
        alike = towards[:, self.seen] + contrasts @ self.seen_contrasts.T
        cover = self.scale**2 * alike + LEVEL_VARIANCE
        total = self.scale**2 * (itself + np.square(contrasts).sum(axis=1)) + LEVEL_VARIANCE
        total = total - ((cover @ self.inverse) * cover).sum(axis=1)
        return (
            mean + alike @ self.coefficients,
            np.maximum(total, 0.0) + PREDICTION_NOISE**2 + self.spread**2,
        )


def posterior_of(
    base: Base,
    column: Column,
    seen: Indices,
    values: Floats,
    *,
    excluded: Sequence[int] = (),
) -> LatencyPosterior:
    """Return the posterior of a target from its measurements;
    without any, from its processor and similar targets.

    ``seen`` (n,) are the models measured on it, ``values`` (n,) their log latencies, ``excluded``
    the columns of the base that cannot be references (the target itself).
    """
    candidates = np.setdiff1d(
        np.arange(len(base.table.columns)), np.asarray(excluded, dtype=np.intp)
    )
    wider, spreads = with_releases(base, column, candidates)
    if not len(seen):
        return _place_unmeasured(wider, column, candidates, spreads)
    return _place_measured(wider, column, seen, values, candidates, len(spreads))


def _place_measured(
    base: Base,
    column: Column,
    seen: Indices,
    values: Floats,
    candidates: Indices,
    release_count: int,
) -> LatencyPosterior:
    """Return a target's posterior: every reference and deviation is weighted
    by how well it explains the measurements.

    ``candidates`` are the indices of the measured columns that can be references;
    ``release_count`` columns follow. The target's place is one more reference, as likely as all
    single targets of its build together.
    """
    contrasts = Contrasts.of(base, column, candidates)
    columns = len(base.table.columns)
    references = np.append(candidates, np.arange(columns - release_count, columns))
    wider, place = with_place(base, column, references)
    references = np.append(references, np.arange(columns, len(wider.table.columns)))
    seen_contrasts = contrasts.coordinates(
        wider.filled.T[seen], wider.table.features[seen, :COUNTS]
    )
    gram = base.gram[np.ix_(seen, seen)] + seen_contrasts @ seen_contrasts.T
    residuals = values[None] - wider.filled[np.ix_(references, seen)]
    prior = _compute_priors(wider, column, references, placed=len(place.weights) > 0)
    # What a reference has not measured is an estimate, which may fit by chance.
    prior -= _UNMEASURED * np.isnan(wider.table.values[np.ix_(references, seen)]).sum(axis=1)
    explanation = _explain_measurements(prior, residuals, gram)
    resemblance = np.zeros(len(wider.table.columns))
    resemblance[references] = explanation.shares.sum(axis=1)
    scale = float(np.sqrt(explanation.shares.sum(axis=0) @ np.square(SCALES)))
    doubts = np.maximum(explanation.doubts, 0.0)
    cover = _make_covariance(gram, scale) + np.diag(DOUBTED_VARIANCE * doubts)
    influence = np.abs(place.weights) / max(np.abs(place.weights).sum(), 1e-9)
    return LatencyPosterior(
        base=base,
        column=column,
        seen=seen,
        shares=_share_place(resemblance, influence),
        combination=_share_place(resemblance, place.weights),
        coefficients=explanation.coefficients,
        level=explanation.level + float(resemblance[-1]) * place.shift,
        scale=scale,
        contrasts=contrasts,
        seen_contrasts=seen_contrasts,
        inverse=invert_matrix(cover),
        spread=_measure_spread(wider, resemblance),
        likeness=_likeness_of_target(base, column, candidates, release_count),
        doubts=doubts,
    )


@dataclass(frozen=True, eq=False)
class _Explanation:
    """A target's measurements in terms of references and deviations from them."""

    shares: Floats  # (references, scales) probability of each reference and deviation
    coefficients: Floats  # (n,) weights of the covariances with the measured models
    level: float  # constant added to the combination
    doubts: Floats  # (n,) probability that each measurement is wrong, up to rounding


def _explain_measurements(prior: Floats, residuals: Floats, gram: Floats) -> _Explanation:
    """Weigh the references by how well they explain the measurements that can be believed.

    ``prior`` (references,) are log weights, ``residuals`` (references, n) the measurements minus
    those of each reference, ``gram`` (n, n) is the kernel between the measured models.
    """
    measured = residuals.shape[1]
    coefficients = np.zeros(measured)
    level = 0.0
    shares = np.zeros((len(prior), len(SCALES)))
    doubts = np.ones(measured)
    covers = [_make_covariance(gram, scale) for scale in SCALES]
    # Mostly one set with weight 1. If several measurements may be wrong,
    # their answers are averaged.
    for weight, believed in choose_agreeing(prior, residuals, covers):
        believed_gram = gram[np.ix_(believed, believed)]
        believed_residuals = residuals[:, believed]
        inverses = [invert_matrix(_make_covariance(believed_gram, scale)) for scale in SCALES]
        believed_shares = _weigh_references(prior, believed_residuals, inverses)
        shares += weight * believed_shares
        doubts[believed] -= weight
        for position, (scale, precision) in enumerate(zip(SCALES, inverses, strict=True)):
            weights = weight * believed_shares[:, position] @ believed_residuals @ precision
            coefficients[believed] += scale**2 * weights
            level += LEVEL_VARIANCE * float(weights.sum())
    return _Explanation(shares, coefficients, level, doubts)


def _share_place(resemblance: Floats, place: Floats) -> Floats:
    """Return the resemblance (base columns,) without the place, the last column,
    whose share its targets get.
    """
    if not len(place):
        return resemblance
    shares: Floats = resemblance[:-1] + resemblance[-1] * place
    return shares


def _weigh_references(prior: Floats, residuals: Floats, inverses: Sequence[Floats]) -> Floats:
    """Return the posterior probability (candidates, scales) of each reference and deviation."""
    logs = []
    for precision in inverses:
        squares = ((residuals @ precision) * residuals).sum(axis=1)
        logs.append(
            prior
            + student_density(squares, float(np.linalg.slogdet(precision)[1]), residuals.shape[1])
        )
    shares: Floats = np.exp(np.stack(logs, axis=1) - np.max(logs))
    # Hundreds of references with a share of nearly nothing would make each prediction slow.
    shares[shares < _LEAST_SHARE] = 0
    shares /= shares.sum()
    return shares


def _make_covariance(gram: Floats, scale: float) -> Floats:
    return np.asarray(scale**2 * gram + LEVEL_VARIANCE + PREDICTION_NOISE**2 * np.eye(len(gram)))


def _measure_spread(base: Base, resemblance: Floats) -> float:
    """Return the standard deviation between the shapes of the references,
    weighted by their shares.
    """
    used = np.flatnonzero(resemblance)
    shapes = base.filled[used] - base.filled[used].mean(axis=1, keepdims=True)
    departure = shapes - resemblance[used] @ shapes
    variances = resemblance[used] @ np.square(departure)
    return float(np.sqrt(variances.mean()))


def _compute_priors(base: Base, column: Column, candidates: Indices, *, placed: bool) -> Floats:
    """Return the log weights (candidates,) of references;
    if ``placed``, the last one is the place of the target.
    """
    priors = np.array([_compute_prior(base.table.columns[i], column) for i in candidates])
    if placed:
        of_build = priors[:-1] >= _SAME_KIND + _SAME_PRECISION + _SAME_RUNTIME
        targets = max(int(np.count_nonzero(of_build)), 1)
        priors[-1] += np.log(targets)
    return priors


def _compute_prior(other: Column, column: Column) -> float:
    same_kind = other.kind == column.kind
    same_runtime = other.runtime == column.runtime and comparable_builds(other, column)
    weight = 0.0
    if same_kind:
        weight += _SAME_KIND
    if other.precision == column.precision:
        weight += _SAME_PRECISION
    if same_runtime:
        weight += _SAME_RUNTIME
    if same_kind and other.device == column.device:
        weight += _SAME_DEVICE
    if same_runtime and other_release(other, column):
        weight -= _OTHER_RELEASE
    return weight


def _place_unmeasured(
    base: Base, column: Column, candidates: Indices, release_spreads: Sequence[float]
) -> LatencyPosterior:
    """Return the posterior of a target without measurements:
    another release on it, or its place among the others.

    ``release_spreads`` are the deviations of the other releases' levels,
    the last columns of the base.
    """
    columns = len(base.table.columns)
    shift = 0.0
    if release_spreads:
        combination = np.zeros(columns)
        spread = min(release_spreads)
        # Of several other releases on the silicon, the nearest one alone.
        nearest = columns - len(release_spreads) + release_spreads.index(spread)
        combination[nearest] = 1.0
    else:
        place = weigh_targets(base, column, candidates)
        combination = place.weights
        shift = place.shift + measure_other_form(base, column, candidates)
        unknown_release = release_deviation(base.table, column, candidates)
        spread = float(np.hypot(place.deviation, unknown_release))
    none = np.array([], dtype=np.intp)
    empty = np.zeros((0, 0))
    return LatencyPosterior(
        base=base,
        column=column,
        seen=none,
        shares=np.abs(combination) / max(np.abs(combination).sum(), 1e-9),
        combination=combination,
        coefficients=np.zeros(0),
        level=shift,
        scale=0.0,
        contrasts=Contrasts(none, np.zeros(0), np.zeros(0), np.ones(0)),
        seen_contrasts=empty,
        inverse=empty,
        spread=max(spread, LEAST_SPREAD),
        likeness=_likeness_of_target(base, column, candidates, len(release_spreads)),
        doubts=np.zeros(0),
        beyond=not release_spreads and is_beyond(base, column, candidates),
    )


def _likeness_of_target(
    base: Base, column: Column, candidates: Indices, release_count: int
) -> str:
    likeness = find_likeness(column, (base.table.columns[i] for i in candidates))
    return "release" if release_count and likeness == "same" else likeness
