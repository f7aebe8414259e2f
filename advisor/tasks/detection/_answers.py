"""Read the answers of a detector or counter as an app does, and make its test vectors.

``_shipping.py`` names these functions. Photographs and pages show what :func:`find_boxes` and
:func:`find_centre_points` return. ``check.py`` of a bundle reads the vectors of
:func:`detect_objects` and :func:`mark_map`: the keys of a vector are a format on disk and stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.measurement import Detections
from advisor.reporting import (
    VECTOR_CANDIDATES,
    VECTOR_COUNT,
    VECTOR_TOLERANCES,
    Found,
    ShippedModel,
    check,
    choose_vectors,
    make_runners,
)

if TYPE_CHECKING:
    from advisor.reporting import Crops

DIGITS = 4  # Digits of the scores of a map, which has thousands


def find_boxes(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the boxes that the app shows."""
    objects = []
    for box in check.boxes_of(list(outputs), model.threshold or 0.0):
        # Decoded boxes can reach beyond the image, and an app would draw there.
        edges = tuple(min(max(edge, 0.0), 1.0) for edge in box["box"])
        objects.append(Found(model.labels[box["label"]], box["score"], edges))
    return tuple(objects)


def detect_objects(
    model: ShippedModel, images: Crops
) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See ``Answering``:
    the boxes with at least half of an image's highest score.

    Only images in which other kernels find the same boxes within half the tolerance are taken: of
    two boxes that overlap, rounding can decide which one stays. The tolerance is the smallest that
    leaves enough images.
    """
    runner, other = make_runners(model, images)
    rows: list[tuple[int, dict[str, Any]]] = []
    for place in range(len(images)):
        boxes = check.boxes_of(runner(place), 0.0)
        least = max([box["score"] for box in boxes], default=0.0) / 2
        rows.append(
            (place, {"least": least, "boxes": [box for box in boxes if box["score"] >= least]})
        )
    rows = sorted(rows, key=lambda row: -row[1]["least"])[:VECTOR_CANDIDATES]
    others = [other(place) for place, _ in rows]
    for tolerance in VECTOR_TOLERANCES:
        same = []
        for row, answer in zip(rows, others, strict=True):
            same.append(not check.other_boxes(answer, row[1], tolerance / 2))
        if sum(same) >= VECTOR_COUNT:
            break
    return tolerance, list(itertools.compress(rows, same))[:VECTOR_COUNT]


def find_centre_points(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the centres that the app shows."""
    seen = Detections.find_centres(outputs[0], model.threshold or 0.0)
    rows = zip(seen.labels.tolist(), seen.scores.tolist(), seen.boxes.tolist(), strict=True)
    return tuple(Found(model.labels[label], score, tuple(box)) for label, score, box in rows)


def mark_map(model: ShippedModel, images: Crops) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See ``Answering``: the scores of a map."""
    tolerance, rows = choose_vectors(
        model, images, itemgetter(0), lambda one, other: float(abs(one - other).max()), np.max
    )
    return tolerance, [
        (place, {"scores": scores.reshape(-1).round(DIGITS).tolist()}) for place, scores in rows
    ]
