"""The work on one file, as functions that child processes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.compression.calibration import CalibrationImages
from advisor.compression.make import Sizes, make_file, sizes_of
from advisor.compression.quantization.observe import Observer
from advisor.compression.recipes.base import RecipeInputs
from advisor.compression.user_model.values import Taken
from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.tflite.metadata import Metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCORING_SEED = 1
"""Added to the seed: other crops of the bundled photographs than those for calibration."""


def make(
    model: Path,
    recipe: str,
    calibration: CalibrationImages,
    inputs: RecipeInputs,
    metadata: Metadata | None,
    out: Path,
) -> Mapping[str, Any]:
    """Make one file with the observer of this process; see :func:`advisor.compression.make.make_file`."""
    return make_file(model, recipe, calibration, replace(inputs, observer=_observer()), metadata, out)


@cache
def _observer() -> Observer:
    """Return the observer that this process keeps between recipes of the same model."""
    return Observer()


def describe(path: Path, target: str) -> tuple[Sizes, Taken]:
    """Return the sizes of a file, and how much of it an accelerator runs."""
    from advisor.measurement.accelerators.delegation import delegate
    from advisor.measurement.accelerators.rules import accelerator
    from advisor.tflite.model import read

    found = delegate(read(path.read_bytes(), path.name), accelerator(target))
    return sizes_of(path), Taken(found.taken, found.operators, found.share, found.kept, found.reasons)


def answer(path: Path, images: Sequence[Path], spec: InputSpec, seed: int) -> NDArray[np.float32]:
    """Return the scores of images, or of the bundled photographs if there are none, float32 (n, classes).

    Raises:
        StageError: the runtime cannot run the file.
    """
    import numpy as np

    from advisor.compression.calibration import from_photographs
    from advisor.measurement.accuracy import predict, predict_arrays

    rows = predict(path, images, spec) if images else predict_arrays(path, from_photographs(spec, seed + SCORING_SEED))
    if not np.isfinite(rows).all():
        raise StageError(f"{path.name} gives values that are not finite")
    return rows
