"""Apply a recipe to a float file: the one way that ``advisor search`` and ``advisor compress`` make a file."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from advisor.compression.quantization.observe import Inputs
from advisor.compression.recipes import recipe as find_recipe
from advisor.compression.recipes.base import Needs, RecipeInputs
from advisor.tflite.arena import activation_arena_bytes
from advisor.tflite.metadata import Metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.model import read
from advisor.tflite.postprocess import put_back, split_postprocess

DEFLATE_LEVEL = 6
"""The default of zip tools, and so the level in an app's package."""

ZSTD_LEVEL = 12
"""Level 12 takes 3 s of one core for a file of 95 MB; level 19 takes 36 s and saves 15 % more."""


class CalibrationSource(Protocol):
    """Source of the calibration of a file."""

    def read(self) -> Inputs:
        """Return images as model input, or an array for each input."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a file in bytes.

    Attributes:
        download_bytes: deflated, as an app's package carries it.
        download_zstd_bytes: compressed by Zstandard, as a server sends it; None if its package is not installed.
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
    """

    size_bytes: int
    download_bytes: int
    download_zstd_bytes: int | None
    arena_bytes: int

    @property
    def downloads(self) -> dict[str, int]:
        """The known sizes of a download by their names."""
        known = {"download_bytes": self.download_bytes, "download_zstd_bytes": self.download_zstd_bytes}
        return {name: size for name, size in known.items() if size is not None}


def make_file(
    model: Path,
    recipe: str,
    calibration: CalibrationSource,
    inputs: RecipeInputs,
    metadata: Metadata | None,
    out: Path,
) -> Mapping[str, Any]:
    """Apply a recipe to a float file, write the result with its metadata, and return the recipe's notes.

    Recipes take builtin operators only. So a detector is compressed without its post-processing, and gets it back. The
    calibration is read only if the recipe needs it, and replaces that in ``inputs``.

    Raises:
        UnsupportedRecipe: the recipe does not apply to this model, or needs labelled images and got none.
        StageError: the recipe failed.
        UsageError: there is no recipe of that name, or the file is damaged.
    """
    chosen = find_recipe(recipe)
    needs_images = inputs.observer.only is None or chosen.needs > Needs.CALIBRATION
    arrays = calibration.read() if chosen.needs_calibration and needs_images else None
    raw, process = split_postprocess(model.read_bytes(), model.name)
    made = chosen.make(raw, replace(inputs, calibration=arrays))
    data = put_back(made.data, process) if process else made.data
    out.write_bytes(write_metadata(data, metadata) if metadata else data)
    return dict(made.notes)


def sizes_of(path: Path) -> Sizes:
    """Return the sizes of a ``.tflite``.

    Raises:
        UsageError: the file is damaged.
    """
    data = path.read_bytes()
    return Sizes(len(data), deflated_bytes(data), zstd_bytes(data), arena_bytes(path))


def arena_bytes(path: Path) -> int:
    """Return the memory that the activations of a ``.tflite`` need at once.

    Raises:
        UsageError: the file is damaged.
    """
    return activation_arena_bytes(read(path.read_bytes(), path.name))


def deflated_bytes(data: bytes) -> int:
    """Return the size of ``data`` deflated, as a zip archive or an app bundle stores it."""
    return len(zlib.compress(data, DEFLATE_LEVEL))


def zstd_bytes(data: bytes) -> int | None:
    """Return the size of ``data`` compressed by Zstandard, as a server sends a file; None if its package is missing."""
    try:
        import zstandard
    except ImportError:
        return None
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data))
