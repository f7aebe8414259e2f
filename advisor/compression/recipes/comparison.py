"""What a form answers beside the float model it was made from: by labels where there are some, else by agreement."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.compression.quantization.quantizer import fitting_images
from advisor.compression.recipes.inputs import RecipeInputs, TrainingImages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_IMAGES = 500
"""More tell no finer a difference within the seconds that a form may take: 0.5 points have an interval of 0.6 here."""

SMALLEST_PROBABILITY = 1e-3
"""What a probability is raised to before its logarithm: integer scores of 1/256 know nothing below."""


@dataclass(frozen=True)
class Judgement:
    """How far a form is from float.

    Attributes:
        drop_points: points of top-1 that it loses; without labels, the share in % of images answered otherwise.
        divergence: mean Kullback-Leibler divergence of its probabilities from the float ones, in nats.
    """

    drop_points: float
    divergence: float


class Judge:
    """Compares forms of one float model on the same images.

    Args:
        model: the float ``.tflite``.
        inputs: normalised images, float32 (n, S, S, 3).
        labels: their class indices, or None.
    """

    def __init__(self, model: bytes, inputs: NDArray[np.float32], labels: tuple[int, ...] | None) -> None:
        self._inputs, self._labels = inputs, labels
        self._floats = answers(model, inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    def __call__(self, form: bytes) -> Judgement:
        """Return how far ``form`` is from float.

        Raises:
            StageError: the runtime cannot load or run it.
        """
        import numpy as np

        found, floats = answers(form, self._inputs), self._floats
        ours, theirs = found.argmax(axis=1), floats.argmax(axis=1)
        if self._labels is None:
            drop = 100.0 * float((ours != theirs).mean())
        else:
            drop = 100.0 * float((theirs == self._labels).mean() - (ours == self._labels).mean())
        logs = np.log(np.maximum(floats, SMALLEST_PROBABILITY)) - np.log(np.maximum(found, SMALLEST_PROBABILITY))
        return Judgement(drop, float((floats * logs).sum(axis=1).mean()))


def answers(model: bytes, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probabilities (n, C) that a file's bytes give."""
    from advisor.measurement.accuracy.inference import predict_arrays

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(model)
        return predict_arrays(path, inputs)


def judge_of(model: bytes, material: RecipeInputs) -> Judge:
    """Return the judge that the material allows: validation images, else the calibration images without labels.

    Raises:
        StageError: there are no images, or they do not fit.
    """
    images = material.images
    if images is not None and images.validation_paths:
        return _labelled(model, images)
    return Judge(model, fitting_images(model, material.calibration), None)


def _labelled(model: bytes, images: TrainingImages) -> Judge:
    from advisor.compression.calibration import choose, from_images

    labels = images.validation_labels
    chosen = choose(labels, MOST_IMAGES, images.seed)
    paths = [images.validation_paths[index] for index in chosen]
    inputs = from_images(paths, images.view)
    return Judge(model, inputs, tuple(labels[index] for index in chosen))
