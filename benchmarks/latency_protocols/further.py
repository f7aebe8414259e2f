"""Protocols of a new target with few targets like it, of a wrong measurement, and of a target's next release."""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.model import choose_models, estimate_latencies, queries_of_known
from advisor.devices._latency.posterior import posterior_of
from advisor.devices._latency.table import Column, LatencyTable, are_related_releases, runtime_family
from benchmarks.latency_protocols import baselines
from benchmarks.latency_protocols.baselines import Floats, Indices
from benchmarks.latency_protocols.protocols import FEATURES, NEAREST, OURS, Score, Scores, Selector, held_out
from benchmarks.latency_protocols.validation import fold_of, hide

PUBLISHED = "the earlier release's figure"
_LEAST = 4


def few_alike(table: LatencyTable, chosen: Selector, anchors: Sequence[int], draws: int) -> Scores:
    """A new device of which ``k`` models are measured; too few targets are alike for the other baselines."""
    scores: Scores = defaultdict(Score)
    for index, column in enumerate(table.columns):
        values = table.values[index]
        known = np.flatnonzero(~np.isnan(values))
        if not chosen(column) or len(known) < max(anchors) + _LEAST:
            continue
        base = fit_base(hide(table, [i for i, c in enumerate(table.columns) if c.silicon == column.silicon])[0])
        form = column.kind, column.precision, column.build
        pool = base.table.values[[(c.kind, c.precision, c.build) == form for c in base.table.columns]]
        generator = np.random.default_rng(fold_of(repr(column), 2**32))
        for count in anchors:
            sets = [(f"k={count}", np.sort(generator.choice(known, count, replace=False))) for _ in range(draws)]
            sets.append(
                (f"k={count}, chosen of all", np.sort(choose_models(base, column, [int(i) for i in known], count)))
            )
            for name, seen in sets:
                rest = np.setdiff1d(known, seen)
                scores[name, OURS].add(_from(base, column, seen, values[seen], rest), values[rest])
                alone = baselines.features_alone(table.features, seen, values[seen], rest)
                scores[name, FEATURES].add(alone, values[rest])
                if len(pool):
                    scores[name, NEAREST].add(_nearest(pool, seen, values[seen], rest), values[rest])
        found = [
            _from(base, column, np.setdiff1d(known, [m]), values[np.setdiff1d(known, [m])], np.array([m]))
            for m in known
        ]
        scores["all others", OURS].add(np.concatenate(found), values[known])
    return dict(scores)


def _nearest(pool: Floats, seen: Indices, values: Floats, rest: Indices) -> Floats:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = baselines.nearest_times_ratio(pool, seen, values, rest)
    return np.where(np.isnan(found), values.mean(), found)


def wrong_anchor(table: LatencyTable, chosen: Selector, count: int, factors: Sequence[float], draws: int = 2) -> Scores:
    """A new device of which ``count`` random models are measured, one of them wrong by a factor."""
    scores: Scores = defaultdict(Score)
    for base, whole, index, pool in held_out(table, chosen, count + _LEAST):
        values = whole.values[index]
        known = np.flatnonzero(~np.isnan(values))
        generator = np.random.default_rng(fold_of(repr(whole.columns[index]), 2**32))
        for _ in range(draws):
            seen = np.sort(generator.choice(known, count, replace=False))
            rest, wrong = np.setdiff1d(known, seen), int(generator.integers(count))
            for factor in factors:
                told = values[seen] + np.log(factor) * (np.arange(count) == wrong)
                name = f"k={count}" if factor == 1 else f"k={count}, one is {factor:g}x"
                scores[name, OURS].add(_from(base, whole.columns[index], seen, told, rest), values[rest])
                scores[name, NEAREST].add(baselines.nearest_times_ratio(pool, seen, told, rest), values[rest])
    return dict(scores)


def _from(base: Base, column: Column, seen: Indices, values: Floats, models: Indices) -> Floats:
    posterior = posterior_of(base, column, seen, values)
    return estimate_latencies(posterior, queries_of_known(posterior.base, models)).mean


def next_release(table: LatencyTable, chosen: Selector) -> Scores:
    """A known device's next release, nothing measured with it; other devices ran both releases."""
    scores: Scores = defaultdict(Score)
    for index, sibling, hidden in _later_releases(table, chosen):
        base = fit_base(hide(table, hidden)[0])
        models = np.flatnonzero(~np.isnan(table.values[[index, sibling]]).any(axis=0))
        truth = table.values[index, models]
        none = np.array([], dtype=np.intp)
        scores["k=0", OURS].add(_from(base, table.columns[index], none, np.zeros(0), models), truth)
        scores["k=0", PUBLISHED].add(table.values[sibling, models], truth)
    return dict(scores)


def _later_releases(table: LatencyTable, chosen: Selector) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the newest release, an earlier one on its device, and what to hide: the newest one on its silicon.

    The newest release has the plain name of the target, to which the others add their version.
    """
    columns = table.columns
    for index, column in enumerate(columns):
        release = (column.silicon, runtime_family(column.runtime), column.version)
        same = [i for i, c in enumerate(columns) if (c.silicon, runtime_family(c.runtime), c.version) == release]
        for sibling, other in enumerate(columns if chosen(column) else ()):
            both = (~np.isnan(table.values[[index, sibling]])).all(axis=0).sum()
            earlier = other.device == column.device and other.target.startswith(f"{column.target}-")
            if earlier and are_related_releases(other, column) and both >= _LEAST:
                yield index, sibling, same
