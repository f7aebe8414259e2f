"""Compare the answers of a compressed file with those of its float model, by labels or by agreement."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.compression.quantization.quantizer import fitting_images
from advisor.compression.recipes.base import RecipeInputs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IMAGES = 500
"""Images to compare on, at most. With 500, a drop of 0.5 points has a 95 % interval of 0.6; more take too long."""

SMALLEST_PROBABILITY = 1e-3
"""Floor of a probability before its logarithm. Integer scores have steps of 1/256 and hold nothing below it."""


@dataclass(frozen=True)
class Deviation:
    """Difference of a compressed file from its float model.

    Attributes:
        drop_points: points of top-1 that it loses; without labels, the share in % of images with another answer.
        divergence: mean Kullback-Leibler divergence of its probabilities from the float ones, in nats.
    """

    drop_points: float
    divergence: float


class FloatComparison:
    """Compares compressed files with one float model on the same images.

    Args:
        model: the float ``.tflite``.
        images: normalised images, float32 (n, S, S, 3).
        labels: their class indices, or None.
    """

    def __init__(self, model: bytes, images: NDArray[np.float32], labels: tuple[int, ...] | None) -> None:
        self._images, self._labels = images, labels
        self._floats = answers(model, images)

    def __len__(self) -> int:
        return len(self._images)

    def __call__(self, form: bytes) -> Deviation:
        """Return how far the compressed file ``form`` is from the float model.

        Raises:
            StageError: the runtime cannot load or run it.
        """
        import numpy as np

        found, floats = answers(form, self._images), self._floats
        ours, theirs = found.argmax(axis=1), floats.argmax(axis=1)
        if self._labels is None:
            drop = 100.0 * float((ours != theirs).mean())
        else:
            drop = 100.0 * float((theirs == self._labels).mean() - (ours == self._labels).mean())
        logs = np.log(np.maximum(floats, SMALLEST_PROBABILITY)) - np.log(np.maximum(found, SMALLEST_PROBABILITY))
        return Deviation(drop, float((floats * logs).sum(axis=1).mean()))


def answers(model: bytes, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probabilities (n, C) that a model gives for images."""
    from advisor.measurement.accuracy import predict_arrays

    with as_file(model) as path:
        return predict_arrays(path, images)


@contextmanager
def as_file(model: bytes) -> Iterator[Path]:
    """Yield a temporary file with a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(model)
        yield path


def comparison_for(model: bytes, inputs: RecipeInputs) -> FloatComparison:
    """Return a comparison on the validation images, or without labels on the calibration images.

    Raises:
        StageError: there are no images, or they have another shape than the model's input.
    """
    from advisor.compression.calibration import choose, from_images

    images = inputs.images
    if images is None or not images.validation_paths:
        return FloatComparison(model, fitting_images(model, inputs.calibration), None)
    chosen = choose(images.validation_labels, MOST_IMAGES, images.seed)
    paths = [images.validation_paths[index] for index in chosen]
    labels = tuple(images.validation_labels[index] for index in chosen)
    return FloatComparison(model, from_images(paths, images.spec), labels)
