"""Evaluate predictions: hide measurements, predict them and collect the errors.

A fold hides some silicon (all its targets) and some families of models at once. One fit then gives errors for known,
hardly known and unknown targets, each for models that are known on other targets and for unknown models.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from advisor.devices._latency.base import Base, Indices, fit_base
from advisor.devices._latency.model import Estimate, choose_models, estimate_latencies, queries_of_known
from advisor.devices._latency.model_space import Floats
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import Column, LatencyTable, are_related_releases, find_likeness, runtime_family

FOLDS = 12
ANCHORS = (0, 2, 5, 10)
_EVALUATED = 4
_FEW_FOLDS = 4


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of one target under one condition.

    Attributes:
        column: the target.
        anchors: number of models measured on it before the prediction.
        models: (n,) indices of the predicted models.
        estimate: the predictions.
        truth: (n,) log latencies.
        likeness: how comparable the other targets were.
    """

    column: Column
    anchors: int
    models: Indices
    estimate: Estimate
    truth: Floats
    likeness: str = "same"


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


@lru_cache(maxsize=1)
def all_errors(table: LatencyTable, folds: int = FOLDS) -> tuple[Errors, ...]:
    """Return the errors of :func:`cross_validate`; a process computes them once for a table."""
    return tuple(cross_validate(table, folds))


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
    for fold in range(_FEW_FOLDS):
        yield from _hidden_sources(table, fold, anchors)
        yield from _hidden_releases(table, fold, anchors)
        yield from _hidden_cores(table, fold, anchors)
    yield from _hidden_versions(table, anchors)


def _hidden_sources(table: LatencyTable, fold: int, anchors: Sequence[int]) -> Iterator[Errors]:
    """Yield errors of hidden silicon, predicted without any target of the same kind and runtime."""
    columns = table.columns
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, column in enumerate(columns):
        groups[column.kind, runtime_family(column.runtime)].append(index)
    for (kind, _), members in groups.items():
        of_fold = [i for i in members if fold_of(columns[i].silicon, _FEW_FOLDS) == fold]
        if of_fold and any(c.kind == kind and i not in members for i, c in enumerate(columns)):
            silicon = {columns[i].silicon for i in of_fold}
            hidden = {*members, *(i for i, c in enumerate(columns) if c.silicon in silicon)}
            yield from _hidden_targets(table, fit_base(hide(table, hidden)[0]), of_fold, (), anchors)


def _hidden_cores(table: LatencyTable, fold: int, anchors: Sequence[int]) -> Iterator[Errors]:
    """Yield errors of targets on designs of cores that no other target has."""
    members = [i for i, c in enumerate(table.columns) if c.core and fold_of(c.core, _FEW_FOLDS) == fold]
    if members:
        shown, left = hide(table, members)
        kinds = {table.columns[i].kind for i in left}
        of_kind = [i for i in members if table.columns[i].kind in kinds]
        yield from _hidden_targets(table, fit_base(shown), of_kind, (), anchors)


def _hidden_versions(table: LatencyTable, anchors: Sequence[int]) -> Iterator[Errors]:
    """Yield errors of targets whose version of the runtime no other target has; their devices stay."""
    for version in sorted({(c.kind, runtime_family(c.runtime), c.version) for c in table.columns if c.version}):
        members = [i for i, c in enumerate(table.columns) if (c.kind, runtime_family(c.runtime), c.version) == version]
        others = [c for i, c in enumerate(table.columns) if i not in members]
        of_version = [i for i in members if find_likeness(table.columns[i], others) == "version"]
        if of_version:
            yield from _hidden_targets(table, fit_base(hide(table, members)[0]), of_version, (), anchors)


def _hidden_releases(table: LatencyTable, fold: int, anchors: Sequence[int]) -> Iterator[Errors]:
    """Yield errors of releases on hidden silicon that was measured with another release; others ran both."""
    of_release: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for i, column in enumerate(table.columns):
        if column.version:
            of_release[column.kind, runtime_family(column.runtime), column.version].append(i)
    for members in of_release.values():
        of_fold = [i for i in members if fold_of(table.columns[i].silicon, _FEW_FOLDS) == fold]
        related = [i for i in of_fold if any(are_related_releases(table.columns[i], c) for c in table.columns)]
        if related:
            yield from _hidden_targets(table, fit_base(hide(table, of_fold)[0]), related, (), anchors)


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
                sets = [generator.permutation(choice)[:count]]
                # ``devices calibrate`` chooses what it measures; others measure what they have.
                sets += [choose_models(base, table.columns[index], [int(m) for m in choice], count)] if count else []
                for each in sets:
                    seen = np.sort(np.array(each, dtype=np.intp))
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
    queries = queries_of_known(posterior.base, hidden)
    # A model that no column of the base has measured is described by its features alone.
    truth = table.values[index, hidden]
    return Errors(column, len(seen), hidden, estimate_latencies(posterior, queries), truth, posterior.likeness)
