"""Relate two releases of a runtime: how much faster one is for each network, learnt from devices that ran both."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from advisor.devices.latency.base import Base
from advisor.devices.latency.contrasts import Indices
from advisor.devices.latency.references import distance, other_release, related_releases
from advisor.devices.latency.table import Column, Floats, LatencyTable, inverse, runtime_family

_BY_NETWORK = 0.5
"""Networks differ by this share of what releases differ by; the rest is common to all networks."""

_ON_DEVICE = 0.04
"""Deviation (log) of one network's ratio between devices; within 0.02 to 0.05 for all pairs of shipped releases."""

_ENOUGH = 5
"""A release with fewer measured networks on a target tells nothing about the next release."""

_LEAST_RATE = 0.01
_PRIOR_PAIRS = 5


def change(table: LatencyTable, runtime: str, steps: int) -> float:
    """Return the standard deviation (log) of what ``steps`` minor releases of a runtime change.

    It grows with the root of the distance, at a rate that the table's devices show: the runtime's own, drawn to that
    of all runtimes.
    """
    rates = _rates(table)
    return float(np.sqrt(steps * rates.get(runtime_family(runtime), rates[""])))


@lru_cache(maxsize=4)
def _rates(table: LatencyTable) -> dict[str, float]:
    """Return the variance (log) that one minor release adds, by runtime, and of any runtime under an empty name."""
    squares: dict[str, list[float]] = defaultdict(list)
    for one, other in _pairs(table.columns, range(len(table.columns))):
        column = table.columns[one]
        steps = distance(column.version, table.columns[other].version)
        gaps = table.values[one] - table.values[other]
        if not np.isnan(gaps).all():
            squares[runtime_family(column.runtime)].append(float(np.nanmean(np.square(gaps))) / steps)
    means = {runtime: float(np.mean(found)) for runtime, found in squares.items()}
    overall = max(float(np.mean(list(means.values()))) if means else 0.0, _LEAST_RATE**2)
    drawn = {
        runtime: (len(found) * means[runtime] + _PRIOR_PAIRS * overall) / (len(found) + _PRIOR_PAIRS)
        for runtime, found in squares.items()
    }
    return {**drawn, "": overall}


def _pairs(columns: Sequence[Column], indices: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pairs of columns that differ by the release only."""
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i in indices:
        column = columns[i]
        if column.version:
            family = runtime_family(column.runtime)
            alike[column.device, column.kind, column.precision, family, str(column.speed)].append(i)
    return [
        pair
        for group in alike.values()
        for pair in combinations(group, 2)
        if other_release(columns[pair[0]], columns[pair[1]])
    ]


def with_releases(base: Base, column: Column, candidates: Indices) -> tuple[Base, tuple[float, ...]]:
    """Return the base with a column for each other release that the target's silicon was measured with.

    Each is the other release's latencies times the ratio of the two releases: for every network the one that other
    devices show, as far as they ran both.

    Args:
        base: the additive model.
        column: the target.
        candidates: columns of the base that can be references.

    Returns:
        the base; the new columns are its last ones. And the deviation (log) of each one's level.
    """
    counts = (~np.isnan(base.table.values)).sum(axis=1)
    siblings = [int(i) for i in candidates if counts[i] >= _ENOUGH and related_releases(base.table.columns[i], column)]
    spreads = []
    for sibling in siblings:
        base, spread = _translated(base, column, sibling, candidates)
        spreads.append(spread)
    return base, tuple(spreads)


def _translated(base: Base, column: Column, sibling: int, candidates: Indices) -> tuple[Base, float]:
    """Return the base with the latencies of a sibling as the column's release would have them, and their deviation."""
    table, old = base.table, base.table.columns[sibling]
    rate = change(table, column.runtime, distance(old.version, column.version))
    network = (_BY_NETWORK * rate) ** 2
    gaps = _gaps(table, old, column, candidates)
    counts = (~np.isnan(gaps)).sum(axis=0)
    seen = np.flatnonzero(counts)
    gram = 0.5 * base.gram
    own = 0.5 * np.eye(len(gram))
    cover = rate**2 + network * (gram + own)
    noise = _ON_DEVICE**2 * (1 + 1 / np.maximum(counts[seen], 1)) / 2
    precision = inverse(cover[np.ix_(seen, seen)] + np.diag(noise)) if len(seen) else np.zeros((0, 0))
    values = np.nansum(gaps[:, seen], axis=0) / counts[seen]
    told = precision @ values
    ratio = cover[:, seen] @ told
    coefficients = np.zeros(len(gram))
    coefficients[seen] = 0.5 * network * told
    left = np.diag(cover) - ((cover[:, seen] @ precision) * cover[:, seen]).sum(axis=1)
    level = rate**2 * float(told.sum())
    wider = replace(
        base,
        table=replace(
            table,
            columns=(*table.columns, replace(column, target=f"{old.target} as {column.version}", device=old.device)),
            values=np.vstack([table.values, table.values[sibling] + ratio]),
        ),
        filled=np.vstack([base.filled, base.filled[sibling] + ratio]),
        smooth=np.vstack([base.smooth, base.smooth[sibling] + ratio]),
        weights=np.column_stack([base.weights, base.weights[:, sibling] + coefficients]),
        levels=np.append(base.levels, base.levels[sibling] + level),
    )
    measured = ~np.isnan(table.values[sibling])
    return wider, float(np.sqrt(left[measured].mean() + _ON_DEVICE**2))


def _gaps(table: LatencyTable, old: Column, new: Column, candidates: Indices) -> Floats:
    """Return (devices, models) log ratios between two releases on devices that ran both."""
    found = []
    for pair in _pairs(table.columns, map(int, candidates)):
        for one, other in (pair, pair[::-1]):
            column = table.columns[one]
            comparable = (column.kind, column.precision, runtime_family(column.runtime)) == (
                new.kind,
                new.precision,
                runtime_family(new.runtime),
            )
            if comparable and (column.version, table.columns[other].version) == (old.version, new.version):
                found.append(table.values[other] - table.values[one])
    return np.array(found) if found else np.full((1, len(table.models)), np.nan)
