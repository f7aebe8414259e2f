"""Ship a classifier: its bundle, the expected answers of test vectors, and what it says of a photograph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from advisor.datasets.images import InputSpec
from advisor.exporting.model import ShippedModel
from advisor.exporting.shipping import COUNT, TOLERANCES, Answer, Found, Shipping
from advisor.isolation import Scratch

if TYPE_CHECKING:
    from advisor.exporting.shipping import Pixels

DIGITS = 6
SHOWN = 5
"""Classes of the answer to a photograph."""


def found(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the most probable classes of an image by the row of its probabilities."""
    (row,) = outputs
    best = sorted(zip(model.labels, row.tolist(), strict=True), key=lambda pair: -pair[1])
    return tuple(Found(*pair) for pair in best[:SHOWN])


def classified(model: ShippedModel, images: Pixels) -> tuple[float, list[tuple[int, Answer]]]:
    """See :data:`Answering`: the probabilities of each class, and what the app does with them at its thresholds."""
    places = range(len(images))[:: max(1, len(images) // COUNT)][:COUNT]
    rows = answers(model.content, images[places], model)
    return TOLERANCES[0], [
        (
            place,
            {"label": row.index(max(row)), "probabilities": [round(value, DIGITS) for value in row]}
            | _done(model, row),
        )
        for place, row in zip(places, rows, strict=True)
    ]


def _done(model: ShippedModel, row: Sequence[float]) -> dict[str, object]:
    """Return whether the app answers and which labels it flags, as far as it has thresholds for that."""
    thresholds, found = model.thresholds, dict[str, object]()
    if thresholds.plain is not None or thresholds.by_class:
        found["answered"] = max(row) >= thresholds.least(model.labels[row.index(max(row))])
    if thresholds.recall:
        scores = zip(model.labels, row, strict=True)
        found["may_show"] = [label for label, score in scores if score >= thresholds.recall.get(label, math.inf)]
    return found


def answers(content: bytes, pixels: Pixels, model: ShippedModel) -> list[list[float]]:
    """Return the probabilities of uint8 images (N, size, size, 3), computed with one thread."""
    from advisor.measurement.accuracy import predict_pixels

    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    with Scratch() as folder:
        path = folder / "model.tflite"
        path.write_bytes(content)
        rows: list[list[float]] = predict_pixels(path, pixels, view).tolist()
    return rows


SHIPPING = Shipping(
    "classifies images", "probabilities", "classifier_card.md.j2",
    {"android": "android/Classifier.kt", "ios": "ios/Classifier.swift", "python": "python/classify.py"},
    "edgetpu/classify_edgetpu.py", classified, web=True,
)  # fmt: skip
