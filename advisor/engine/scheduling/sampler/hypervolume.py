"""Exact hypervolume in two and three dimensions, and what more points would add to it.

Every objective is minimised here: negate the objectives to maximise. The hypervolume of a set of points is the volume
of the region that they dominate below a reference point (Zitzler and Thiele, "Multiobjective optimization using
evolutionary algorithms", PPSN V, 1998). A point that is not better than the reference in every objective adds nothing.

What one more point adds is computed over *columns*: the projection onto all objectives but the last falls into
boxes, and over each box the front has one *level*, the smallest last objective reached there. A point ``(x, y)`` adds
``overlap(x, box) * max(0, level - y)`` in each box, which is still a sum if ``y`` is uncertain, so the expected
improvement is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Columns:
    """The front as boxes with a level in the last objective.

    Attributes:
        lower: (b, d - 1) lower corner of each box, ``-inf`` where the box is open.
        upper: (b, d - 1) upper corner, never above the reference.
        level: (b,) what the front reaches in the last objective over the box, the reference where nothing is.
    """

    lower: Floats
    upper: Floats
    level: Floats

    def overlap(self, points: Floats) -> Floats:
        """Return (n, b): the part of each box that lies above each of the (n, d - 1) points."""
        area = np.ones((len(points), len(self.level)))
        for axis in range(points.shape[1]):
            start = np.maximum(points[:, axis, None], self.lower[None, :, axis])
            area *= np.maximum(self.upper[None, :, axis] - start, 0.0)
        return area


def pareto_mask(points: ArrayLike) -> NDArray[np.bool_]:
    """Return (n,) True for the non-dominated of (n, d) minimised points; of equal points the first is kept."""
    values = _matrix(points)
    order = np.lexsort(values.T[::-1])
    keep = np.zeros(len(values), dtype=bool)
    if values.shape[1] == 2:
        last = values[order, 1]
        best_before = np.concatenate([[np.inf], np.minimum.accumulate(last)[:-1]]) if len(last) else last
        keep[order[last < best_before]] = True
        return keep
    alive = order
    while len(alive):
        keep[alive[0]] = True
        alive = alive[(values[alive] < values[alive[0]]).any(axis=1)]
    return keep


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Return the hypervolume of (n, d) minimised points, d being 2 or 3, below the reference (d,).

    Raises:
        ValueError: another number of objectives, or a value that is not a number.
    """
    ref = np.asarray(reference, dtype=float)
    front = _front(points, ref)
    if len(front) == 0:
        return 0.0
    return _area(front, ref) if len(ref) == 2 else _volume(front, ref)


def hypervolume_improvement(points: ArrayLike, front: ArrayLike, reference: ArrayLike) -> Floats:
    """Return (n,): what each of the (n, d) points alone would add to the hypervolume of ``front`` (m, d)."""
    ref = np.asarray(reference, dtype=float)
    values = _matrix(points)
    boxes = columns(front, ref)
    gains = [
        (boxes.overlap(part[:, :-1]) * np.maximum(boxes.level - part[:, -1:], 0.0)).sum(axis=1)
        for part in chunks(values, len(boxes.level))
    ]
    return np.concatenate(gains) if gains else np.zeros(0)


def columns(front: ArrayLike, reference: ArrayLike) -> Columns:
    """Cut the space below the reference into boxes over which ``front`` (m, d) has one level in the last objective."""
    ref = np.asarray(reference, dtype=float)
    inside = _front(front, ref)
    if len(ref) == 2:
        edges = np.concatenate([[-np.inf], inside[:, 0], ref[:1]])
        level = np.concatenate([ref[1:], inside[:, 1]])
        return Columns(edges[:-1, None], edges[1:, None], level)
    return _columns_of_three(inside, ref)


def chunks(values: Floats, boxes: int) -> list[Floats]:
    """Split the rows so that rows times boxes needs at most a few tens of megabytes."""
    size = max(1, _CHUNK // max(boxes, 1))
    return [values[start : start + size] for start in range(0, len(values), size)]


def _columns_of_three(front: Floats, ref: Floats) -> Columns:
    first = np.concatenate([[-np.inf], np.unique(front[:, 0]), ref[:1]])
    second = np.concatenate([[-np.inf], np.unique(front[:, 1]), ref[1:2]])
    level = np.full((len(first) - 1, len(second) - 1), ref[2])
    rows = np.searchsorted(first, front[:, 0])
    np.minimum.at(level, (rows, np.searchsorted(second, front[:, 1])), front[:, 2])
    level = np.minimum.accumulate(np.minimum.accumulate(level, axis=0), axis=1)
    lower = np.stack(np.meshgrid(first[:-1], second[:-1], indexing="ij"), axis=-1)
    upper = np.stack(np.meshgrid(first[1:], second[1:], indexing="ij"), axis=-1)
    return Columns(lower.reshape(-1, 2), upper.reshape(-1, 2), level.reshape(-1))


def _area(front: Floats, ref: Floats) -> float:
    """Sweep along the first objective; ``front`` is sorted by it and falls in the second."""
    ends = np.append(front[1:, 0], ref[0])
    return float(((ends - front[:, 0]) * (ref[1] - front[:, 1])).sum())


def _volume(front: Floats, ref: Floats) -> float:
    """Sweep along the first objective and keep, for each interval of the second, the level of the third."""
    grid = np.append(np.unique(front[:, 1]), ref[1])
    height = np.zeros(len(grid) - 1)
    ends = np.append(front[1:, 0], ref[0])
    total = 0.0
    for (start, second, third), end in zip(front, ends, strict=True):
        place = np.searchsorted(grid, second)
        height[place:] = np.maximum(height[place:], ref[2] - third)
        total += float((end - start) * (height * np.diff(grid)).sum())
    return total


def _front(points: ArrayLike, ref: Floats) -> Floats:
    """Return the non-dominated points better than the reference, sorted by the first objective."""
    values = _matrix(points, len(ref))
    if len(ref) not in (2, 3) or values.shape[1] != len(ref):
        message = f"points of {values.shape[1]} objectives and a reference of {len(ref)}: both must have 2 or 3"
        raise ValueError(message)
    inside = values[(values < ref).all(axis=1)]
    inside = inside[pareto_mask(inside)]
    return inside[np.argsort(inside[:, 0], kind="stable")]


def _matrix(points: ArrayLike, width: int = 2) -> Floats:
    values = np.asarray(points, dtype=float)
    values = values.reshape(0, width) if values.size == 0 else np.atleast_2d(values)
    if np.isnan(values).any():
        raise ValueError("an objective value is not a number (NaN)")
    return values
