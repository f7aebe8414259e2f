"""Divide the logits of a classifier by a temperature, inside the constants of its last linear layer.

Source: C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, section 4.2. The option ``beta`` of
SOFTMAX would do the same, but XNNPACK takes only a beta of 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError
from advisor.tflite.metadata import read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.model import guarded
from advisor.tflite.rewrite import add_buffer, content_of, drop_unused_buffers, operator_name, pack, unpack

_AFTER_SOFTMAX = frozenset({"DEQUANTIZE", "QUANTIZE", "RESHAPE"})

_SCALED_INPUTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(_AFTER_SOFTMAX, (0,)),
        "ADD": (0, 1),
        **dict.fromkeys(("CONV_2D", "FULLY_CONNECTED"), (1, 2)),
    }
)
"""The inputs of each operator that, divided by a number, divide its result by that number: of layers the weights and
the bias."""

_FLOATS: Mapping[int, str] = MappingProxyType({schema.TensorType.FLOAT32: "<f4", schema.TensorType.FLOAT16: "<f2"})
_NO_INPUT = -1


def with_temperature(data: bytes, temperature: float, name: str = "the model") -> bytes:
    """Divide the logits of a classifier by ``temperature``, so that its softmax gives calibrated probabilities.

    The file keeps its operators, and so its latency. Float constants of the last linear layer are divided. Quantized
    constants and activations keep their integers, and their scales are divided. The class of the largest logit stays
    first, but integer probabilities (int8: steps of 1/256) tie more often at a temperature above 1. Labels and
    normalization are read and written again: every field of :class:`.metadata.Metadata`, and no other description.

    Args:
        data: a classifier with one output, a softmax of a linear layer or of the sum of several; float or quantized.
        temperature: what logits are divided by; above 1 the probabilities become less certain.
        name: what to call the model in an error.

    Raises:
        UsageError: the file is damaged.
        StageError: the temperature is not finite and positive, or takes a constant out of the range of its type; the
            model has no such head, or another operator reads a part of it; or the model cannot be edited.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise StageError(f"a temperature of {temperature} is not finite and positive")
    metadata = read_metadata(data, name)
    model = unpack(data, name)
    graph = model.subgraphs[0]
    for index in guarded(name, lambda: _head(model, graph, name)):
        _divide(model, graph.tensors[index], temperature)
    drop_unused_buffers(model)
    made = pack(model)
    return write_metadata(made, metadata) if metadata else made


def _head(model: schema.ModelT, graph: schema.SubGraphT, name: str) -> list[int]:
    """Return the tensors from the logits up to the constants of the linear layers."""
    makers = {int(index): operator for operator in graph.operators for index in operator.outputs}
    logits = logits_of(model, graph, makers, name)
    head, waiting, read_in_head = list[int](), [logits], Counter([logits])
    while waiting:
        index = waiting.pop()
        if index in head:
            continue
        head.append(index)
        if content_of(model, graph.tensors[index]) is None:
            inputs = _scaled_inputs(model, makers.get(index), name)
            waiting += inputs
            read_in_head.update(inputs)
    readings = Counter(int(index) for operator in graph.operators for index in operator.inputs)
    shared = [_name(graph.tensors[index]) for index in head if readings[index] != read_in_head[index]]
    if shared:
        raise StageError(f"{name}: '{shared[0]}' of the head has another reader, which a temperature would change")
    return head


def logits_of(model: schema.ModelT, graph: schema.SubGraphT, makers: Mapping[int, schema.OperatorT], name: str) -> int:
    """Return the input of the SOFTMAX that gives the only output.

    Args:
        model: tables of a file.
        graph: its only subgraph.
        makers: the operator that makes each tensor.
        name: what to call the model in an error.

    Raises:
        StageError: there is no such SOFTMAX.
    """
    graphs, outputs = len(model.subgraphs), len(graph.outputs)
    if (graphs, outputs) != (1, 1):
        raise StageError(f"{name} has {graphs} graphs and {outputs} outputs, and a temperature needs 1 of each")
    index, found = int(graph.outputs[0]), "the model's input"
    for _ in graph.operators:
        found = _operator_name(model, makers.get(index))
        if found != "SOFTMAX" and found not in _AFTER_SOFTMAX:
            break
        index = int(makers[index].inputs[0])
        if found == "SOFTMAX":
            return index
    raise StageError(f"{name} ends in {found}, and a temperature needs a SOFTMAX there")


def _scaled_inputs(model: schema.ModelT, operator: schema.OperatorT | None, name: str) -> list[int]:
    """Return the inputs to divide instead of the operator's result."""
    kind = _operator_name(model, operator)
    if operator is None or kind not in _SCALED_INPUTS:
        raise StageError(f"{name} has no linear layer before its SOFTMAX that a temperature fits: {kind} is in the way")
    if getattr(operator.builtinOptions, "fusedActivationFunction", 0):
        raise StageError(f"{name}: the activation function of {kind} is in the way of a temperature")
    inputs = [int(operator.inputs[place]) for place in _SCALED_INPUTS[kind] if place < len(operator.inputs)]
    return [index for index in inputs if index != _NO_INPUT]


def _operator_name(model: schema.ModelT, operator: schema.OperatorT | None) -> str:
    return "the model's input" if operator is None else operator_name(model, operator) or "an unknown operator"


def _divide(model: schema.ModelT, tensor: schema.TensorT, temperature: float) -> None:
    """Divide the real values of a tensor: the content of a float one, else the scale."""
    content, quantization = content_of(model, tensor), tensor.quantization
    if tensor.type in _FLOATS:
        if content is not None:
            values = np.frombuffer(content.tobytes(), _FLOATS[tensor.type])
            tensor.buffer = add_buffer(model, _divided(values, temperature, _name(tensor)).tobytes())
    elif quantization is None or quantization.scale is None or len(quantization.scale) == 0:
        raise StageError(f"'{_name(tensor)}' has neither float values nor a scale to divide by a temperature")
    else:
        quantization.scale = _divided(np.asarray(quantization.scale, "<f4"), temperature, _name(tensor))


def _divided(values: npt.NDArray[Any], temperature: float, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        divided = (values.astype(np.float64) / temperature).astype(values.dtype)
    if not np.isfinite(divided).all() or divided.any() != values.any():
        raise StageError(f"divided by a temperature of {temperature}, '{name}' is out of the range of {values.dtype}")
    return divided


def _name(tensor: schema.TensorT) -> str:
    return (tensor.name or b"").decode("utf-8", "replace")
