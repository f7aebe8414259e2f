"""Estimate a target without measurements from its processor's figures and from similar targets."""

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


def unmeasured_posterior(base: Base, column: Column, candidates: Indices) -> Posterior:
    """Return the posterior of a target without measurements.

    If the clock and SIMD width of the processor, or the generation of the NPU, are known, the estimate is interpolated
    between measured targets (ridge regression plus a local correction, equal for all models). Otherwise the estimate is
    the mean of its kind.
    """
    similar = _similar(base, column, candidates)
    known = _comparable(base, column, candidates, similar)
    combination = np.zeros(len(base.table.columns))
    if len(known):
        speed = np.array([base.table.columns[i].speed for i in known])
        weights, spread = _interpolate(np.array(column.speed), speed, base.smooth[known])
        combination[known] = weights
    else:
        weights = np.full(len(similar), 1 / max(len(similar), 1))
        combination[similar] = weights
        spread = float(base.smooth[similar].mean(axis=1).std()) * 1.2
    none = np.array([], dtype=np.intp)
    empty = np.zeros((0, 0))
    return Posterior(
        column, none, np.abs(combination) / max(np.abs(combination).sum(), 1e-9), combination, np.zeros(0), 0.0, 0.0,
        Contrasts(none, np.zeros(0), np.zeros(0), np.ones(0)), empty, empty, max(spread, 0.1),
    )  # fmt: skip


def _comparable(base: Base, column: Column, candidates: Indices, similar: Indices) -> Indices:
    """Return the columns whose speed can be compared with the target's; none if there are too few.

    There are few accelerators, so each silicon counts once, with the target's runtime if it was measured with it.
    """
    columns, size = base.table.columns, len(column.speed)
    if not size:
        return similar[:0]
    if column.kind == "cpu":
        known = [i for i in similar if len(columns[i].speed) == size]
        return np.array(known if len(known) >= _ENOUGH else [], dtype=np.intp)
    same_kind = [i for i in candidates if (columns[i].kind, columns[i].precision) == (column.kind, column.precision)]
    of_silicon: dict[str, int] = {}
    for i in sorted(same_kind, key=lambda i: columns[i].runtime != column.runtime):
        if len(columns[i].speed) == size:
            of_silicon.setdefault(columns[i].silicon, int(i))
    return np.array(list(of_silicon.values()) if len(of_silicon) >= _ENOUGH_SILICON else [], dtype=np.intp)


def _similar(base: Base, column: Column, candidates: Indices) -> Indices:
    """Return the columns of the same kind, precision and runtime; drop conditions until there are enough columns."""
    columns = base.table.columns
    kind = [i for i in candidates if columns[i].kind == column.kind]
    precision = [i for i in kind if columns[i].precision == column.precision]
    runtime = [i for i in precision if columns[i].runtime == column.runtime]
    for chosen in (runtime, precision, kind, list(candidates)):
        if len(chosen) >= _ENOUGH or chosen == list(candidates):
            return np.array(chosen, dtype=np.intp)
    return candidates


def _interpolate(query: Floats, known: Floats, values: Floats) -> tuple[Floats, float]:
    """Return the weights of the known targets for the query's latencies, and the expected error of its level."""
    centre, scale = known.mean(axis=0), np.maximum(known.std(axis=0), 1e-3)
    points = (known - centre) / scale
    position = (query - centre) / scale
    smoother = _smoother(points, points)
    level = values.mean(axis=1)
    # The leave-one-out residuals of a linear smoother follow from its diagonal.
    leverage = np.minimum(np.diag(smoother), 0.9)
    residuals = (level - smoother @ level) / (1 - leverage)
    return _smoother(points, position[None])[0], float(np.sqrt(np.mean(residuals**2)))


def _smoother(points: Floats, queries: Floats) -> Floats:
    """Return the (queries, points) weights of ridge regression with a Gaussian process on its residuals."""
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
