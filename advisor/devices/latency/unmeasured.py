"""A target on which nothing was measured: from its processor's figures, and from the targets of its kind."""

from __future__ import annotations

import numpy as np

from advisor.devices.latency.base import Base
from advisor.devices.latency.contrasts import Contrasts, Indices
from advisor.devices.latency.kernels import Floats
from advisor.devices.latency.posterior import Posterior
from advisor.devices.latency.table import Column

_ENOUGH = 8
_ENOUGH_SILICON = 5
_RIDGE = 1.0
_LOCAL_SCALE = 0.3
_LOCAL_NOISE = 0.2


def expect(base: Base, column: Column, candidates: Indices) -> Posterior:
    """Return what to expect of a target without measurements.

    A processor whose clock and SIMD width are stated, or an NPU whose generation is, is placed among those that were
    measured (ridge regression plus a local correction, on every model's latency alike); of any other, the mean of its
    kind is all that is known.
    """
    alike = _alike(base, column, candidates)
    known = _comparable(base, column, candidates, alike)
    combination = np.zeros(len(base.table.columns))
    if len(known):
        speed = np.array([base.table.columns[i].speed for i in known])
        weights, spread = _place(np.array(column.speed), speed, base.smooth[known])
        combination[known] = weights
    else:
        weights = np.full(len(alike), 1 / max(len(alike), 1))
        combination[alike] = weights
        spread = float(base.smooth[alike].mean(axis=1).std()) * 1.2
    none = np.array([], dtype=np.intp)
    empty = np.zeros((0, 0))
    return Posterior(
        column, none, np.abs(combination) / max(np.abs(combination).sum(), 1e-9), combination, np.zeros(0), 0.0, 0.0,
        Contrasts(none, np.zeros(0), np.zeros(0), np.ones(0)), empty, empty, max(spread, 0.1),
    )  # fmt: skip


def _comparable(base: Base, column: Column, candidates: Indices, alike: Indices) -> Indices:
    """Return the columns whose stated speed the target's can be held against, none where there are too few.

    Of accelerators there are few: each silicon counts once, by the runtime asked for where it has it.
    """
    columns, size = base.table.columns, len(column.speed)
    if not size:
        return alike[:0]
    if column.kind == "cpu":
        known = [i for i in alike if len(columns[i].speed) == size]
        return np.array(known if len(known) >= _ENOUGH else [], dtype=np.intp)
    fitting = [i for i in candidates if (columns[i].kind, columns[i].precision) == (column.kind, column.precision)]
    of_silicon: dict[str, int] = {}
    for i in sorted(fitting, key=lambda i: columns[i].runtime != column.runtime):
        if len(columns[i].speed) == size:
            of_silicon.setdefault(columns[i].silicon, int(i))
    return np.array(list(of_silicon.values()) if len(of_silicon) >= _ENOUGH_SILICON else [], dtype=np.intp)


def _alike(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns of the same kind, precision and runtime, or of as many of these as enough columns share."""
    columns = base.table.columns
    kind = [i for i in candidates if columns[i].kind == column.kind]
    precision = [i for i in kind if columns[i].precision == column.precision]
    runtime = [i for i in precision if columns[i].runtime == column.runtime]
    for chosen in (runtime, precision, kind, list(candidates)):
        if len(chosen) >= _ENOUGH or chosen == list(candidates):
            return np.array(chosen, dtype=np.intp)
    return candidates


def _place(query: Floats, known: Floats, values: Floats) -> tuple[Floats, float]:
    """Return the weights of the known targets that make the query's latencies, and the error to expect of its level."""
    centre, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-3)
    points = (known - centre) / scale
    position = (query - centre) / scale
    smoother = _smoother(points, points)
    level = values.mean(axis=1)
    # Leave-one-out residuals of a linear smoother follow from its diagonal.
    leverage = np.minimum(np.diag(smoother), 0.9)
    residuals = (level - smoother @ level) / (1 - leverage)
    return _smoother(points, position[None])[0], float(np.sqrt(np.mean(residuals**2)))


def _smoother(points: Floats, queries: Floats) -> Floats:
    """Return (queries, points) weights of ridge regression with a Gaussian process on what it leaves."""
    design = np.column_stack([np.ones(len(points)), points])
    at = np.column_stack([np.ones(len(queries)), queries])
    penalty = np.diag([1e-6] + [_RIDGE] * points.shape[1])
    regression = np.linalg.solve(design.T @ design + penalty, design.T)
    left = np.eye(len(points)) - design @ regression
    cover = _local(points, points) + _LOCAL_NOISE**2 * np.eye(len(points))
    out: Floats = at @ regression + _local(queries, points) @ np.linalg.solve(cover, left)
    return out


def _local(left: Floats, right: Floats) -> Floats:
    squares = ((left[:, None] - right[None]) ** 2).sum(axis=-1)
    out: Floats = _LOCAL_SCALE**2 * np.exp(-squares / 2)
    return out
