"""Edits of a float model's graph: keep one output, put a classifier's head on pooled features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError, nearest
from advisor.tflite.rewrite import (
    add_tensor,
    drop_unused_buffers,
    new_places,
    operator_code,
    pack,
    single_graph,
    unpack,
)

FEATURES = "features"
PROBABILITIES = "probabilities"


def select_output(data: bytes, name: str) -> bytes:
    """Keep the signature output ``name`` alone, and drop every operator, tensor and buffer that it does not need.

    Inputs stay, also those no longer used. Descriptions (labels, normalization) are dropped: they are written last.

    Raises:
        UsageError: the file is damaged.
        StageError: no such output, or not exactly one subgraph and one signature.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    kept = [entry for entry in signature.outputs or [] if entry.name == name.encode()]
    if not kept:
        names = [(entry.name or b"").decode("utf-8", "replace") for entry in signature.outputs or []]
        raise StageError(f"the model has no output '{name}'{nearest(name, names)}", f"It has: {', '.join(names)}.")
    signature.outputs = kept[:1]
    graph.outputs = [kept[0].tensorIndex]
    _prune(model, graph, signature)
    return pack(model)


def _prune(model: Any, graph: Any, signature: Any) -> None:
    graph.operators = _live_operators(graph)
    _keep_tensors(graph, signature)
    drop_unused_buffers(model)
    _keep_codes(model, graph)


def _live_operators(graph: Any) -> list[Any]:
    """Return the operators that an output depends on, in their order."""
    needed = set(graph.outputs)
    live = []
    for operator in reversed(graph.operators):
        if needed.intersection(operator.outputs):
            live.append(operator)
            needed.update(operator.inputs)
    return live[::-1]


def _keep_tensors(graph: Any, signature: Any) -> None:
    used: set[int] = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        used.update(operator.inputs, operator.outputs, _intermediates(operator))
    places = new_places(used, len(graph.tensors))
    graph.tensors = [tensor for index, tensor in enumerate(graph.tensors) if index in places]
    graph.inputs = _moved(graph.inputs, places)
    graph.outputs = _moved(graph.outputs, places)
    for operator in graph.operators:
        operator.inputs = _moved(operator.inputs, places)
        operator.outputs = _moved(operator.outputs, places)
        if operator.intermediates is not None:
            operator.intermediates = _moved(_intermediates(operator), places)
    for entry in (*(signature.inputs or []), *signature.outputs):
        entry.tensorIndex = places[entry.tensorIndex]


def _intermediates(operator: Any) -> list[int]:
    return [] if operator.intermediates is None else [int(index) for index in operator.intermediates]


def _keep_codes(model: Any, graph: Any) -> None:
    places = new_places({operator.opcodeIndex for operator in graph.operators}, len(model.operatorCodes))
    model.operatorCodes = [code for index, code in enumerate(model.operatorCodes) if index in places]
    for operator in graph.operators:
        operator.opcodeIndex = places[operator.opcodeIndex]


def _moved(indices: Iterable[int], places: dict[int, int]) -> list[int]:
    return [places.get(index, -1) for index in indices]


def attach_head(data: bytes, weights: npt.NDArray[Any], bias: npt.NDArray[Any]) -> bytes:
    """Put a linear classifier and a softmax behind a model of pooled features.

    Args:
        data: a float model whose only output is ``features``, of shape (1, F).
        weights: (F, C), finite.
        bias: (C,), finite.

    Returns:
        The model with the single output ``probabilities``, of shape (1, C).

    Raises:
        UsageError: the file is damaged.
        StageError: the model is not such a features model, or the head does not fit it.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    features = _features(graph, signature)
    width = _width(graph.tensors[features])
    kernel, offset = _head(weights, bias, width)
    classes = len(offset)
    float32 = schema.TensorType.FLOAT32
    logits = add_tensor(model, graph, "head/logits", (1, classes), float32)
    output = add_tensor(model, graph, f"head/{PROBABILITIES}", (1, classes), float32)
    kernel_index = add_tensor(model, graph, "head/weights", (classes, width), float32, kernel.tobytes())
    bias_index = add_tensor(model, graph, "head/bias", (classes,), float32, offset.tobytes())
    graph.operators.append(_fully_connected(model, [features, kernel_index, bias_index], logits))
    graph.operators.append(_softmax(model, logits, output))
    graph.outputs = [output]
    signature.outputs[0].name = PROBABILITIES.encode()
    signature.outputs[0].tensorIndex = output
    return pack(model)


def _features(graph: Any, signature: Any) -> int:
    names = [entry.name for entry in signature.outputs or []]
    if names != [FEATURES.encode()] or graph.outputs != [signature.outputs[0].tensorIndex]:
        raise StageError(f"a head needs a model whose only output is '{FEATURES}', and this one has {names}")
    return int(graph.outputs[0])


def _width(tensor: Any) -> int:
    shape = [] if tensor.shape is None else [int(dimension) for dimension in tensor.shape]
    if tensor.type != schema.TensorType.FLOAT32 or len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
        raise StageError(f"a head needs float32 features of shape (1, F), and these are {tuple(shape)}")
    return shape[1]


def _head(
    weights: npt.NDArray[Any], bias: npt.NDArray[Any], width: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the kernel as the runtime wants it, (C, F), and the bias (C,)."""
    if weights.ndim != 2 or weights.shape[0] != width or bias.shape != weights.shape[1:] or not bias.size:
        raise StageError(f"a head of {weights.shape} and {bias.shape} does not fit {width} features")
    kernel = np.ascontiguousarray(weights.T, dtype="<f4")
    offset = np.ascontiguousarray(bias, dtype="<f4")
    if not (np.isfinite(kernel).all() and np.isfinite(offset).all()):
        raise StageError("the head's weights are not finite")
    return kernel, offset


def _fully_connected(model: Any, inputs: list[int], output: int) -> Any:
    code = operator_code(model, schema.BuiltinOperator.FULLY_CONNECTED, 1)
    options = schema.FullyConnectedOptionsT()
    return _operator(code, inputs, output, schema.BuiltinOptions.FullyConnectedOptions, options)


def _softmax(model: Any, logits: int, output: int) -> Any:
    code = operator_code(model, schema.BuiltinOperator.SOFTMAX, 1)
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    return _operator(code, [logits], output, schema.BuiltinOptions.SoftmaxOptions, options)


def _operator(code: int, inputs: list[int], output: int, options_type: int, options: Any) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex = code
    operator.inputs = inputs
    operator.outputs = [output]
    operator.builtinOptionsType = options_type
    operator.builtinOptions = options
    return operator
