"""Anchors: one box at each place of each map, to which true boxes are assigned.

All boxes are in shares of the image. Edges are (top, left, bottom, right).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SIDE = 4.0
"""Side of an anchor in cells of its map. ATSS (below) has eight; objects on a phone's small input are small."""

CANDIDATES = 9
"""Anchors of each level that a box may be assigned to, the nearest ones: the figure of ATSS."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """The anchors of some maps, the finest map first and row by row.

    Attributes:
        boxes: float32 (N, 4): centre y and x, height and width.
        counts: number of anchors of each map.
    """

    boxes: Floats
    counts: tuple[int, ...]

    @property
    def edges(self) -> Floats:
        """The anchors as edges, float32 (N, 4)."""
        centres, sides = self.boxes[:, :2], self.boxes[:, 2:]
        return np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)


def anchors_of(shapes: Sequence[tuple[int, int]]) -> Anchors:
    """Return the anchors of maps with these rows and columns."""
    parts = [_grid(*shape) for shape in shapes]
    return Anchors(np.concatenate(parts), tuple(len(part) for part in parts))


def _grid(rows: int, columns: int) -> Floats:
    down, across = (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns
    y, x = np.meshgrid(down, across, indexing="ij")
    whole = [y, x, np.full_like(y, SIDE / rows), np.full_like(x, SIDE / columns)]
    return np.stack(whole, axis=-1).reshape(-1, 4).astype(np.float32)


def overlaps(first: Floats, second: Floats) -> Floats:
    """Return the intersection over union of boxes: edges (N, 4) and (M, 4) give (N, M)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    whole = areas[0][:, None] + areas[1][None, :] - shared
    shares: Floats = (shared / np.maximum(whole, 1e-12)).astype(np.float32)
    return shares


def assign(anchors: Anchors, boxes: Floats) -> NDArray[np.int64]:
    """Assign true boxes to anchors by their statistics.

    Of the nearest anchors of each level, a box takes those with its centre inside that overlap it by at least the mean
    and one standard deviation: S. Zhang et al., "Bridging the Gap Between Anchor-based and Anchor-free Detection via
    Adaptive Training Sample Selection" (ATSS, 2020). So small and large boxes get anchors without thresholds to
    choose. A box that has none takes the candidate with the largest overlap.

    Args:
        anchors: the anchors.
        boxes: edges (M, 4).

    Returns:
        For each anchor the index of its box, -1 for none.
    """
    chosen, best = np.full(len(anchors.boxes), -1, np.int64), np.zeros(len(anchors.boxes))
    if not len(boxes):
        return chosen
    shared = overlaps(anchors.edges, boxes)
    centres = anchors.boxes[:, :2]
    distances = np.square(centres[:, None] - (boxes[None, :, :2] + boxes[None, :, 2:]) / 2).sum(axis=-1)
    near = _nearest(distances, anchors.counts)
    for number, box in enumerate(boxes):
        mine = near[:, number]
        own = shared[mine, number]
        inside = ((centres[mine] > box[:2]) & (centres[mine] < box[2:])).all(axis=1)
        taken = mine[(own >= own.mean() + own.std()) & inside]
        taken = taken if len(taken) else mine[[own.argmax()]]
        better = taken[(shared[taken, number] > best[taken]) | (chosen[taken] < 0)]
        chosen[better], best[better] = number, shared[better, number]
    return chosen


def _nearest(distances: NDArray[np.floating], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the nearest anchors of each level to each box, (candidates, M)."""
    starts = np.cumsum([0, *counts])
    parts = []
    for start, end in pairwise(starts):
        most = min(CANDIDATES, end - start)
        parts.append(start + np.argsort(distances[start:end], axis=0, kind="stable")[:most])
    return np.concatenate(parts)
