"""Read the features and logits of a classifier, and give it one more class: ``unknown``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError
from advisor.tflite.model import guarded
from advisor.tflite.rewrite import (
    add_tensor,
    append_operator,
    drop_unused_buffers,
    operator_name,
    pack,
    sign,
    single_graph,
    unpack,
)
from advisor.tflite.surgery import FEATURES, PROBABILITIES, prune
from advisor.tflite.temperature import logits_of

_OPERATOR, _FLOAT32, _FLOAT16 = schema.BuiltinOperator, schema.TensorType.FLOAT32, schema.TensorType.FLOAT16
_DEQUANTIZE_VERSIONS: Mapping[int, int] = {
    schema.TensorType.UINT8: 1,
    schema.TensorType.INT8: 2,
    schema.TensorType.INT16: 3,
    schema.TensorType.FLOAT16: 3,
}
"""The version of DEQUANTIZE that first took the type (TensorFlow Lite's tools/versioning/op_version.cc)."""

_IN_HEAD = frozenset({"FULLY_CONNECTED", "ADD", "QUANTIZE", "DEQUANTIZE", "RESHAPE"})


def with_probe(data: bytes, name: str = "the model") -> bytes:
    """Return the classifier with the single float32 output ``features``: its features, then its logits, (1, F + C).

    Args:
        data: a classifier whose head is a linear layer, or the sum of several, and a softmax; float or quantized. The
            features are the inputs of the layers, in their order.
        name: what to call the model in an error.

    Raises:
        UsageError: the file is damaged.
        StageError: the model has no such head, or cannot be edited.
    """
    model = unpack(data, name)
    graph, signature = single_graph(model)
    features, logits = guarded(name, lambda: _ends_of(model, graph, name))
    output = _together(model, graph, (*features, logits))
    sign(model, graph, signature.inputs[0].name.decode(), {FEATURES: output})
    prune(model, graph, model.signatureDefs[0])
    return pack(model)


def head_layers(data: bytes, name: str = "the model") -> int:
    """Return the number of linear layers in a classifier's head; args and errors as of :func:`with_probe`."""
    model = unpack(data, name)
    return len(guarded(name, lambda: _ends_of(model, model.subgraphs[0], name))[0])


def with_unknown(
    data: bytes,
    axes: npt.NDArray[np.floating],
    images: npt.NDArray[np.floating],
    weight: float,
    offset: float,
    name: str = "the model",
) -> bytes:
    """Give a classifier a last class whose logit is ``offset - weight * similarity``.

    The similarity is the largest entry of ``features @ axes @ images``, where the features are all that the linear
    layers of the head read, divided by their length. The known logits stay, and the softmax is computed in
    float32 over all. Descriptions (labels, normalization) are dropped.

    Args:
        data: a classifier as for :func:`with_probe`, with float32 output (1, C).
        axes: (F, R), kept as float16.
        images: (R, N), kept as float16.
        weight: of the similarity.
        offset: of the logit.
        name: what to call the model in an error.

    Raises:
        UsageError: the file is damaged.
        StageError: the model has no such head, no float32 output, or features of another width.
    """
    model = unpack(data, name)
    graph, signature = single_graph(model)
    if graph.tensors[graph.outputs[0]].type != _FLOAT32:
        raise StageError(f"{name}: a class 'unknown' needs a float32 output")
    layers, scores = guarded(name, lambda: _ends_of(model, graph, name))
    features, logits = _together(model, graph, layers), _as_float(model, graph, scores)
    if _width(graph, features) != axes.shape[0] or axes.shape[1] != images.shape[0]:
        raise StageError(f"{name}: neighbours of {axes.shape} and {images.shape} do not fit {_width(graph, features)}")
    rank, count, classes = *images.shape, _width(graph, logits) + 1
    unit = _append(model, graph, _OPERATOR.L2_NORMALIZATION, [features], (1, len(axes)), schema.L2NormOptionsT())
    place = _linear(model, graph, unit, axes.T, np.zeros(rank))
    each = _linear(model, graph, place, images.T, np.zeros(count))
    axis = add_tensor(model, graph, "unknown/axis", (1,), schema.TensorType.INT32, np.array([1], "<i4").tobytes())
    nearest = _append(model, graph, _OPERATOR.REDUCE_MAX, [each, axis], (1, 1), schema.ReducerOptionsT(keepDims=True))
    own = _linear(model, graph, nearest, np.array([[-weight]]), np.array([offset]), "<f4")
    joined = _together(model, graph, (logits, own))
    output = _append(model, graph, _OPERATOR.SOFTMAX, [joined], (1, classes), schema.SoftmaxOptionsT(beta=1.0))
    sign(model, graph, signature.inputs[0].name.decode(), {PROBABILITIES: output})
    prune(model, graph, model.signatureDefs[0])
    drop_unused_buffers(model)
    return pack(model)


def _ends_of(model: schema.ModelT, graph: schema.SubGraphT, name: str) -> tuple[list[int], int]:
    """Return the tensors that the linear layers of the head read, and the one of the logits."""
    makers = {int(index): operator for operator in graph.operators for index in operator.outputs}
    logits = logits_of(model, graph, makers, name)
    features, waiting = list[int](), [logits]
    for _ in graph.operators:
        if not waiting:
            break
        maker = makers.get(waiting.pop())
        kind = "the model's input" if maker is None else operator_name(model, maker)
        if maker is None or kind not in _IN_HEAD:
            raise StageError(f"{name} has no linear layer before its SOFTMAX: {kind} is in the way")
        if kind == "FULLY_CONNECTED":
            features.append(int(maker.inputs[0]))
        else:
            waiting += [int(index) for index in reversed(maker.inputs[: 2 if kind == "ADD" else 1])]
    return features, logits


def _together(model: schema.ModelT, graph: schema.SubGraphT, parts: Sequence[int]) -> int:
    """Return the tensor of some vectors (1, N) after each other, in float32."""
    floats = [_as_float(model, graph, index) for index in parts]
    if len(floats) == 1:
        return floats[0]
    width = sum(_width(graph, index) for index in floats)
    return _append(model, graph, _OPERATOR.CONCATENATION, floats, (1, width), schema.ConcatenationOptionsT(axis=1))


def _as_float(model: schema.ModelT, graph: schema.SubGraphT, index: int) -> int:
    """Return the tensor, or a new one with its float32 values if it is quantized."""
    tensor = graph.tensors[index]
    if tensor.type == _FLOAT32:
        return index
    version = _DEQUANTIZE_VERSIONS.get(tensor.type)
    if version is None:
        raise StageError(f"'{(tensor.name or b'').decode('utf-8', 'replace')}' has no float32 values")
    return _append(model, graph, _OPERATOR.DEQUANTIZE, [index], tensor.shape, None, version)


def _linear(
    model: schema.ModelT,
    graph: schema.SubGraphT,
    source: int,
    kernel: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    dtype: str = "<f2",
) -> int:
    """Add a linear layer whose kernel (out, in) is kept as ``dtype``; return its result."""
    name, kind = f"unknown/{len(graph.tensors)}", _FLOAT16 if dtype == "<f2" else _FLOAT32
    stored = add_tensor(model, graph, f"{name}/kernel", kernel.shape, kind, kernel.astype(dtype).tobytes())
    full = _as_float(model, graph, stored)
    shift = add_tensor(model, graph, f"{name}/bias", bias.shape, _FLOAT32, bias.astype("<f4").tobytes())
    options = schema.FullyConnectedOptionsT()
    return _append(model, graph, _OPERATOR.FULLY_CONNECTED, [source, full, shift], (1, len(bias)), options)


def _append(
    model: schema.ModelT,
    graph: schema.SubGraphT,
    builtin: int,
    inputs: Sequence[int],
    shape: Iterable[int],
    options: object = None,
    version: int = 1,
) -> int:
    return append_operator(model, graph, builtin, inputs, f"unknown/{len(graph.tensors)}", shape, options, version)


def _width(graph: schema.SubGraphT, index: int) -> int:
    shape = graph.tensors[index].shape
    if shape is None or len(shape) != 2 or shape[0] != 1:
        raise StageError("features and logits need the shape (1, N)")
    return int(shape[1])
