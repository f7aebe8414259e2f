"""Facts of a detector on the images of one part: its counts at one threshold, and the images with the most errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class ClassBoxes:
    """Boxes of one class from the threshold on.

    Attributes:
        true: number of true boxes.
        found: number of found boxes.
        precision: share (0-1) of the found boxes that are right; None if none was found.
        recall: share (0-1) of the true boxes that were found; None without a true box.
        count_error: difference between the numbers of found and true boxes, summed over the images, over the number of
            true boxes; None without a true box.
    """

    true: int
    found: int
    precision: float | None
    recall: float | None
    count_error: float | None


class JudgedBox(NamedTuple):
    """A box with its class, its edges in shares of the image, its score (1 for a true box), and whether it is matched.

    A true box is matched if it was found, a found one if it is right.
    """

    label: int
    top: float
    left: float
    bottom: float
    right: float
    score: float
    matched: bool


@dataclass(frozen=True)
class JudgedImage:
    """One image with its true boxes and those that were found from the threshold on.

    Attributes:
        path: as ``split.json`` has it.
        sha256: hash of the file.
        width: of the upright image, in pixels.
        height: in pixels.
        f1: twice the right boxes over the true and the found ones, 0 to 1.
        true: the true boxes.
        found: the found boxes, the surest first.
    """

    path: str
    sha256: str
    width: int
    height: int
    f1: float
    true: tuple[JudgedBox, ...]
    found: tuple[JudgedBox, ...]


@dataclass(frozen=True)
class BoxFacts:
    """Boxes that a detector found in the images of one part, compared with the true ones.

    Attributes:
        threshold: score (0-1) from which on a box counts: the one with the best F1 on the validation part.
        coco: average precision over overlaps from 0.5 to 0.95, COCO's main figure, 0 to 1; None of centres.
        by_class: counts of each class at the threshold.
        worst: the images with the lowest F1 at the threshold, the lowest first; of the hold-out alone.
        coco_interval: 95 % interval of ``coco``; None if it was not computed.
    """

    threshold: float
    coco: float | None
    by_class: Mapping[str, ClassBoxes]
    worst: tuple[JudgedImage, ...] = ()
    coco_interval: tuple[float, float] | None = None
