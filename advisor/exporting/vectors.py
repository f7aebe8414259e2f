"""Test vectors: images as raw bytes, with the probabilities that the shipped model computes for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.datasets.images import InputSpec
from advisor.exporting.model import ShippedModel
from advisor.isolation import Scratch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COUNT = 6
SEED = 20
TOLERANCE = 0.02
"""Largest difference of a probability that the checker accepts. Other processors add in another order, and kernels of a
quantized model round differently (0.010 was measured between two runtimes of an int8 MobileNetV2)."""

DIGITS = 6


@dataclass(frozen=True)
class Vector:
    """One input with the model's answer.

    Attributes:
        name: file name of the input.
        pixels: uint8 RGB, row by row: size x size x 3 bytes.
        probabilities: one for each label.
    """

    name: str
    pixels: bytes
    probabilities: tuple[float, ...]


def make_vectors(model: ShippedModel) -> tuple[Vector, ...]:
    """Run the model over crops of the photographs that ship with scikit-image and scikit-learn.

    The user's images stay in the run, because a bundle goes to people who may not see them.
    """
    import numpy as np

    from advisor.compression.calibration import from_photographs

    crops = from_photographs(InputSpec(model.size, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), SEED)
    chosen = crops[:: max(1, len(crops) // COUNT)][:COUNT].reshape(-1, model.size, model.size, 3).astype(np.uint8)
    rows = answers(model.content, chosen, model)
    return tuple(
        Vector(f"{index:02}.rgb", image.tobytes(), tuple(round(value, DIGITS) for value in row))
        for index, (image, row) in enumerate(zip(chosen, rows, strict=True))
    )


def answers(content: bytes, pixels: NDArray[np.uint8], model: ShippedModel) -> list[list[float]]:
    """Return the probabilities of uint8 images (N, size, size, 3), computed with one thread."""
    from advisor.measurement.accuracy import predict_pixels

    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    with Scratch() as folder:
        path = folder / "model.tflite"
        path.write_bytes(content)
        rows: list[list[float]] = predict_pixels(path, pixels, view).tolist()
    return rows


def vectors_json(vectors: Sequence[Vector], model: ShippedModel) -> str:
    """Return the JSON file with the vectors and their expected answers."""
    document = {
        "schema_version": 1,
        "size": model.size,
        "layout": "uint8 RGB, row by row",
        "mean": model.mean,
        "std": model.std,
        "tolerance": TOLERANCE,
        "vectors": [
            {
                "input": vector.name,
                "label": vector.probabilities.index(max(vector.probabilities)),
                "probabilities": vector.probabilities,
            }
            for vector in vectors
        ],
    }
    return json.dumps(document, indent=1) + "\n"
