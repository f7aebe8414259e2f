"""Compression recipes: each named, versioned, and made flatbuffer to flatbuffer from one float ``.tflite``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from advisor.compression.quantizer import quantize
from advisor.compression.suitable import require_plain_float
from advisor.core.errors import UsageError, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Calibration = NDArray[np.float32]


class Recipe(ABC):
    """One way to make a float model smaller or faster.

    Attributes:
        name: as users and file names write it.
        version: raised whenever the same input would give other bytes.
        description: one line for help and reports.
        needs_calibration: pictures must be given.
    """

    name: str
    version = 1
    description: str
    needs_calibration = False

    @abstractmethod
    def convert(self, model: bytes, calibration: Calibration | None, /) -> bytes:
        """Return the compressed file."""

    def apply(self, model: bytes, calibration: Calibration | None = None) -> bytes:
        """Return the compressed file, after a check that the recipe applies.

        Args:
            model: a float ``.tflite`` with fixed shapes.
            calibration: normalised pictures, float32 (n, S, S, 3), where ``needs_calibration``.

        Raises:
            UnsupportedRecipe: the model is quantized already, has open shapes, custom operators or several graphs.
            StageError: calibration pictures are missing or do not fit.
            UsageError: the file is damaged.
        """
        require_plain_float(model, self.name)
        return self.convert(model, calibration)


class Edit(Recipe):
    """A recipe that needs the file alone.

    Args:
        name: the recipe's name.
        edit: file in, file out.
        description: one line.
    """

    def __init__(self, name: str, edit: Callable[[bytes], bytes], description: str) -> None:
        self.name, self.description = name, description
        self._edit = edit

    def convert(self, model: bytes, _calibration: Calibration | None, /) -> bytes:
        """Return the edited file."""
        return self._edit(model)


class Quantized(Recipe):
    """A recipe of ai-edge-quantizer.

    Args:
        name: the recipe's name.
        rules: gives the quantizer's own recipe.
        description: one line.
        needs_calibration: activations are quantized too, by ranges seen on pictures.
        finish: an edit of the quantized file.
    """

    def __init__(
        self,
        name: str,
        rules: Callable[[], Any],
        description: str,
        needs_calibration: bool = False,
        finish: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.name, self.description, self.needs_calibration = name, description, needs_calibration
        self._rules, self._finish = rules, finish

    def convert(self, model: bytes, calibration: Calibration | None, /) -> bytes:
        """Return the quantized file."""
        quantized = quantize(model, self._rules, calibration if self.needs_calibration else None)
        return self._finish(quantized) if self._finish else quantized


def _shipped_rules(name: str) -> Callable[[], Any]:
    """Return what gives one of ai-edge-quantizer's own recipes, which its naming grammar describes."""

    def make() -> Any:
        from ai_edge_quantizer import recipe as recipes

        return getattr(recipes, name)()

    return make


def _per_tensor_rules() -> Any:
    """8-bit weights and activations with one scale a tensor, as older accelerators want them."""
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


def _unchanged(model: bytes) -> bytes:
    return model


def _float16(model: bytes) -> bytes:
    from advisor.tflite.float16 import to_float16

    return to_float16(model)


def _rounded(model: bytes) -> bytes:
    from advisor.compression.rounding import round_weights

    return round_weights(model)


def _float_io(model: bytes) -> bytes:
    from advisor.tflite.interface import to_float_io

    return to_float_io(model)


_STATIC8 = _shipped_rules("static_wi8_ai8")

RECIPES: tuple[Recipe, ...] = (
    Edit("float32", _unchanged, "32-bit float weights and arithmetic, as trained"),
    Edit("float16", _float16, "weights stored in 16-bit float: half the size, float arithmetic"),
    Quantized("dynamic_int8", _shipped_rules("dynamic_wi8_afp32"), "8-bit weights, activations quantized as they come"),
    Quantized("weight_int8", _shipped_rules("weight_only_wi8_afp32"), "8-bit weights, float arithmetic"),
    Quantized("int8", _STATIC8, "8-bit weights and activations, calibrated on pictures", needs_calibration=True),
    Quantized("weight_int4", _shipped_rules("weight_only_wi4_afp32"), "4-bit weights, float arithmetic"),
    Quantized("int8_per_tensor", _per_tensor_rules, "int8 with one scale a tensor, for older accelerators", True),
    Quantized("int16x8", _shipped_rules("static_wi8_ai16"), "8-bit weights, 16-bit activations, calibrated", True),
    Quantized("int8_float_io", _STATIC8, "int8 inside, float32 picture in and float32 answer out", True, _float_io),
    Edit(
        "rounded", _rounded, "float weights rounded to 256 steps: as large and fast as float32, a quarter to download"
    ),
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
