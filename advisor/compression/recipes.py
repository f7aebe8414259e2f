"""Compression recipes: each named, versioned, and made flatbuffer to flatbuffer from one float ``.tflite``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.compression.correction import Grid, Grids, correct
from advisor.compression.material import Material
from advisor.compression.quantizer import fitting_pictures, quantize
from advisor.compression.recipe import Edit, Recipe, Rung
from advisor.core.errors import UsageError, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Calibration = NDArray[np.float32]


__all__ = ["RECIPES", "Recipe", "recipe"]


class Corrected(Recipe):
    """A recipe that puts weights on a grid, corrects the biases for it, and goes on from there.

    Args:
        name: the recipe's name.
        grids: the values that weights are stored as.
        finish: from the corrected float file and the pictures to the artefact.
        description: one line.
    """

    needs_calibration = True
    rung = Rung.CALIBRATED
    version = 3

    def __init__(
        self, name: str, grids: Grids, finish: Callable[[bytes, Calibration], bytes], description: str
    ) -> None:
        self.name, self.description = name, description
        self._grids, self._finish = grids, finish

    def convert(self, model: bytes, material: Material, /) -> bytes:
        """Return the artefact."""
        pictures = fitting_pictures(model, material.calibration)
        return self._finish(correct(model, self._grids, pictures), pictures)


def _quantized(make_rules: Callable[[], Any]) -> Callable[[bytes, Calibration], bytes]:
    """Return what quantizes by the quantizer's own recipe that ``make_rules`` gives."""
    return lambda model, pictures: quantize(model, make_rules, pictures)


def _shipped_rules(name: str) -> Callable[[], Any]:
    """Return what gives one of ai-edge-quantizer's own recipes, which its naming grammar describes."""

    def make() -> Any:
        from ai_edge_quantizer import recipe as recipes

        return getattr(recipes, name)()

    return make


def _per_tensor_rules() -> Any:
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_static_config(
        regex=".*",
        operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
        activation_num_bits=8,
        weight_num_bits=8,
        weight_granularity=qtyping.QuantGranularity.TENSORWISE,
    )
    return manager.get_quantization_recipe()


def _dynamic_rules() -> Any:
    """Dense kernels dynamic; depthwise ones float, as no runtime has a fast kernel for the mix (4x slower on x86)."""
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(regex=".*", operation_name=qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        regex=".*",
        operation_name=qtyping.TFLOperationName.DEPTHWISE_CONV_2D,
        algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE,
    )
    return manager.get_quantization_recipe()


def _int4_rules() -> Any:
    """4-bit kernels; depthwise ones, few and easily harmed, take 8 bits."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    return manager.get_quantization_recipe()


def _unchanged(model: bytes) -> bytes:
    return model


def _float16(model: bytes) -> bytes:
    from advisor.tflite.float16 import to_float16

    return to_float16(model)


def _int8_float_io(model: bytes, pictures: Calibration) -> bytes:
    from advisor.tflite.interface import to_float_io

    return to_float_io(quantize(model, _STATIC8, pictures))


_STATIC8 = _shipped_rules("static_wi8_ai8")
_STATIC16 = _shipped_rules("static_wi8_ai16")
_WEIGHT8 = _shipped_rules("weight_only_wi8_afp32")

_BYTE = Grid(8)
_BYTES = Grids(_BYTE, _BYTE)
_ROUNDED = Grids(dense=Grid(8, per_channel=False, power_of_two=True), depthwise=Grid(10, power_of_two=True))
_PER_TENSOR = Grids(Grid(8, per_channel=False), Grid(8, per_channel=False))

RECIPES: tuple[Recipe, ...] = (
    Edit("float32", _unchanged, "32-bit float weights and arithmetic, as trained"),
    Edit("float16", _float16, "weights stored in 16-bit float: half the size, float arithmetic"),
    Corrected(
        "dynamic_int8", Grids(_BYTE, None), _quantized(_dynamic_rules), "8-bit weights, activations as they come"
    ),
    Corrected("weight_int8", _BYTES, _quantized(_WEIGHT8), "8-bit weights, float arithmetic"),
    Corrected("int8", _BYTES, _quantized(_STATIC8), "8-bit weights and activations, calibrated on pictures"),
    Corrected("weight_int4", Grids(Grid(4), _BYTE), _quantized(_int4_rules), "4-bit weights, float arithmetic"),
    Corrected("int8_per_tensor", _PER_TENSOR, _quantized(_per_tensor_rules), "int8 with one scale a tensor"),
    Corrected("int16x8", _BYTES, _quantized(_STATIC16), "8-bit weights, 16-bit activations, calibrated on pictures"),
    Corrected("int8_float_io", _BYTES, _int8_float_io, "int8 inside, float32 picture in and float32 answer out"),
    Corrected("rounded", _ROUNDED, lambda model, _: model, "float weights in 256 steps: a quarter to download"),
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
