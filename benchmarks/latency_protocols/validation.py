"""Evaluate predictions: hide measurements, predict them and collect the errors.

A fold hides some silicon (all its targets) and some families of models at once. One fit then gives errors for known,
hardly known and unknown targets, each for models that are known on other targets and for unknown models.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.devices.latency.base import Base, fit_base
from advisor.devices.latency.conformal import ANCHOR_STEPS, LEVELS, SUPPORT, Calibration, regime_of
from advisor.devices.latency.contrasts import COUNTS, Indices
from advisor.devices.latency.kernels import Floats
from advisor.devices.latency.model import Estimate, Queries, estimate, feature_variance
from advisor.devices.latency.posterior import posterior_of
from advisor.devices.latency.table import Column, LatencyTable

FOLDS = 12
ANCHORS = (0, 2, 5, 10)
_EVALUATED = 4
_LEAST = 60


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of one target under one condition.

    Attributes:
        column: the target.
        anchors: number of models measured on it before the prediction.
        models: (n,) indices of the predicted models.
        estimate: the predictions.
        truth: (n,) log latencies.
    """

    column: Column
    anchors: int
    models: Indices
    estimate: Estimate
    truth: Floats


def fold_of(name: str, folds: int = FOLDS) -> int:
    """Return the fold of a silicon or family from its name; it is the same on every machine."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % folds


def hide(table: LatencyTable, columns: Iterable[int] = (), models: Iterable[int] = ()) -> tuple[LatencyTable, Indices]:
    """Return the table without some columns and some models' values, and the indices of the remaining columns."""
    values = table.values.copy()
    values[list(columns)] = np.nan
    values[:, list(models)] = np.nan
    left = np.flatnonzero(~np.isnan(values).all(axis=1))
    return subset(replace(table, values=values), left), left


def subset(table: LatencyTable, columns: Indices) -> LatencyTable:
    """Return the table with some of the columns and all models."""
    return replace(table, columns=tuple(table.columns[i] for i in columns), values=table.values[columns])


def calibrate(table: LatencyTable, folds: int = FOLDS) -> Calibration:
    """Return the calibration for ``table``: the standardised errors of every regime from cross-validation."""
    errors: dict[str, list[float]] = defaultdict(list)
    for result in cross_validate(table, folds):
        standardised = (result.truth - result.estimate.mean) / result.estimate.deviation
        for value, support in zip(standardised, result.estimate.support, strict=True):
            errors[regime_of(result.anchors, SUPPORT[support])].append(float(value))
    return calibration_of(table.fingerprint(), errors)


def calibration_of(data_hash: str, errors: Mapping[str, Sequence[float]]) -> Calibration:
    """Return the calibration for some errors; a regime with few errors also uses those of its neighbours."""
    quantiles, counts = {}, {}
    for support in SUPPORT:
        for step in range(len(ANCHOR_STEPS) + 1):
            pooled = _pooled(errors, step, support)
            counts[f"{step}-{support}"] = len(pooled)
            quantiles[f"{step}-{support}"] = [round(float(q), 4) for q in np.quantile(pooled, LEVELS)]
    return Calibration(data_hash, quantiles, counts)


def _pooled(errors: Mapping[str, Sequence[float]], step: int, support: str) -> list[float]:
    steps = sorted(range(len(ANCHOR_STEPS) + 1), key=lambda other: abs(other - step))
    pooled: list[float] = []
    for other in steps:
        pooled.extend(errors.get(f"{other}-{support}", ()))
        if len(pooled) >= _LEAST:
            break
    if not pooled:
        raise ValueError("there are no measurements to estimate the errors of predictions")
    return pooled


def cross_validate(table: LatencyTable, folds: int = FOLDS, anchors: Sequence[int] = ANCHORS) -> Iterator[Errors]:
    """Yield the errors of every fold: hidden targets predicted from ``anchors`` models, and hidden families."""
    for fold in range(folds):
        targets = [i for i, c in enumerate(table.columns) if fold_of(c.silicon, folds) == fold]
        families = [i for i, family in enumerate(table.families) if fold_of(family, folds) == fold]
        shown, left = hide(table, targets, families)
        base = fit_base(shown)
        yield from _hidden_targets(table, base, targets, families, anchors)
        yield from _hidden_families(table, base, left, families)
        yield from known_targets(table, fold, folds)
        yield from _hidden_models(table, fold, folds)


def _hidden_targets(
    table: LatencyTable, base: Base, targets: Sequence[int], families: Sequence[int], anchors: Sequence[int]
) -> Iterator[Errors]:
    hidden = set(families)
    for index in targets:
        measured = np.flatnonzero(~np.isnan(table.values[index]))
        choice = np.array([m for m in measured if m not in hidden], dtype=np.intp)
        generator = np.random.default_rng(fold_of(repr(table.columns[index]), 2**32))
        for count in anchors:
            if len(choice) >= count + _EVALUATED:
                seen = np.sort(generator.permutation(choice)[:count])
                yield predict_hidden(table, base, index, seen, np.setdiff1d(measured, seen))


def _hidden_families(table: LatencyTable, base: Base, left: Indices, families: Sequence[int]) -> Iterator[Errors]:
    """Yield errors of families that no target has measured, on known targets."""
    for position, index in enumerate(left):
        measured = np.flatnonzero(~np.isnan(table.values[index]))
        hidden = np.intersect1d(measured, np.asarray(families, dtype=np.intp))
        if len(hidden):
            yield predict_hidden(table, base, int(index), np.setdiff1d(measured, hidden), hidden, (position,))


def _hidden_models(table: LatencyTable, fold: int, folds: int) -> Iterator[Errors]:
    """Yield errors of single models that no target has measured: other sizes of known families."""
    models = [i for i, name in enumerate(table.models) if fold_of(name, folds) == fold]
    shown, left = hide(table, (), models)
    yield from _hidden_families(table, fit_base(shown), left, models)


def known_targets(table: LatencyTable, fold: int, folds: int = FOLDS) -> Iterator[Errors]:
    """Yield errors of families that one target has not measured but others have; each column hides other families."""
    values = table.values.copy()
    for index, column in enumerate(table.columns):
        name = f"{column.silicon}/"
        hidden = [m for m, family in enumerate(table.families) if fold_of(name + family, folds) == fold]
        values[index, hidden] = np.nan
    left = np.flatnonzero(~np.isnan(values).all(axis=1))
    base = fit_base(subset(replace(table, values=values), left))
    for position, index in enumerate(int(i) for i in left):
        seen = np.flatnonzero(~np.isnan(values[index]))
        hidden_here = np.setdiff1d(np.flatnonzero(~np.isnan(table.values[index])), seen)
        if len(hidden_here):
            yield predict_hidden(table, base, index, seen, hidden_here, (position,))


def predict_hidden(
    table: LatencyTable, base: Base, index: int, seen: Indices, hidden: Indices, excluded: Sequence[int] = ()
) -> Errors:
    """Predict the ``hidden`` models of column ``index`` from the ``seen`` ones, with a fit without the hidden ones."""
    column = table.columns[index]
    posterior = posterior_of(base, column, seen, table.values[index, seen], excluded=excluded)
    queries = queries_of_known(base, hidden)
    # A model that no column of the base has measured is described by its features alone.
    return Errors(column, len(seen), hidden, estimate(base, posterior, queries), table.values[index, hidden])


def queries_of_known(base: Base, models: Indices) -> Queries:
    """Return queries for models of the table."""
    towards, alone = base.gram[models], np.diag(base.gram)[models]
    return Queries(
        known=models,
        families=base.space.points.families[models],
        estimates=base.filled.T[models],
        towards=towards,
        itself=alone,
        variance=feature_variance(base, towards, alone),
        counts=base.table.features[models, :COUNTS],
    )
