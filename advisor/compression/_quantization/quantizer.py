"""Run ai-edge-quantizer on a float model by rules for its operators.

The recipes call :func:`quantize_model` with rules from here, after their weights are on a grid
(`correction.py`) and their activations are known (`observe.py`). The package is called nowhere
else; what it refuses becomes an UnsupportedRecipe. Other rules need a new ``version`` of the
recipes.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError, UnsupportedRecipe, message_of
from advisor.tflite import IN_FLOAT, read, unpack

if TYPE_CHECKING:
    from advisor.compression._quantization.observe import Inputs, Range

Rules = list[dict[str, Any]]
"""A quantization recipe of ai-edge-quantizer."""

_REFUSALS = (
    ValueError,
    RuntimeError,
    KeyError,
    NotImplementedError,
    TypeError,
    IndexError,
    AttributeError,
)
"""Errors that ai-edge-quantizer raises for a graph that it cannot quantize.

It has no error class of its own.
"""


def quantize_model(model: bytes, rules: Rules, ranges: Mapping[int, Range] | None = None) -> bytes:
    """Return a float model quantized by ai-edge-quantizer with its rules by operator.

    ``ranges`` of tensors by their index are for rules that quantize activations. They are known of
    the main graph alone: other graphs, such as the body of a loop, stay float then. A model that
    the quantizer refuses is an UnsupportedRecipe.
    """
    from ai_edge_quantizer import quantizer

    model = _with_unique_names(model)
    if ranges:
        rules = [*rules, *_make_float_rules(model)]
    # The calibrator shows a progress bar.
    with contextlib.redirect_stderr(io.StringIO()):
        tool = quantizer.Quantizer(model)
        tool.load_quantization_recipe(rules)
        try:
            statistics = None
            if ranges and tool.need_calibration:
                statistics = _make_statistics(model, ranges)
            result = tool.quantize(
                statistics, enable_progress_bar=False, enable_progress_report=False
            )
        except _REFUSALS as error:
            raise UnsupportedRecipe(
                f"the quantizer refuses the model: {message_of(error)}"
            ) from error
    return bytes(result.quantized_model)


def _with_unique_names(data: bytes) -> bytes:
    """Return a file in which no two tensors have one name, as the quantizer knows them by name."""
    known = set[str]()
    repeated = dict[tuple[int, int], str]()
    for number, graph in enumerate(read(data).subgraphs):
        for place, tensor in enumerate(graph.tensors):
            if tensor.name in known:
                repeated[number, place] = f"{tensor.name}#{number}.{place}"
            known.add(repeated.get((number, place), tensor.name))
    if not repeated:
        return data
    tables = unpack(data)
    for (number, place), name in repeated.items():
        tables.subgraphs[number].tensors[place].name = name.encode()
    return tables.pack()


def _make_float_rules(data: bytes) -> Rules:
    """Return rules that leave some operators float.

    These are all graphs but the main one, and operators that follow :data:`IN_FLOAT`. Constant
    matrices that follow it have 8 bits in the file, and are read as floats.
    """
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    model = read(data)
    floats = set[int]()
    for operator in model.operators:
        names = [model.tensors[index].name for index in operator.outputs]
        if floats & set(operator.inputs) or any(IN_FLOAT in name for name in names):
            floats |= set(operator.outputs)
            _leave_float(manager, *names)
            if operator.name == "BATCH_MATMUL":
                manager.add_weight_only_config(
                    _join_scope(*names), qtyping.TFLOperationName.BATCH_MATMUL, num_bits=8
                )
    for graph in model.subgraphs[1:]:
        # What a graph takes and gives counts as an operator each.
        results = [operator.outputs for operator in graph.operators]
        for tensors in (*results, graph.inputs, graph.outputs):
            _leave_float(manager, *(graph.tensors[index].name for index in tensors))
    return list(manager.get_quantization_recipe())


def _leave_float(manager: Any, *names: str) -> None:
    """Add a rule that leaves an operator float; the names of its outputs identify it."""
    from ai_edge_quantizer import algorithm_manager, qtyping

    all_operators = qtyping.TFLOperationName.ALL_SUPPORTED
    keep = algorithm_manager.AlgorithmName.NO_QUANTIZE
    manager.add_quantization_config(_join_scope(*names), all_operators, algorithm_key=keep)


def _join_scope(*names: str) -> str:
    """Return the pattern by which the quantizer finds the operator with these outputs."""
    outputs = "".join(re.escape(name) + ";" for name in names)
    return f"^{outputs}$"


def _make_statistics(model: bytes, ranges: Mapping[int, Range]) -> dict[str, dict[str, Any]]:
    """Return ranges as the quantizer's calibration does: arrays of a tensor's rank, by name."""
    tensors = read(model).tensors
    statistics = {}
    for index, (low, high) in ranges.items():
        shape = (1,) * len(tensors[index].shape)
        statistics[tensors[index].name] = {
            "min": np.full(shape, low, np.float32),
            "max": np.full(shape, high, np.float32),
        }
    return statistics


def fitting_images(model: bytes, images: Inputs | None) -> NDArray[np.float32]:
    """Return the calibration images after checking that they fit the model's input.

    Images that do not fit are a StageError. A model of several inputs, or samples in place of
    images, is an UnsupportedRecipe.
    """
    inputs = read(model).inputs
    if len(inputs) != 1 or isinstance(images, tuple):
        raise UnsupportedRecipe(
            f"the model has {len(inputs)} inputs, and images fill one",
            "give samples of all_operators input with --samples",
        )
    shape = inputs[0].shape
    if images is None or not len(images):
        raise StageError("calibration images are needed and none were given")
    if (1, *images.shape[1:]) != shape or images.dtype != np.float32:
        raise StageError(
            f"calibration images are {images.dtype} {images.shape[1:]}, the model takes {shape}"
        )
    if not np.isfinite(images).all():
        raise StageError("calibration images hold values that are not finite")
    return images


def fitting_inputs(model: bytes, samples: Inputs | None) -> tuple[NDArray[Any], ...]:
    """Return an array for each input of the model after checking that they fit.

    ``samples`` are images for a model of one input, or a tuple of arrays in the order of its
    inputs, with the samples on the first axis. Arrays that do not fit are a StageError.
    """
    if not isinstance(samples, tuple):
        return (fitting_images(model, samples),)
    wanted = read(model).inputs
    if len(samples) != len(wanted) or len(set(map(len, samples))) != 1:
        raise StageError(f"{len(samples)} arrays of samples for {len(wanted)} inputs")
    for tensor, array in zip(wanted, samples, strict=True):
        if array.shape[1:] != tensor.shape or str(array.dtype) != tensor.dtype:
            raise StageError(
                f"samples of input '{tensor.name}' are {array.dtype} {array.shape[1:]}, "
                f"the model takes {tensor.dtype} {tensor.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise StageError(f"samples of input '{tensor.name}' hold values that are not finite")
    return samples


def read_shipped_rules(name: str) -> Rules:
    """Return one of ai-edge-quantizer's own recipes, by its name."""
    from ai_edge_quantizer import recipe

    return list(getattr(recipe, name)())


def dynamic_rules() -> Rules:
    """Return rules for kernels that quantize their inputs at run time.

    Depthwise kernels stay float, as no runtime runs them fast (4x slower on x86).
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        ".*",
        qtyping.TFLOperationName.DEPTHWISE_CONV_2D,
        algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE,
    )
    return list(manager.get_quantization_recipe())


def four_bit_rules() -> Rules:
    """Return rules for 4-bit kernels.

    Depthwise kernels take 8 bits, as 4 bits harm them and they are small.
    """
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    return list(manager.get_quantization_recipe())


def eight_bit_rules(but: Collection[str] = (), per_channel: bool = True) -> Rules:
    """Return rules for 8-bit weights and activations.

    A kernel has one step for each output channel, or one for all. Operators with an output tensor
    of a name in ``but`` stay float, and divisions do: a kernel of integers fails at a divisor that
    rounds to zero.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    all_operators = qtyping.TFLOperationName.ALL_SUPPORTED
    steps = qtyping.QuantGranularity.TENSORWISE
    if per_channel:
        steps = qtyping.QuantGranularity.CHANNELWISE
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(
        ".*", all_operators, activation_num_bits=8, weight_num_bits=8, weight_granularity=steps
    )
    keep = algorithm_manager.AlgorithmName.NO_QUANTIZE
    manager.add_quantization_config(".*", qtyping.TFLOperationName.DIV, algorithm_key=keep)
    for name in but:
        _leave_float(manager, name)
    return list(manager.get_quantization_recipe())
