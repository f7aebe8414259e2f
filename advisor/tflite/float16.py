"""Store constants as float16 with arithmetic in float32, which halves a float model; and convert them back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.rewrite import (
    add_buffer,
    add_metadata,
    add_tensor,
    content_of,
    drop_unused_buffers,
    new_operator,
    operator_name,
    pack,
    unpack,
)

MAX_FLOAT16 = 65504.0
"""The largest finite float16; larger constants are clamped to it, as the converter does."""

_DEQUANTIZE_VERSION = 3
"""The first version of DEQUANTIZE that takes float16."""

_MIN_RUNTIME = (b"min_runtime_version", (1, 15, 0))
"""The first TensorFlow Lite with that version of DEQUANTIZE, in the converter's format."""

_REDUCED_PRECISION = (b"reduced_precision_support", b"fp16accfp32")
"""The converter's entry that allows a runtime to compute in float16 and accumulate in float32."""


def to_float16(data: bytes) -> bytes:
    """Store every float32 constant that an operator reads as float16, followed by a DEQUANTIZE operator.

    The rules are those of the TensorFlow Lite converter with ``supported_types = [tf.float16]``: constants of every
    size and every operator, one DEQUANTIZE for a constant whatever the number of its readers, values beyond the range
    of float16 clamped, a constant that is itself an output of the graph left alone. Runtimes expand the constants
    once, when they load the file.

    Raises:
        UsageError: the file is damaged.
        StageError: the model cannot be edited.
        UnsupportedRecipe: no operator reads a float32 constant.
    """
    model = unpack(data)
    if sum(_store_constants(model, graph) for graph in model.subgraphs) == 0:
        raise UnsupportedRecipe("the model has no float32 constants to store as float16")
    add_metadata(model, *_REDUCED_PRECISION)
    _raise_min_runtime(model)
    drop_unused_buffers(model)
    return pack(model)


def to_float32(data: bytes, name: str = "the model") -> bytes:
    """Store every float16 constant that a DEQUANTIZE operator expands as float32, as runtimes do when they load it.

    What is computed stays the same to the last bit. A file without such constants is returned as it is.

    Raises:
        UsageError: the file is damaged.
        StageError: the model cannot be edited.
    """
    model = unpack(data, name)
    if sum(_expand_constants(model, graph) for graph in model.subgraphs) == 0:
        return data
    drop_unused_buffers(model)
    return pack(model)


def _expand_constants(model: schema.ModelT, graph: schema.SubGraphT) -> int:
    """Make readers of an expanded constant read the constant itself, now float32; return the number of constants."""
    expanded: dict[int, int] = {}
    for operator in graph.operators:
        source = graph.tensors[operator.inputs[0]] if operator_name(model, operator) == "DEQUANTIZE" else None
        if source and source.type == schema.TensorType.FLOAT16 and content_of(model, source) is not None:
            expanded[operator.outputs[0]] = operator.inputs[0]
    for constant in dict.fromkeys(expanded.values()):
        tensor = graph.tensors[constant]
        values: npt.NDArray[np.float16] = np.frombuffer(content_of(model, tensor).tobytes(), dtype="<f2")
        tensor.type = schema.TensorType.FLOAT32
        tensor.buffer = add_buffer(model, values.astype("<f4").tobytes())
    graph.operators = [each for each in graph.operators if not expanded.keys() & set(each.outputs)]
    for operator in graph.operators:
        operator.inputs = [expanded.get(index, index) for index in operator.inputs]
    return len(expanded)


def _store_constants(model: schema.ModelT, graph: schema.SubGraphT) -> int:
    """Make readers of float32 constants read their expanded float16 form; return the number of constants."""
    expanded: dict[int, int] = {}
    dequantize: list[schema.OperatorT] = []
    for operator in graph.operators:
        for place, index in enumerate(operator.inputs):
            if index not in expanded and _is_float_constant(model, graph, index):
                dequantize.append(_dequantize(model, graph, index))
                expanded[index] = dequantize[-1].outputs[0]
            operator.inputs[place] = expanded.get(index, index)
    graph.operators = dequantize + graph.operators
    return len(expanded)


def _is_float_constant(model: schema.ModelT, graph: schema.SubGraphT, index: int) -> bool:
    if index < 0:
        return False
    tensor = graph.tensors[index]
    plain = tensor.type == schema.TensorType.FLOAT32 and tensor.sparsity is None and not tensor.isVariable
    return plain and content_of(model, tensor) is not None


def _dequantize(model: schema.ModelT, graph: schema.SubGraphT, index: int) -> schema.OperatorT:
    """Convert constant ``index`` to float16 and return the operator that expands it into a new tensor."""
    constant = graph.tensors[index]
    half = _halved(content_of(model, constant))
    if index in graph.outputs:
        index = add_tensor(model, graph, constant.name, constant.shape, schema.TensorType.FLOAT16, half)
    else:
        constant.type = schema.TensorType.FLOAT16
        constant.buffer = add_buffer(model, half)
    name = (constant.name or b"constant") + b"_float32"
    output = add_tensor(model, graph, name, constant.shape, schema.TensorType.FLOAT32)
    return new_operator(model, schema.BuiltinOperator.DEQUANTIZE, [index], output, version=_DEQUANTIZE_VERSION)


def _halved(content: Any) -> bytes:
    values: npt.NDArray[np.float32] = np.frombuffer(content.tobytes(), dtype="<f4")
    half: bytes = np.clip(values, -MAX_FLOAT16, MAX_FLOAT16).astype("<f2").tobytes()
    return half


def _raise_min_runtime(model: schema.ModelT) -> None:
    """Raise the oldest runtime in the file's metadata to one with this DEQUANTIZE, if the file states one."""
    name, needed = _MIN_RUNTIME
    for entry in model.metadata:
        content = model.buffers[entry.buffer].data
        if entry.name != name or content is None:
            continue
        current = _version(bytes(content))
        if current is not None and current < needed:
            text = ".".join(str(part) for part in needed).encode()
            entry.buffer = add_buffer(model, text.ljust(len(content), b"\0"))


def _version(content: bytes) -> tuple[int, ...] | None:
    """Return the numbers of a zero-padded version; None if it is not one."""
    parts = content.rstrip(b"\0").split(b".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else None
