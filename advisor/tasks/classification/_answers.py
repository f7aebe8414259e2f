"""Read the answers of a classifier as an app does, and make its test vectors.

``_shipping.py`` names these functions. Photographs and pages show what :func:`find_classes`
returns. ``check.py`` of a bundle reads the vectors of :func:`classify_images`, which taggers
share: the keys of a vector are a format on disk and stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.datasets import InputSpec
from advisor.reporting import VECTOR_COUNT, VECTOR_TOLERANCES, Found, ShippedModel

if TYPE_CHECKING:
    from advisor.measurement import Pixels
    from advisor.reporting import Crops

DIGITS = 6
SHOWN = 5  # Classes of the answer to a photograph


def find_classes(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the most probable classes of an image by the row of its probabilities."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(Found(*pair) for pair in best[:SHOWN])


def classify_images(
    model: ShippedModel, images: Crops
) -> tuple[float, list[tuple[int, Mapping[str, object]]]]:
    """See ``Answering``: the probabilities of each class, and what
    the app does with them at its thresholds.
    """
    stride = max(1, len(images) // VECTOR_COUNT)
    places = range(0, len(images), stride)[:VECTOR_COUNT]
    rows = compute_probabilities(model, np.stack([images[place]() for place in places]))
    vectors = list[tuple[int, Mapping[str, object]]]()
    for place, row in zip(places, rows, strict=True):
        answer = {
            "label": row.index(max(row)),
            "probabilities": [round(value, DIGITS) for value in row],
        }
        vectors.append((place, answer | _apply_thresholds(model, row)))
    return VECTOR_TOLERANCES[0], vectors


def _apply_thresholds(model: ShippedModel, row: Sequence[float]) -> dict[str, object]:
    """Return whether the app answers and which labels it flags, if it has thresholds for that."""
    thresholds = model.thresholds
    outcome = dict[str, object]()
    if thresholds.plain is not None or thresholds.by_class:
        best = max(row)
        label = model.labels[row.index(best)]
        outcome["answered"] = best >= thresholds.least(label)
    if thresholds.recall:
        flagged = []
        for label, score in zip(model.labels, row, strict=True):
            if score >= thresholds.recall.get(label, math.inf):
                flagged.append(label)
        outcome["may_show"] = flagged
    return outcome


def compute_probabilities(model: ShippedModel, pixels: Pixels) -> list[list[float]]:
    """Return the probabilities of uint8 images (N, size, size, 3), computed with one thread."""
    from advisor.measurement import predict_pixels

    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    rows: list[list[float]] = predict_pixels(model.content, pixels, view).tolist()
    return rows
