"""Apply a recipe to a float file: the one way that ``advisor search`` and ``advisor compress`` make a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.compression.calibration import CalibrationImages
from advisor.compression.download import DownloadSizes, download_sizes_of
from advisor.compression.recipes.inputs import RecipeInputs
from advisor.tflite.metadata import Metadata


@dataclass(frozen=True)
class MadeFile:
    """A ``.tflite`` that could ship.

    Attributes:
        path: the file.
        size_bytes: its size.
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
        download: what it takes to download; None if not computed.
        notes: what the recipe did and found, as JSON can hold it; empty if its name says all.
    """

    path: Path
    size_bytes: int
    arena_bytes: int
    download: DownloadSizes | None
    notes: Mapping[str, Any] = field(default_factory=dict)


def make_file(
    model: Path,
    recipe: str,
    calibration: CalibrationImages,
    inputs: RecipeInputs,
    metadata: Metadata | None,
    out: Path,
    download_sizes: bool = True,
) -> MadeFile:
    """Apply a recipe to a float file and write the result with its metadata.

    Args:
        model: the float ``.tflite``.
        recipe: name of the recipe.
        calibration: images to calibrate on; read only if the recipe needs them.
        inputs: what recipes that score or train use; ``calibration`` in it is replaced.
        metadata: labels and normalisation for the file; None writes none.
        out: where to write.
        download_sizes: also compute the two download sizes. Zstandard takes seconds on a large file.

    Raises:
        UnsupportedRecipe: the recipe does not apply to this model, or needs labelled images and got none.
        StageError: the recipe failed.
        UsageError: there is no recipe of that name, or the file is damaged.
    """
    from advisor.compression.recipes import recipe as find_recipe
    from advisor.tflite.metadata import write_metadata

    chosen = find_recipe(recipe)
    arrays = calibration.read() if chosen.needs_calibration else None
    made = chosen.make(model.read_bytes(), replace(inputs, calibration=arrays))
    out.write_bytes(write_metadata(made.data, metadata) if metadata else made.data)
    return replace(describe_file(out, download_sizes), notes=dict(made.notes))


def describe_file(path: Path, download_sizes: bool = True) -> MadeFile:
    """Return what a ``.tflite`` takes in bytes, without notes.

    Args:
        path: the file.
        download_sizes: also compute the two download sizes.

    Raises:
        UsageError: the file is damaged.
    """
    from advisor.tflite.arena import activation_arena_bytes
    from advisor.tflite.model import read

    data = path.read_bytes()
    download = download_sizes_of(data) if download_sizes else None
    return MadeFile(path, len(data), activation_arena_bytes(read(data, path.name)), download)
