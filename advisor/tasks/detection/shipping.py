"""Ship a detector: its bundle, the expected answers of test vectors, and what it finds in a photograph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from advisor.exporting.model import ShippedModel
from advisor.exporting.shipped import check
from advisor.exporting.shipping import COUNT, LOOKED_AT, TOLERANCES, Found, Shipping, runners
from advisor.tflite.postprocess import Suppression

if TYPE_CHECKING:
    from advisor.exporting.shipping import Pixels


def found(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the boxes that the app shows."""
    return tuple(
        Found(model.labels[one["label"]], one["score"], tuple(min(max(edge, 0.0), 1.0) for edge in one["box"]))
        for one in check.boxes_of(list(outputs), model.threshold or 0.0)
    )


def detected(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`Answering`: the boxes with at least half of an image's highest score.

    Only images in which other kernels find the same boxes within half the tolerance are taken: of two boxes that
    overlap, rounding can decide which one stays. The tolerance is the smallest that leaves enough images.
    """
    own, other = runners(model, images)
    rows: list[tuple[int, dict[str, Any]]] = []
    for place in range(len(images)):
        found = check.boxes_of(own(place), 0.0)
        least = max([box["score"] for box in found], default=0.0) / 2
        rows.append((place, {"least": least, "boxes": [box for box in found if box["score"] >= least]}))
    rows = sorted(rows, key=lambda row: -row[1]["least"])[:LOOKED_AT]
    others = [other(place) for place, _ in rows]
    for tolerance in TOLERANCES:
        same = [not check.other_boxes(found, row[1], tolerance / 2) for row, found in zip(rows, others, strict=True)]
        if sum(same) >= COUNT:
            break
    return tolerance, list(itertools.compress(rows, same))[:COUNT]


SHIPPING = Shipping(
    "finds objects in images", "boxes", "detector_card.md.j2",
    {"android": "android/Detector.kt", "ios": "ios/Detector.swift", "python": "python/detect.py"},
    "", detected, least=Suppression().score,
)  # fmt: skip
