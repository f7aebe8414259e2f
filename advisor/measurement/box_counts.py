"""Right and wrong boxes from a threshold on, counted for each class and image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from advisor.measurement.average_precision import HALF, evaluated
from advisor.measurement.detection import Detections

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Matched:
    """The boxes of one image from a threshold on.

    Attributes:
        true: the true boxes.
        found: the found boxes with at least the threshold as score.
        seen: for each true box, whether it was found, bool (true boxes,).
        right: for each found box, whether it is right, bool (found boxes,).
    """

    true: Detections
    found: Detections
    seen: Flags
    right: Flags

    @property
    def f1(self) -> float:
        """Twice the right boxes over the true and the found ones; 1 if there is nothing, and nothing was found."""
        boxes = len(self.seen) + len(self.right)
        return 2 * int(self.right.sum()) / boxes if boxes else 1.0

    @property
    def errors(self) -> int:
        """Number of boxes that were missed or are wrong."""
        return int((~self.seen).sum() + (~self.right).sum())


def match(
    true: Sequence[Detections],
    found: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    threshold: float,
) -> list[Matched]:
    """Match found boxes to true ones of their class that they overlap by half, the surest first, as COCO does.

    Args:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.
        threshold: least score of a box that counts.
    """
    sure = [one.above(threshold) for one in found]
    judged = [each for each in evaluated(true, sure, sizes, classes, HALF).evalImgs if each]
    seen = _flags(true, [(each["gtIds"], each["gtMatches"][0]) for each in judged])
    right = _flags(sure, [(each["dtIds"], each["dtMatches"][0]) for each in judged])
    return [Matched(*each) for each in zip(true, sure, seen, right, strict=True)]


def counts(matched: Sequence[Matched], classes: int) -> NDArray[np.int64]:
    """Return the true, the found and the right boxes of each image and class, int64 (images, classes, 3)."""
    import numpy as np

    table = np.zeros((len(matched), classes, 3), np.int64)
    for row, one in zip(table, matched, strict=True):
        for place, labels in enumerate((one.true.labels, one.found.labels, one.found.labels[one.right])):
            row[:, place] = np.bincount(labels, minlength=classes)
    return table


def _flags(rows: Sequence[Detections], matches: Sequence[tuple[Sequence[int], Flags]]) -> list[Flags]:
    """Return whether each box of each image has a match; boxes are numbered from 1 over all images."""
    import numpy as np

    ends = np.cumsum([0, *(len(one.labels) for one in rows)])
    flags = np.zeros(ends[-1], bool)
    for ids, partners in matches:
        flags[np.asarray(ids, np.int64) - 1] = partners > 0
    return [flags[start:end] for start, end in pairwise(ends)]
