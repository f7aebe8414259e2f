"""Read the facts of an operator that rules of accelerators refer to: shapes, axes, options, types.

The names of the facts are keys of ``device_profiles/accelerators/*.yaml``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Mapping

from advisor.tflite import Model, Operator

Fact = float | str
SHAPE_FACTS = (
    "version",
    "inputs",
    "outputs",
    "changing_inputs",
    "rank",
    "output_rank",
    "batch",
    "elements",
    "outer_elements",
    "outer_rows",
    "output_height",
    "output_width",
    "filter_area",
    "axes",
    "padded_axes",
    "same_quantization",
)
"""Names of the facts that do not come from the options of an operator."""

_AXES = frozenset(
    {"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"}
)
_PADS = frozenset({"PAD", "PADV2", "MIRROR_PAD"})
_INDICES = ("int32", "int64")


def expands_constants(model: Model, operator: Operator) -> bool:
    """Return True if all inputs of an operator are constants."""
    return all(model.tensors[index].is_constant for index in operator.inputs if index >= 0)


def read_facts(model: Model, operator: Operator, constants: Collection[int]) -> Mapping[str, Fact]:
    """Return the facts of an operator of the main graph by name, including its options;
    it may not have all.

    ``rank`` is the highest rank of all changing tensors. ``outer_elements`` and ``outer_rows`` are
    the products of all but the last three sides, and of all but the last side, of the first
    changing input. ``axes`` and ``padded_axes`` are texts such as ``1,2``.
    """
    present = [index for index in operator.inputs if index >= 0]
    changing = []
    for index in present:
        if index not in constants:
            changing.append(model.tensors[index])
    outputs = [model.tensors[index] for index in operator.outputs]
    facts: dict[str, Fact] = {
        **operator.options,
        "version": operator.version,
        "inputs": len(present),
        "outputs": len(outputs),
        "changing_inputs": len(changing),
    }
    # Constants have no batch, and their shapes are those of weights.
    if changing:
        shape = changing[0].shape
        facts |= {
            "batch": shape[0] if len(shape) > 1 else 1,
            "elements": math.prod(map(abs, shape)),
            "outer_elements": math.prod(map(abs, shape[:-3])),
            "outer_rows": math.prod(map(abs, shape[:-1])),
            "rank": max(len(tensor.shape) for tensor in (*changing, *outputs)),
        }
    if outputs:
        shape = outputs[0].shape
        facts["output_rank"] = len(shape)
        if len(shape) == 4:
            facts |= {"output_height": shape[1], "output_width": shape[2]}
    if changing and outputs:
        facts["same_quantization"] = int(changing[0].quantization == outputs[0].quantization)
    if "filter_height" in facts:
        facts["filter_area"] = float(facts["filter_height"]) * float(facts["filter_width"])
    return facts | _read_axes(model, operator)


def _read_axes(model: Model, operator: Operator) -> dict[str, Fact]:
    """Return the axes of a reduction or a padding, if they are constants in the file."""
    if len(operator.inputs) < 2 or min(operator.inputs[:2]) < 0:
        return {}
    tensor = model.tensors[operator.inputs[1]]
    rank = len(model.tensors[operator.inputs[0]].shape)
    # Axes that are computed have no content, and give no numbers.
    content = tensor.buffer if tensor.dtype in _INDICES else b""
    form = "i" if tensor.dtype == "int32" else "q"
    size = struct.calcsize(f"<{form}")
    count = len(content) // size
    numbers = struct.unpack(f"<{count}{form}", content[: count * size])
    if operator.name in _AXES and rank:
        # An axis may count from the end: -1 is the last one.
        return {"axes": _join_numbers(number % rank for number in numbers)}
    if operator.name in _PADS:
        # Padding has two numbers for each axis, before and behind.
        padded = [position // 2 for position, number in enumerate(numbers) if number]
        return {"padded_axes": _join_numbers(padded)}
    return {}


def _join_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(set(numbers))))


def read_types(model: Model, operator: Operator) -> tuple[str, str, str]:
    """Return the data types of an operator's activations,
    of its weights (empty if it has none) and of its output.

    Shapes, axes and biases in int32 or int64 are not weights. Weights that another operator
    expands when the file is loaded (float16) are no constants of this one: their type is empty,
    which fits every rule.
    """
    tensors = []
    for index in operator.inputs:
        if index >= 0:
            tensors.append(model.tensors[index])
    # The first changing input: some operators, such as SPLIT, have a constant before it.
    changing = [tensor for tensor in tensors if not tensor.is_constant]
    data = next(iter(changing or tensors), None)
    data_type = data.dtype if data else ""
    weights_type = ""
    for tensor in tensors:
        if tensor.is_constant and tensor is not data and tensor.dtype not in _INDICES:
            weights_type = tensor.dtype
            break
    output_type = ""
    if operator.outputs:
        output_type = model.tensors[operator.outputs[0]].dtype
    return data_type, weights_type, output_type
