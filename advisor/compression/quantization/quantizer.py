"""Run ai-edge-quantizer on the bytes of a model, by rules for its operators; the library is imported when needed."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError, UnsupportedRecipe, message_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.quantization.observe import Inputs, Range

Rules = list[dict[str, Any]]
"""A quantization recipe of ai-edge-quantizer."""

_REFUSALS = (ValueError, RuntimeError, KeyError, NotImplementedError, TypeError, IndexError, AttributeError)
"""Errors that ai-edge-quantizer raises for a graph that it cannot quantize; it has no error class of its own."""


def quantize(model: bytes, rules: Rules, ranges: Mapping[int, Range] | None = None) -> bytes:
    """Return ``model`` quantized by ai-edge-quantizer.

    Args:
        model: a float ``.tflite``.
        rules: the quantizer's rules by operator.
        ranges: range of each tensor by its index, for rules that quantize activations.

    Raises:
        UnsupportedRecipe: the quantizer refuses the model.
    """
    from ai_edge_quantizer import quantizer

    with contextlib.redirect_stderr(io.StringIO()):  # The calibrator shows a progress bar.
        tool = quantizer.Quantizer(model)
        tool.load_quantization_recipe(rules)
        try:
            statistics = _statistics(model, ranges) if ranges and tool.need_calibration else None
            result = tool.quantize(statistics, enable_progress_bar=False, enable_progress_report=False)
        except _REFUSALS as error:
            raise UnsupportedRecipe(f"the quantizer refuses the model: {message_of(error)}") from error
    return bytes(result.quantized_model)


def _statistics(model: bytes, ranges: Mapping[int, Range]) -> dict[str, dict[str, Any]]:
    """Return ranges in the format of the quantizer's own calibration: by name, arrays of the tensor's rank."""
    import numpy as np

    from advisor.tflite.model import read

    tensors = read(model).tensors
    found = {}
    for index, (low, high) in ranges.items():
        shape = (1,) * len(tensors[index].shape)
        found[tensors[index].name] = {"min": np.full(shape, low, np.float32), "max": np.full(shape, high, np.float32)}
    return found


def fitting_images(model: bytes, images: Inputs | None) -> NDArray[np.float32]:
    """Return the calibration images after checking that they fit the model's input.

    Raises:
        UnsupportedRecipe: the model has several inputs, or there are samples instead of images.
        StageError: the images are missing, of the wrong shape, or not finite.
    """
    import numpy as np

    from advisor.tflite.model import read

    inputs = read(model).inputs
    if len(inputs) != 1 or isinstance(images, tuple):
        raise UnsupportedRecipe(
            f"the model has {len(inputs)} inputs, and images fill one", "give samples of every input with --samples"
        )
    shape = inputs[0].shape
    if images is None or not len(images):
        raise StageError("calibration images are needed and none were given")
    if (1, *images.shape[1:]) != shape or images.dtype != np.float32:
        raise StageError(f"calibration images are {images.dtype} {images.shape[1:]}, the model takes {shape}")
    if not np.isfinite(images).all():
        raise StageError("calibration images hold values that are not finite")
    return images


def fitting_inputs(model: bytes, given: Inputs | None) -> tuple[NDArray[Any], ...]:
    """Return an array for each input of the model, its first axis the samples, after checking that they fit.

    Args:
        model: a float ``.tflite``.
        given: images for a model of one input, or a tuple of arrays in the order of its inputs.

    Raises:
        StageError: arrays are missing, of the wrong shape or type, or not finite.
    """
    import numpy as np

    from advisor.tflite.model import read

    if not isinstance(given, tuple):
        return (fitting_images(model, given),)
    wanted = read(model).inputs
    if len(given) != len(wanted) or len({len(array) for array in given}) != 1:
        raise StageError(f"{len(given)} arrays of samples for {len(wanted)} inputs")
    for tensor, array in zip(wanted, given, strict=True):
        if array.shape[1:] != tensor.shape or str(array.dtype) != tensor.dtype:
            raise StageError(
                f"samples of input '{tensor.name}' are {array.dtype} {array.shape[1:]}, "
                f"the model takes {tensor.dtype} {tensor.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise StageError(f"samples of input '{tensor.name}' hold values that are not finite")
    return given


def shipped_rules(name: str) -> Rules:
    """Return one of ai-edge-quantizer's own recipes, by its name."""
    from ai_edge_quantizer import recipe

    return list(getattr(recipe, name)())


def dynamic_rules() -> Rules:
    """Return rules for dynamic kernels; depthwise ones stay float, as no runtime runs them fast (4x slower on x86)."""
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        ".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
    )
    return list(manager.get_quantization_recipe())


def four_bit_rules() -> Rules:
    """Return rules for 4-bit kernels; depthwise ones take 8 bits, as 4 bits harm them and they are small."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    return list(manager.get_quantization_recipe())


def eight_bit_rules(but: Collection[str] = (), per_channel: bool = True) -> Rules:
    """Return rules for 8-bit weights and activations.

    Args:
        but: names of the output tensors of operators that stay float.
        per_channel: one step for each output channel of a kernel, else one for the kernel.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    every = qtyping.TFLOperationName.ALL_SUPPORTED
    steps = qtyping.QuantGranularity.CHANNELWISE if per_channel else qtyping.QuantGranularity.TENSORWISE
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(".*", every, activation_num_bits=8, weight_num_bits=8, weight_granularity=steps)
    for name in but:
        # The quantizer identifies an operator by the names of its outputs, each followed by a semicolon.
        manager.add_quantization_config(
            f"^{re.escape(name)};$", every, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
        )
    return list(manager.get_quantization_recipe())
