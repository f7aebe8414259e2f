"""Place anchors on the maps of a detector, and assign them to the true boxes of an image.

The heads for boxes (`boxes.py`) and detectors that learnt other objects (`whole.py`) train on
these targets; the anchors stand in the file that ships.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.training._on_maps.changes import Floats

# Side of an anchor in cells of its map, as ATSS (below) has it; see decision 0113.
SIDE = 8.0

# Nearest places of each level whose anchors a box may be assigned to: the figure of ATSS.
CANDIDATES = 9


@dataclass(frozen=True, eq=False)
class Anchors:
    """The anchors of some maps, the finest map first and row by row."""

    boxes: Floats  # float32 (N, 4): centre y and x, height and width
    counts: tuple[int, ...]  # number of anchors of each map
    of_place: int = 1  # number of anchors of each place

    @property
    def edges(self) -> Floats:
        """The anchors as edges, float32 (N, 4)."""
        centres = self.boxes[:, :2]
        sides = self.boxes[:, 2:]
        return np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)


def make_anchors(shapes: Sequence[tuple[int, int]]) -> Anchors:
    """Return the anchors of maps with these rows and columns."""
    parts = []
    for rows, columns in shapes:
        down = (np.arange(rows) + 0.5) / rows
        across = (np.arange(columns) + 0.5) / columns
        y, x = np.meshgrid(down, across, indexing="ij")
        height = np.full_like(y, SIDE / rows)
        width = np.full_like(x, SIDE / columns)
        boxes = np.stack([y, x, height, width], axis=-1)
        parts.append(boxes.reshape(-1, 4).astype(np.float32))
    return Anchors(np.concatenate(parts), tuple(map(len, parts)))


def compute_overlaps(first: Floats, second: Floats) -> Floats:
    """Return the intersection over union of boxes: edges (N, 4) and (M, 4) give (N, M)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    first_areas = np.prod(first[:, 2:] - first[:, :2], axis=1)
    second_areas = np.prod(second[:, 2:] - second[:, :2], axis=1)
    union = first_areas[:, None] + second_areas[None, :] - shared
    return np.asarray(shared / np.maximum(union, 1e-12), np.float32)


def assign_anchors(anchors: Anchors, boxes: Floats) -> NDArray[np.int64]:
    """Return the index of the true box of each anchor, -1 for none; ``boxes`` are edges (M, 4).

    Of the nearest anchors of each level, a box takes those with its centre inside that overlap it
    by at least the mean and one standard deviation: S. Zhang et al., "Bridging the Gap Between
    Anchor-based and Anchor-free Detection via Adaptive Training Sample Selection" (ATSS, 2020). So
    small and large boxes get anchors without thresholds to choose. A box that has none takes the
    candidate with the largest overlap.
    """
    box_of_anchor = np.full(len(anchors.boxes), -1, np.int64)
    best_overlaps = np.zeros(len(anchors.boxes))
    if not len(boxes):
        return box_of_anchor
    overlaps = compute_overlaps(anchors.edges, boxes)
    centres = anchors.boxes[:, :2]
    box_centres = (boxes[None, :, :2] + boxes[None, :, 2:]) / 2
    distances = np.square(centres[:, None] - box_centres).sum(axis=-1)
    most = CANDIDATES * anchors.of_place
    nearest = []
    start = 0
    for count in anchors.counts:
        order = np.argsort(distances[start : start + count], axis=0, kind="stable")
        nearest.append(start + order[:most])
        start += count
    candidates_of_boxes = np.concatenate(nearest)
    for number, box in enumerate(boxes):
        candidates = candidates_of_boxes[:, number]
        overlaps_of_box = overlaps[candidates, number]
        inside = ((centres[candidates] > box[:2]) & (centres[candidates] < box[2:])).all(axis=1)
        least_overlap = overlaps_of_box.mean() + overlaps_of_box.std()
        taken = candidates[(overlaps_of_box >= least_overlap) & inside]
        # A box between all anchor centres would otherwise have nothing that learns it.
        if not len(taken):
            taken = candidates[[overlaps_of_box.argmax()]]
        # Two boxes may want one anchor: it learns the one that it overlaps more.
        overlaps_more = overlaps[taken, number] > best_overlaps[taken]
        better = taken[overlaps_more | (box_of_anchor[taken] < 0)]
        box_of_anchor[better] = number
        best_overlaps[better] = overlaps[better, number]
    return box_of_anchor
