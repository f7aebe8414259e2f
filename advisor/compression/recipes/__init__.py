"""Compression recipes: each turns one float ``.tflite`` into one compressed ``.tflite``."""

from functools import partial

from advisor.compression.quantization.grid import BYTES, Grid, Grids
from advisor.compression.quantization.quantizer import dynamic_rules, eight_bit_rules, four_bit_rules, shipped_rules
from advisor.compression.recipes.base import Edit, Recipe, lighter_recipes
from advisor.compression.recipes.mixed import Mixed
from advisor.compression.recipes.retrained import Clustered, PostTraining, Pruned, QuantizationAware
from advisor.core.errors import UsageError, nearest
from advisor.tflite.levels import to_float16
from advisor.tflite.quantization import to_float_io


def _float16(model: bytes) -> bytes:

    return to_float16(model)


def _float_io(model: bytes) -> bytes:

    return to_float_io(model)


_ROUNDED = Grids(Grid(8, power_of_two=True, in_deviation=5.9), Grid(8, power_of_two=True))
_PER_TENSOR = Grids(Grid(8, per_channel=False), Grid(8, per_channel=False))

_WEIGHTS = partial(shipped_rules, "weight_only_wi8_afp32")
_SIXTEEN = partial(shipped_rules, "static_wi8_ai16")
_ONE_SCALE = partial(eight_bit_rules, per_channel=False)

RECIPES: tuple[Recipe, ...] = (
    Edit("float32", bytes, "32-bit float weights and arithmetic, as trained"),
    Edit("float16", _float16, "weights stored in 16-bit float: half the size, float arithmetic"),
    PostTraining(
        "dynamic_int8", Grids(Grid(8), None), dynamic_rules, "8-bit weights, activations in 8 bits at run time"
    ),
    PostTraining("weight_int8", BYTES, _WEIGHTS, "8-bit weights, float arithmetic"),
    PostTraining("int8", BYTES, eight_bit_rules, "8-bit weights and activations, calibrated on images", bits=8),
    PostTraining("weight_int4", Grids(Grid(4), Grid(8)), four_bit_rules, "4-bit weights, float arithmetic"),
    PostTraining("int8_per_tensor", _PER_TENSOR, _ONE_SCALE, "int8 with one scale a tensor", bits=8),
    PostTraining("int16x8", BYTES, _SIXTEEN, "8-bit weights, 16-bit activations, calibrated on images", bits=16),
    PostTraining(
        "int8_float_io", BYTES, eight_bit_rules, "int8 with float32 input and output", bits=8, finish=_float_io
    ),
    Mixed(),
    QuantizationAware(),
    Pruned(50),
    Pruned(75),
    Clustered(16),
    PostTraining("rounded", _ROUNDED, None, "float weights in few steps: downloads like int8"),
)


def recipe(name: str) -> Recipe:
    """Return the recipe of that name.

    Raises:
        UsageError: there is none.
    """
    known: dict[str, Recipe] = {one.name: one for one in RECIPES}
    if name not in known:
        raise UsageError(f"unknown compression '{name}'{nearest(name, known)}", f"recipes: {', '.join(known)}")
    return known[name]


__all__ = ["RECIPES", "Recipe", "lighter_recipes", "recipe"]
