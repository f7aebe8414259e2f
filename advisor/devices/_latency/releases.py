"""Translate latencies between releases of one runtime, and say how far releases are apart.

A target is often known at another release than the one that is asked for. The posterior then gets
a column for the asked release (:func:`with_releases`), or a wider deviation
(:func:`release_deviation`). The rates come from shipped devices that ran both releases.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from advisor.devices._latency.base import Base, Indices
from advisor.devices._latency.model_space import Floats, invert_matrix
from advisor.devices._latency.table import (
    MAJOR,
    XNNPACK,
    Column,
    LatencyTable,
    are_related_releases,
    comparable_builds,
    count_releases,
    other_release,
    runtime_family,
)
from advisor.devices._profiles.cores import find_core

_OTHER_MAJOR = 1.0  # Deviation (log) of the level between two major releases of a build

_REWRITTEN = 1.5
"""The same of TensorFlow Lite: MobileNet V2 on a Raspberry Pi 4 took 324 ms with TensorFlow Lite
1.15, and 62 to 88 ms with kernels of the releases after it. No other pair is known, so the
deviation is as large as that gap.
"""

_TFLITE = "litert"

# Networks differ by this share of what releases differ by; the rest is common to all networks.
_BY_NETWORK = 0.5

_ON_DEVICE = 0.04
"""Deviation (log) of one network's ratio between devices;
within 0.02 to 0.05 for all pairs of shipped releases.
"""

# A release with fewer measured networks on a target tells nothing about the next release.
_ENOUGH = 5

# Deviation (log) that one minor release has at least, however alike the known pairs are.
_LEAST_RATE = 0.01
_PRIOR_PAIRS = 5  # Pairs of one runtime that weigh as much as the rate of all runtimes


def release_deviation(table: LatencyTable, column: Column, candidates: Indices) -> float:
    """Return the deviation (log) that the nearest known release of a target's build leaves;
    0 if it is the same one.

    XNNPACK's kernels are the same library in LiteRT 1 and 2,
    so a major release alone changes nothing there.
    """
    others = []
    for i in candidates:
        if table.columns[i].kind == column.kind:
            others.append(table.columns[i])
    versions = set()
    for neighbour in others:
        if neighbour.version and comparable_builds(neighbour, column):
            versions.add(neighbour.version)
    if not column.version or not versions:
        return 0.0
    steps = min(count_releases(version, column.version) for version in versions)
    return float(
        np.hypot(
            estimate_change(table, column.runtime, steps), _find_major_deviation(column, steps)
        )
    )


def _find_major_deviation(column: Column, steps: int) -> float:
    """Return the deviation (log) that another major release of a target's build adds,
    ``steps`` minor ones away.
    """
    if steps < MAJOR or column.kernels == XNNPACK:
        return 0.0
    return _REWRITTEN if runtime_family(column.runtime) == _TFLITE else _OTHER_MAJOR


def estimate_change(table: LatencyTable, runtime: str, steps: int) -> float:
    """Return the standard deviation (log) of what ``steps`` minor releases of a runtime change.

    It grows with the root of the distance, at a rate that the table's devices show:
    the runtime's own, drawn to that of all runtimes.
    """
    rates = _fit_rates(table)
    return float(np.sqrt(steps * rates.get(runtime_family(runtime), rates[""])))


@lru_cache(maxsize=4)
def _fit_rates(table: LatencyTable) -> dict[str, float]:
    """Return the variance (log) that one minor release adds, by runtime,
    and of any runtime under an empty name.
    """
    squares: dict[str, list[float]] = defaultdict(list)
    for first, second in _pair_releases(table.columns, range(len(table.columns))):
        column = table.columns[first]
        steps = count_releases(column.version, table.columns[second].version)
        gaps = table.values[first] - table.values[second]
        if not np.isnan(gaps).all():
            squares[runtime_family(column.runtime)].append(
                float(np.nanmean(np.square(gaps))) / steps
            )
    means = {runtime: float(np.mean(variances)) for runtime, variances in squares.items()}
    overall = max(float(np.mean(list(means.values()))) if means else 0.0, _LEAST_RATE**2)
    drawn = {}
    for runtime, variances in squares.items():
        drawn[runtime] = (len(variances) * means[runtime] + _PRIOR_PAIRS * overall) / (
            len(variances) + _PRIOR_PAIRS
        )
    return {**drawn, "": overall}


def _pair_releases(columns: Sequence[Column], indices: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pairs of columns that differ by the release only."""
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i in indices:
        column = columns[i]
        if column.version:
            alike[
                column.device, column.kind, column.precision, *column.build, str(column.speed)
            ].append(i)
    pairs = []
    for group in alike.values():
        for first, second in combinations(group, 2):
            if other_release(columns[first], columns[second]):
                pairs.append((first, second))
    return pairs


def with_releases(
    base: Base, column: Column, candidates: Indices
) -> tuple[Base, tuple[float, ...]]:
    """Return the base with a column for each other release measured on the silicon,
    and the deviation of each level.

    A new column, the last ones of the base, is the other release's latencies times the ratio of
    the two releases: for every network the one that other devices show, as far as they ran both.
    ``candidates`` are columns that can be references.
    """
    counts = (~np.isnan(base.table.values)).sum(axis=1)
    known = (int(place) for place in candidates if counts[place] >= _ENOUGH)
    siblings = []
    for place in known:
        if are_related_releases(base.table.columns[place], column):
            siblings.append(place)
    spreads = []
    for sibling in siblings:
        base, spread = _translate_base(base, column, sibling, candidates)
        spreads.append(spread)
    return base, tuple(spreads)


def _translate_base(
    base: Base, column: Column, sibling: int, candidates: Indices
) -> tuple[Base, float]:
    """Return the base with the latencies of a sibling as the column's release would have them,
    and their deviation.
    """
    table = base.table
    old = base.table.columns[sibling]
    steps = count_releases(old.version, column.version)
    rate = estimate_change(table, column.runtime, steps)
    network = (_BY_NETWORK * rate) ** 2
    gaps = _list_gaps(table, old, column, candidates)
    counts = (~np.isnan(gaps)).sum(axis=0)
    seen = np.flatnonzero(counts)
    gram = 0.5 * base.gram
    own_part = 0.5 * np.eye(len(gram))
    cover = rate**2 + network * (gram + own_part)
    # Half of the deviation belongs to the target itself, however many other devices were measured.
    noise = _ON_DEVICE**2 * (1 + 1 / np.maximum(counts[seen], 1)) / 2
    precision = np.zeros((0, 0))
    if len(seen):
        precision = invert_matrix(cover[np.ix_(seen, seen)] + np.diag(noise))
    values = np.nansum(gaps[:, seen], axis=0) / counts[seen]
    explained = precision @ values
    ratio = cover[:, seen] @ explained
    coefficients = np.zeros(len(gram))
    coefficients[seen] = 0.5 * network * explained
    left = np.diag(cover) - ((cover[:, seen] @ precision) * cover[:, seen]).sum(axis=1)
    # ArmNN counts its releases by years, so their numbers say nothing of its kernels.
    if not len(seen) and runtime_family(column.runtime) == _TFLITE:
        left = left + _find_major_deviation(column, steps) ** 2
    level = rate**2 * float(explained.sum())
    if column.kind == "cpu" and column.speed:
        # The sibling may run at another clock, and the latency changes in proportion.
        clocks = old.speed[0] - column.speed[0]
        ratio = ratio + clocks
        level += clocks
    translated = replace(column, target=f"{old.target} as {column.version}", device=old.device)
    wider_table = replace(
        table,
        columns=(*table.columns, translated),
        values=np.vstack([table.values, table.values[sibling] + ratio]),
    )
    wider = replace(
        base,
        table=wider_table,
        filled=np.vstack([base.filled, base.filled[sibling] + ratio]),
        smooth=np.vstack([base.smooth, base.smooth[sibling] + ratio]),
        weights=np.column_stack([base.weights, base.weights[:, sibling] + coefficients]),
        levels=np.append(base.levels, base.levels[sibling] + level),
    )
    measured = ~np.isnan(table.values[sibling])
    return wider, float(np.sqrt(left[measured].mean() + _ON_DEVICE**2))


def _integer_instructions(column: Column) -> str:
    """Return the 8-bit instructions of a CPU's core:
    releases that begin to use them change int8 on these cores only.

    Empty for other processors, other precisions and cores that are not known.
    """
    core = None
    if column.kind == "cpu" and column.precision == "int8":
        core = find_core(column.core)
    if core is None:
        return ""
    if core.i8mm:
        return "i8mm"
    return "dot" if core.dot else "none"


def _list_gaps(table: LatencyTable, old: Column, new: Column, candidates: Indices) -> Floats:
    """Return (devices, models) log ratios between two releases on devices that ran both."""

    def kind(column: Column) -> tuple[str, ...]:
        return column.kind, column.precision, _integer_instructions(column), *column.build

    gaps = []
    for pair in _pair_releases(table.columns, map(int, candidates)):
        # A pair is listed once, and the two releases may be asked for in either order.
        for before, after in (pair, pair[::-1]):
            versions = table.columns[before].version, table.columns[after].version
            if kind(table.columns[before]) == kind(new) and versions == (old.version, new.version):
                gaps.append(table.values[after] - table.values[before])
    if gaps:
        return np.array(gaps)
    return np.full((1, len(table.models)), np.nan)
