"""The work on one file, as functions that child processes run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.compression.calibration import CalibrationImages
from advisor.compression.make import MadeFile, describe_file, make_file
from advisor.compression.recipes.inputs import RecipeInputs, TrainingImages
from advisor.compression.user_model.values import Taken
from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.tflite.metadata import Metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.quantization.observe import Observer

SCORING_SEED = 1
"""Added to the seed: other crops of the bundled photographs than those for calibration."""


def make(
    model: Path,
    recipe: str,
    calibration: CalibrationImages,
    training: TrainingImages | None,
    max_drop_points: float | None,
    learn_s: float,
    metadata: Metadata | None,
    out: Path,
) -> MadeFile:
    """Make one file; see :func:`advisor.compression.make.make_file`.

    Raises:
        UnsupportedRecipe: the recipe does not apply.
        StageError: the recipe failed.
    """
    inputs = RecipeInputs(None, training, max_drop_points, learn_s, _observer())
    return make_file(model, recipe, calibration, inputs, metadata, out)


@cache
def _observer() -> Observer:
    """Return the observer that this process keeps between recipes of the same model."""
    from advisor.compression.quantization.observe import Observer

    return Observer()


def describe(path: Path) -> MadeFile:
    """Return what a file takes in bytes; see :func:`advisor.compression.make.describe_file`."""
    return describe_file(path)


def taken_of(path: Path, target: str) -> Taken:
    """Return how much of a file an accelerator runs."""
    from advisor.measurement.accelerators.delegation import delegate
    from advisor.measurement.accelerators.rules import accelerator
    from advisor.tflite.model import read

    found = delegate(read(path.read_bytes(), path.name), accelerator(target))
    return Taken(found.taken, found.operators, found.share, found.kept, found.reasons)


def answer(path: Path, images: Sequence[Path], spec: InputSpec, seed: int) -> NDArray[np.float32]:
    """Return the scores of images, or of the bundled photographs if there are none, float32 (n, classes).

    Raises:
        StageError: the runtime cannot run the file.
    """
    import numpy as np

    from advisor.compression.calibration import from_photographs
    from advisor.measurement.accuracy.inference import predict, predict_arrays

    rows = predict(path, images, spec) if images else predict_arrays(path, from_photographs(spec, seed + SCORING_SEED))
    if not np.isfinite(rows).all():
        raise StageError(f"{path.name} gives values that are not finite")
    return rows
