"""Quantize values as a runtime describes a tensor, and fix the inputs and outputs of a model."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.tflite.rewrite import add_tensor, new_operator, pack, single_graph, unpack


def quantize(values: NDArray[np.float32], detail: dict[str, Any]) -> NDArray[Any]:
    """Return ``values`` in the type of a tensor, quantized with its scale and zero point if it is an integer type."""
    kind = np.dtype(detail["dtype"])
    scale, zero_point = detail["quantization"]
    if kind.kind not in "iu":
        return values.astype(kind)
    span = np.iinfo(kind)
    steps = np.rint(values / scale) + zero_point if scale else np.rint(values)
    return np.clip(steps, span.min, span.max).astype(kind)


def dequantize(values: NDArray[Any], detail: dict[str, Any]) -> NDArray[np.float32]:
    """Return a tensor's values as float32."""
    scale, zero_point = detail["quantization"]
    if values.dtype.kind not in "iu" or not scale:
        return values.astype(np.float32)
    return ((values.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)).astype(np.float32)


_FLOAT32 = schema.TensorType.FLOAT32
_INDICES = (schema.TensorType.INT32, schema.TensorType.INT64, schema.TensorType.BOOL)

# The version of each operator that first took the type (TensorFlow Lite's tools/versioning/op_version.cc).
_QUANTIZE_VERSIONS: Mapping[int, int] = MappingProxyType(
    {schema.TensorType.INT8: 1, schema.TensorType.UINT8: 1, schema.TensorType.INT16: 2}
)
_DEQUANTIZE_VERSIONS: Mapping[int, int] = MappingProxyType(
    {schema.TensorType.UINT8: 1, schema.TensorType.INT8: 2, schema.TensorType.INT16: 3}
)


def to_float_io(data: bytes) -> bytes:
    """Give a quantized model float32 inputs and outputs, with a QUANTIZE operator first and a DEQUANTIZE last.

    The values are those that a client would get that quantizes and dequantizes by itself. MediaPipe (1.2.2) takes
    float32 and uint8 inputs, but refuses the int8 and int16 that ai-edge-quantizer gives. Inputs and outputs that are
    float32 already stay as they are. Descriptions (labels, normalization) are dropped: they are written last.

    Raises:
        UsageError: the file is damaged.
        StageError: more than one subgraph or signature, or an input or output of another type.
    """
    model = unpack(data)
    if len(model.subgraphs) != 1 or len(model.signatureDefs or ()) > 1:
        raise StageError("the model has several subgraphs or signatures, and one can be edited")
    graph, signature = model.subgraphs[0], next(iter(model.signatureDefs or ()), schema.SignatureDefT())
    first, last = [], []
    for place, stored in enumerate(graph.inputs):
        version = _version(graph.tensors[stored], _QUANTIZE_VERSIONS)
        if version:
            graph.inputs[place] = _float_copy(model, graph, stored, signature.inputs)
            code = schema.BuiltinOperator.QUANTIZE
            first.append(new_operator(model, code, [graph.inputs[place]], stored, version=version))
    for place, stored in enumerate(graph.outputs):
        version = _version(graph.tensors[stored], _DEQUANTIZE_VERSIONS)
        if version:
            graph.outputs[place] = _float_copy(model, graph, stored, signature.outputs)
            code = schema.BuiltinOperator.DEQUANTIZE
            last.append(new_operator(model, code, [stored], graph.outputs[place], version=version))
    graph.operators = [*first, *graph.operators, *last]
    return pack(model)


def with_fixed_batch(data: bytes, name: str = "the model") -> bytes:
    """Return a file whose open batch dimension is fixed to one image; a file without one is returned as it is.

    Exports state the batch as -1 beside a shape that says 1, and runtimes take 1. A file with an open side of the image
    stays as it is, too.

    Raises:
        UsageError: the file is damaged.
        StageError: the model cannot be edited.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    stated = [graph.tensors[index].shapeSignature for index in graph.inputs]
    if not any(sides is not None and len(sides) and sides[0] < 1 for sides in stated):
        return data
    if any((np.asarray(sides)[1:] < 1).any() for sides in stated if sides is not None):
        return data
    for tensor in graph.tensors:
        tensor.shapeSignature = None
        if tensor.shape is not None and len(tensor.shape) and tensor.shape[0] < 1:
            tensor.shape = [1, *tensor.shape[1:]]
    return pack(model)


def _version(tensor: schema.TensorT, versions: Mapping[int, int]) -> int:
    """Return the operator's version for the tensor's type, 0 for float32 and for indices."""
    scales = None if tensor.quantization is None else tensor.quantization.scale
    if tensor.type == _FLOAT32 or (tensor.type in _INDICES and scales is None):
        return 0
    if tensor.type not in versions or scales is None or len(scales) != 1:
        name = (tensor.name or b"").decode("utf-8", "replace")
        raise StageError(f"'{name}' is neither float32 nor quantized per tensor to 8 or 16 bits")
    return versions[tensor.type]


def _float_copy(model: schema.ModelT, graph: schema.SubGraphT, index: int, entries: list[schema.TensorMapT]) -> int:
    """Add a float32 tensor that takes the place of tensor ``index`` in the entries of a signature."""
    tensor = graph.tensors[index]
    copy = add_tensor(model, graph, (tensor.name or b"") + b"_float32", tensor.shape, _FLOAT32)
    _redirect(entries, index, copy)
    return copy


def _redirect(entries: list[schema.TensorMapT], old: int, new: int) -> None:
    for entry in entries or []:
        if entry.tensorIndex == old:
            entry.tensorIndex = new


def fold_normalization(data: bytes, mean: Sequence[float], std: Sequence[float]) -> bytes:
    """Give a model with a normalized float32 input an input of raw values (0..255), normalized inside the model.

    A MUL and an ADD operator go first. Needed where ``mean`` or ``std`` differ by channel: MediaPipe (1.2.2) refuses
    such a normalization. Describe the result with mean 0 and deviation 1.

    Args:
        data: a model whose only input is a float32 image (1, H, W, C).
        mean: one number a channel, subtracted from the values.
        std: one number a channel, positive; what the difference is divided by.

    Raises:
        UsageError: the file is damaged.
        StageError: the model has no such input, or the numbers do not fit it.
    """
    model = unpack(data)
    graph, signature = single_graph(model)
    normalized = _image(graph)
    shape = graph.tensors[normalized].shape
    scale, shift = _affine(mean, std, int(shape[-1]))
    image = add_tensor(model, graph, "image_values", shape, _FLOAT32)
    scaled = add_tensor(model, graph, "normalization/scaled", shape, _FLOAT32)
    factor = add_tensor(model, graph, "normalization/scale", (len(mean),), _FLOAT32, scale)
    offset = add_tensor(model, graph, "normalization/shift", (len(mean),), _FLOAT32, shift)
    graph.operators = [
        new_operator(model, schema.BuiltinOperator.MUL, [image, factor], scaled, schema.MulOptionsT()),
        new_operator(model, schema.BuiltinOperator.ADD, [scaled, offset], normalized, schema.AddOptionsT()),
        *graph.operators,
    ]
    graph.inputs = [image]
    _redirect(signature.inputs, normalized, image)
    return pack(model)


def _image(graph: schema.SubGraphT) -> int:
    tensors = [graph.tensors[index] for index in graph.inputs]
    if len(tensors) != 1 or tensors[0].type != _FLOAT32 or tensors[0].shape is None or len(tensors[0].shape) != 4:
        raise StageError("normalization can go inside a model of one float32 image input, and this is not one")
    return int(graph.inputs[0])


def _affine(mean: Sequence[float], std: Sequence[float], channels: int) -> tuple[bytes, bytes]:
    """Return the factor and the summand of (value - mean) / std as float32, computed in float64."""
    means, deviations = np.asarray(mean, np.float64), np.asarray(std, np.float64)
    if means.shape != (channels,) or deviations.shape != (channels,):
        raise StageError(f"a normalization by {tuple(mean)} and {tuple(std)} does not fit {channels} channels")
    if not np.isfinite(means).all() or not (np.isfinite(deviations) & (deviations > 0)).all():
        raise StageError(f"a normalization by {tuple(mean)} and {tuple(std)} is not finite and positive")
    return (1 / deviations).astype("<f4").tobytes(), (-means / deviations).astype("<f4").tobytes()
