"""One form made and looked at, as functions that child processes run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.compression.own.values import Sizes, Taken
from advisor.compression.recipe_inputs import RecipeInputs, TrainingImages
from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.tflite.metadata import Metadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.observe import Observer

JUDGING_SEED = 1
"""Crops of the bundled photographs other than those that are calibrated on."""


def make(
    model: Path,
    recipe: str,
    calibration: Sequence[Path],
    training: TrainingImages | None,
    view: InputSpec,
    max_drop_points: float | None,
    learn_s: float,
    seed: int,
    metadata: Metadata | None,
    path: Path,
) -> dict[str, Any]:
    """Make one form and return the recipe's notes.

    Raises:
        UnsupportedRecipe: it does not apply.
        StageError: it failed.
    """
    from advisor.compression.recipes import recipe as find_recipe
    from advisor.tflite.metadata import write_metadata

    chosen = find_recipe(recipe)
    arrays = inputs(calibration, view, seed) if chosen.needs_calibration else None
    made = chosen.make(model.read_bytes(), RecipeInputs(arrays, training, max_drop_points, learn_s, _observer()))
    path.write_bytes(write_metadata(made.data, metadata) if metadata else made.data)
    return dict(made.notes)


@cache
def _observer() -> Observer:
    """Return what this process saw of the model that it made a form of before."""
    from advisor.compression.observe import Observer

    return Observer()


def inputs(images: Sequence[Path], view: InputSpec, seed: int) -> NDArray[np.float32]:
    """Return pictures as model inputs, float32 (n, S, S, 3); the bundled photographs where there are none."""
    from advisor.compression.calibration import from_images, from_photographs

    if images:
        return from_images(images, view)
    return from_photographs(view, seed)


def look(path: Path, target: str) -> tuple[Sizes, Taken]:
    """Return what a file takes in bytes and what an accelerator takes of it."""
    from advisor.compression.download import download_figures
    from advisor.measurement.accelerators.accelerators import accelerator
    from advisor.measurement.accelerators.delegation import delegate
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    data = path.read_bytes()
    model = read(data, path.name)
    found = delegate(model, accelerator(target).rules)
    sizes = Sizes(len(data), **download_figures(data), arena_bytes=activation_arena_bytes(model))
    return sizes, Taken(found.taken, found.operators, found.share, found.kept, found.reasons)


def answer(path: Path, images: Sequence[Path], view: InputSpec, seed: int) -> NDArray[np.float32]:
    """Return the answers to pictures, or to the bundled photographs, float32 (n, classes).

    Raises:
        StageError: the runtime cannot run the file.
    """
    import numpy as np

    from advisor.measurement.accuracy.accuracy import predict, predict_arrays

    crops = () if images else inputs((), view, seed + JUDGING_SEED)
    rows = predict(path, images, view) if images else predict_arrays(path, crops)
    if not np.isfinite(rows).all():
        raise StageError(f"{path.name} answers with values that are not finite")
    return rows
