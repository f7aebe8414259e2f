"""List the compression recipes, and apply one to a file.

A recipe turns one float ``.tflite`` into a compressed one. The stages of a search and `advisor
compress` call :func:`prepare_file` and :func:`make_file` and nothing else, so both make the same
file. To add a recipe, add an object to ``RECIPES``: ``docs/extend-stages.md``. The name of a
recipe stands in file names, caches and runs, and stays.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from advisor.compression._quantization.grid import Grid, Grids
from advisor.compression._quantization.observe import Inputs
from advisor.compression._quantization.prepared import PreparedModel, prepare_all
from advisor.compression._quantization.quantizer import (
    dynamic_rules,
    eight_bit_rules,
    fitting_images,
    four_bit_rules,
    read_shipped_rules,
)
from advisor.compression._recipes.base import Edit, Needs, Recipe, RecipeInputs, require_float
from advisor.compression._recipes.byte_grids import BYTES
from advisor.compression._recipes.mixed import Mixed
from advisor.compression._recipes.retrained import (
    Clustered,
    PostTraining,
    Pruned,
    QuantizationAware,
)
from advisor.core import UsageError, nearest
from advisor.tflite import (
    Metadata,
    activation_arena_bytes,
    read,
    split_postprocess,
    to_float16,
    to_float_io,
)

__all__ = [
    "RECIPES",
    "CalibrationSource",
    "Recipe",
    "Sizes",
    "arena_bytes",
    "lighter_recipes",
    "make_file",
    "measure_deflated",
    "prepare_file",
    "recipe",
    "zstd_bytes",
]

_COARSE_GRIDS = Grids(Grid(8, power_of_two=True, in_deviation=5.9), Grid(8, power_of_two=True))
_ONE_STEP_GRIDS = Grids(Grid(8, per_channel=False), Grid(8, per_channel=False))

_WEIGHT_ONLY = partial(read_shipped_rules, "weight_only_wi8_afp32")
_SIXTEEN_BIT = partial(read_shipped_rules, "static_wi8_ai16")
_PER_TENSOR = partial(eight_bit_rules, per_channel=False)

RECIPES: tuple[Recipe, ...] = (
    Edit("float32", bytes, "32-bit float weights and arithmetic, as trained"),
    Edit("float16", to_float16, "weights stored in 16-bit float: half the size, float arithmetic"),
    PostTraining(
        "dynamic_int8",
        Grids(Grid(8), None),
        dynamic_rules,
        "8-bit weights, activations in 8 bits at run time",
    ),
    PostTraining("weight_int8", BYTES, _WEIGHT_ONLY, "8-bit weights, float arithmetic"),
    PostTraining(
        "int8",
        BYTES,
        eight_bit_rules,
        "8-bit weights and activations, calibrated on images",
        bits=8,
    ),
    PostTraining(
        "weight_int4", Grids(Grid(4), Grid(8)), four_bit_rules, "4-bit weights, float arithmetic"
    ),
    PostTraining(
        "int8_per_tensor",
        _ONE_STEP_GRIDS,
        _PER_TENSOR,
        "int8 with one scale a tensor",
        bits=8,
    ),
    PostTraining(
        "int16x8",
        BYTES,
        _SIXTEEN_BIT,
        "8-bit weights, 16-bit activations, calibrated on images",
        bits=16,
    ),
    PostTraining(
        "int8_float_io",
        BYTES,
        eight_bit_rules,
        "int8 with float32 input and output",
        bits=8,
        finish=to_float_io,
    ),
    Mixed(),
    QuantizationAware(),
    Pruned(50),
    Pruned(75),
    Clustered(16),
    PostTraining(
        "rounded", _COARSE_GRIDS, None, "float weights in few steps: downloads like int8"
    ),
)

DEFLATE_LEVEL = 6
"""The default of zip tools, and so the level in an app's package."""

ZSTD_LEVEL = 12
"""Level 12 takes 3 s of one core for a file of 95 MB; level 19 takes 36 s and saves 15 % more."""


def recipe(name: str) -> Recipe:
    """Return the recipe of that name; a UsageError names the nearest."""
    by_name: dict[str, Recipe] = {candidate.name: candidate for candidate in RECIPES}
    if name not in by_name:
        names = ", ".join(by_name)
        raise UsageError(
            f"unknown compression '{name}'{nearest(name, by_name)}", f"recipes: {names}"
        )
    return by_name[name]


def lighter_recipes(
    name: str, recipes: Collection[str], named: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the recipes whose results decide whether ``name`` is tried, the lightest first.

    They are some of the ``recipes`` of a search. None decides on a recipe that the user ``named``:
    it is always tried.
    """
    lighter: list[str] = []
    before = "" if name in named else recipe(name).after
    while before:
        if before in recipes:
            lighter.insert(0, before)
        before = recipe(before).after
    return tuple(lighter)


class CalibrationSource(Protocol):
    """Source of the calibration of a file."""

    def read(self) -> Inputs:
        """Return images as model input, or an array for each input."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a file in bytes.

    Attributes:
        size_bytes: the file.
        download_bytes: deflated, as an app's package carries it.
        download_zstd_bytes: compressed by Zstandard, as a server sends it; None if its package is
            not installed.
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
    """

    size_bytes: int
    download_bytes: int
    download_zstd_bytes: int | None
    arena_bytes: int

    @property
    def downloads(self) -> dict[str, int]:
        """The known sizes of a download by their names."""
        known = {
            "download_bytes": self.download_bytes,
            "download_zstd_bytes": self.download_zstd_bytes,
        }
        return {name: size for name, size in known.items() if size is not None}

    @classmethod
    def of_file(cls, path: Path) -> Sizes:
        """Return the sizes of a ``.tflite``; a damaged one is a UsageError."""
        data = path.read_bytes()
        return cls(len(data), measure_deflated(data), zstd_bytes(data), arena_bytes(path))


def prepare_file(
    model: Path,
    grids: Sequence[Grids],
    calibration: CalibrationSource,
    folder: Path,
    earlier: Sequence[Path] = (),
) -> None:
    """Observe a float file, correct it for each grid, and write what its forms need.

    The files go into ``folder`` and are the ``prepared`` ones of :func:`make_file`; ``earlier``
    are those of a similar model.
    """
    data, _ = split_postprocess(model.read_bytes())
    require_float(data, "compression")
    known = PreparedModel.load(earlier[0].parent) if earlier else None
    images = fitting_images(data, calibration.read())
    prepare_all(data, images, grids, known).save(folder)


def make_file(
    model: Path,
    name: str,
    calibration: CalibrationSource,
    inputs: RecipeInputs,
    metadata: Metadata | None,
    out: Path,
    prepared: Sequence[Path] = (),
) -> Mapping[str, Any]:
    """Apply a recipe to a float file and write the result with its metadata; return the notes.

    Recipes take builtin operators only. So a detector is compressed without its
    post-processing, and gets it back. The calibration is read only if the recipe needs it, and
    replaces that in ``inputs``. With the files of :func:`prepare_file` as ``prepared``, the
    model is not observed again.

    Raises:
        UnsupportedRecipe: the recipe does not apply to this model, or needs labelled images and
            got none.
        StageError: the recipe failed.
        UsageError: there is no recipe of that name, or the file is damaged.
    """
    chosen = recipe(name)
    if prepared:
        inputs = replace(inputs, observer=PreparedModel.load(prepared[0].parent).observer())
    # An observer that knows this file needs no images; a recipe that compares or learns does.
    needs_images = inputs.observer.only is None or chosen.needs > Needs.CALIBRATION
    arrays = calibration.read() if chosen.needs_calibration and needs_images else None
    raw, process = split_postprocess(model.read_bytes(), model.name)
    compressed = chosen.make(raw, replace(inputs, calibration=arrays))
    data = process.put_back(compressed.data) if process else compressed.data
    out.write_bytes(metadata.write_into(data) if metadata else data)
    return dict(compressed.notes)


def arena_bytes(path: Path) -> int:
    """Return the memory that a file's activations need at once; a damaged one is a UsageError."""
    return activation_arena_bytes(read(path.read_bytes(), path.name))


def measure_deflated(data: bytes) -> int:
    """Return the size of ``data`` deflated, as a zip archive or an app bundle stores it."""
    return len(zlib.compress(data, DEFLATE_LEVEL))


def zstd_bytes(data: bytes) -> int | None:
    """Return the size of ``data`` compressed by Zstandard, as a server sends a file.

    None if the package is missing.
    """
    try:
        import zstandard
    except ImportError:
        return None
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data))
