"""Compare the sizes of objects with the inputs that models take: too small objects cannot be found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.datasets.boxes.reading import BoxSurvey
from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.checks.image_quality import MODEL_SIDE

INPUTS = (128, 192, 224, 320)
"""Sides of a model's square input in pixels."""

SMALL_SIDE = 8.0
"""Pixels. The first feature map of a single-shot detector has one place for 8 to 16 pixels of its input."""

MAX_SMALL_SHARE = 0.1


@dataclass(frozen=True)
class ObjectSizes:
    """Sides of the objects at one input. The side is the root of the area, as COCO measures sizes.

    Attributes:
        input: side of the input in pixels; the image fills it, as a classifier's does.
        low: 5 % quantile of the sides in pixels of the input.
        median: the median.
        high: 95 % quantile.
        small: share (0-1) of objects under :data:`SMALL_SIDE`.
    """

    input: int
    low: float
    median: float
    high: float
    small: float


def object_sizes(read: BoxSurvey) -> tuple[ObjectSizes, ...]:
    """Return the sizes of the objects at each of :data:`INPUTS`."""
    areas = [
        box.width * box.height / (width * height)
        for (width, height), boxes in zip(read.sizes, read.boxes, strict=True)
        for box in boxes
    ]
    sides = np.sqrt(np.asarray(areas))
    low, median, high = np.quantile(sides, (0.05, 0.5, 0.95)).tolist()
    return tuple(
        ObjectSizes(side, side * low, side * median, side * high, float((side * sides < SMALL_SIDE).mean()))
        for side in INPUTS
    )


def small_objects(sizes: Sequence[ObjectSizes]) -> Iterator[Finding]:
    """Yield a finding if many objects are small at the input that most models take."""
    usual = next(one for one in sizes if one.input == MODEL_SIDE)
    if usual.small <= MAX_SMALL_SHARE:
        return
    others = ", ".join(f"{100 * one.small:.0f} % at {one.input}" for one in sizes if one.input > MODEL_SIDE)
    yield Finding(
        Kind.OBJECT_SIZE,
        f"{100 * usual.small:.0f} % of your objects are under {SMALL_SIDE:.0f} pixels at {MODEL_SIDE} ({others})",
        "choose a larger input, or cut the images into tiles",
    )
