"""Compute the facts of an operator that accelerators' rules refer to: its shapes, its constants, its options."""

import math
import struct
from collections.abc import Collection, Iterable, Mapping

from advisor.tflite.model import Model, Operator, Tensor

Fact = float | str
SHAPE_FACTS = (
    *("version", "inputs", "outputs", "changing_inputs", "rank", "output_rank", "batch", "elements", "outer_elements"),
    *("outer_rows", "output_height", "output_width", "filter_area", "axes", "padded_axes", "same_quantization"),
)
_AXES = frozenset({"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"})
_PADS = frozenset({"PAD", "PADV2", "MIRROR_PAD"})
_INDICES = ("int32", "int64")


def constant_tensors(model: Model) -> frozenset[int]:
    """Return the tensors that are the same in every run: stored, or expanded from stored ones (float16)."""
    stored = {index for index, tensor in enumerate(model.tensors) if tensor.is_constant}
    expanded = (operator.outputs for operator in model.operators if expands_constants(model, operator))
    return frozenset(stored.union(*expanded))


def expands_constants(model: Model, operator: Operator) -> bool:
    """Return True if all inputs of an operator are constants."""
    return all(model.tensors[index].is_constant for index in operator.inputs if index >= 0)


def facts(model: Model, operator: Operator, constants: Collection[int]) -> Mapping[str, Fact]:
    """Return the facts of an operator by name, including its options.

    ``rank`` is the highest rank of all changing tensors. ``outer_elements`` and ``outer_rows`` are the products of all
    but the last three sides, and of all but the last side, of the first changing input. ``axes`` and ``padded_axes``
    are texts such as ``1,2``. Facts that an operator does not have are missing.

    Args:
        model: the file.
        operator: an operator of its main graph.
        constants: :func:`constant_tensors` of the file.
    """
    present = [index for index in operator.inputs if index >= 0]
    changing = [model.tensors[index] for index in present if index not in constants]
    outputs = [model.tensors[index] for index in operator.outputs]
    found: dict[str, Fact] = {
        **operator.options,
        "version": operator.version,
        "inputs": len(present),
        "outputs": len(outputs),
        "changing_inputs": len(changing),
    }
    if changing:
        shape = changing[0].shape
        found |= {
            "batch": shape[0] if len(shape) > 1 else 1,
            "elements": math.prod(map(abs, shape)),
            "outer_elements": math.prod(map(abs, shape[:-3])),
            "outer_rows": math.prod(map(abs, shape[:-1])),
            "rank": max(len(tensor.shape) for tensor in (*changing, *outputs)),
        }
    if outputs:
        shape = outputs[0].shape
        found["output_rank"] = len(shape)
        if len(shape) == 4:
            found |= {"output_height": shape[1], "output_width": shape[2]}
    if changing and outputs:
        found["same_quantization"] = int(changing[0].quantization == outputs[0].quantization)
    if "filter_height" in found:
        found["filter_area"] = float(found["filter_height"]) * float(found["filter_width"])
    return found | _of_indices(model, operator)


def _of_indices(model: Model, operator: Operator) -> dict[str, Fact]:
    """Return the axes of a reduction or a padding, if they are constants in the file."""
    if len(operator.inputs) < 2 or min(operator.inputs[:2]) < 0:
        return {}
    numbers = whole_numbers(model.tensors[operator.inputs[1]])
    rank = len(model.tensors[operator.inputs[0]].shape)
    if operator.name in _AXES and rank:
        return {"axes": _listed(number % rank for number in numbers)}
    if operator.name in _PADS:
        return {"padded_axes": _listed(position // 2 for position, number in enumerate(numbers) if number)}
    return {}


def whole_numbers(tensor: Tensor) -> tuple[int, ...]:
    """Return the content of a constant of int32 or int64, empty for any other tensor."""
    if tensor.dtype not in _INDICES:
        return ()
    width, form = (4, "i") if tensor.dtype == "int32" else (8, "q")
    return struct.unpack(f"<{len(tensor.buffer) // width}{form}", tensor.buffer[: len(tensor.buffer) // width * width])


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(set(numbers))))


def types_of(model: Model, operator: Operator) -> tuple[str, str, str]:
    """Return the data types of an operator's activations, of its weights (empty if it has none) and of its output.

    Shapes, axes and integer biases are not weights. Constants that another operator expands (float16) have the type
    that they are expanded to.
    """
    tensors = [model.tensors[index] for index in operator.inputs if index >= 0]
    data = next((tensor for tensor in tensors if not tensor.is_constant), tensors[0] if tensors else None)
    weights = next((tensor for tensor in tensors if _is_weights(tensor) and tensor is not data), None)
    output = model.tensors[operator.outputs[0]] if operator.outputs else None
    return tuple(tensor.dtype if tensor else "" for tensor in (data, weights, output))  # type: ignore[return-value]


def _is_weights(tensor: Tensor) -> bool:
    return tensor.is_constant and tensor.dtype not in _INDICES
