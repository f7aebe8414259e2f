"""Store a model's values as dense float32: those in float16 or sparse, and those of a quantized file if asked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core.errors import StageError, UsageError
from advisor.tflite.model import text_of
from advisor.tflite.rewrite import add_buffer, content_of, drop_unused_buffers, operator_name, pack, unpack

_TYPES: dict[int, str] = {
    schema.TensorType.FLOAT32: "<f4", schema.TensorType.FLOAT16: "<f2", schema.TensorType.INT8: "i1",
    schema.TensorType.UINT8: "u1", schema.TensorType.INT16: "<i2", schema.TensorType.INT32: "<i4",
    schema.TensorType.INT64: "<i8", schema.TensorType.INT4: "i1",
}  # fmt: skip
_FLOAT32, _FLOAT16, _INT4 = schema.TensorType.FLOAT32, schema.TensorType.FLOAT16, schema.TensorType.INT4
_STEPS = ("QUANTIZE", "DEQUANTIZE")


def to_float32(data: bytes, name: str = "the model", quantized: bool = False) -> bytes:
    """Store every constant that is sparse, or in float16, as dense float32, as runtimes do when they load it.

    What is computed stays the same to the last bit. A file without such constants is returned as it is. With
    ``quantized``, integers that stand for real numbers become these numbers, inputs and outputs too, and what is
    computed is no longer rounded. UsageError is raised for sparse constants that contradict their shape, StageError for
    a type that has no real values here.
    """
    model = unpack(data, name)
    found = [_densify(model, graph, name) + _expand(model, graph) for graph in model.subgraphs]
    if quantized:
        found += [_without_steps(model, graph) for graph in model.subgraphs]
    if not any(found):
        return data
    drop_unused_buffers(model)
    return pack(model)


def _densify(model: schema.ModelT, graph: schema.SubGraphT, name: str) -> int:
    """Store the values of sparse constants densely; return the number of constants."""
    sparse = [tensor for tensor in graph.tensors if tensor.sparsity is not None]
    for tensor in sparse:
        kind = _TYPES.get(tensor.type)
        if kind is None or tensor.type == _INT4 or (content := content_of(model, tensor)) is None:
            raise StageError(f"the sparse weights '{text_of(tensor.name)}' are of a type that is not read here")
        try:
            values = dense(
                np.frombuffer(content.tobytes(), kind), tensor.sparsity, [int(side) for side in tensor.shape]
            )
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            message = f"{name}: the sparse weights '{text_of(tensor.name)}' contradict their shape: {error}"
            raise UsageError(message, "export it again with dense weights") from error
        tensor.buffer, tensor.sparsity = add_buffer(model, values.tobytes()), None
    return len(sparse)


def dense(values: NDArray[Any], sparsity: schema.SparsityParametersT, shape: Sequence[int]) -> NDArray[Any]:
    """Return the dense array of a tensor's stored values, (N,); ValueError if they do not fit the shape.

    The format is that of the schema: dimensions in the order in which they are stored, each whole or as the places of
    its values (compressed sparse rows); those after the tensor's own divide it into blocks.
    """
    order, blocks = [int(each) for each in sparsity.traversalOrder], [int(each) for each in _list(sparsity.blockMap)]
    sides = {dimension: int(level.denseSize) for dimension, level in zip(order, sparsity.dimMetadata, strict=True)}
    places = np.zeros((1, 0), np.int64)
    for level in sparsity.dimMetadata:
        if level.format == schema.DimensionType.DENSE:
            own = np.tile(np.arange(int(level.denseSize)), len(places))
            counts = np.full(len(places), int(level.denseSize))
        else:
            own = np.asarray(level.arrayIndices.values, np.int64)
            counts = np.diff(np.asarray(level.arraySegments.values, np.int64))
        if counts.sum() != len(own) or len(own) > np.prod(shape):
            raise ValueError("their places are not as many as their values")
        places = np.column_stack([np.repeat(places, counts, axis=0), own])
    index = [np.zeros(len(places), np.int64) for _ in shape]
    for column, dimension in enumerate(order):
        if dimension < len(shape):
            parts = [sides[len(shape) + block] for block, side in enumerate(blocks) if side == dimension]
            index[dimension] += places[:, column] * (parts[0] if parts else 1)
        else:
            index[blocks[dimension - len(shape)]] += places[:, column]
    found = np.zeros(shape, values.dtype)
    found[tuple(index)] = values
    return found


def _list(values: Any) -> Sequence[int]:
    return [] if values is None else values


def _expand(model: schema.ModelT, graph: schema.SubGraphT) -> int:
    """Make readers of an expanded constant read the constant itself, now float32; return the number of constants."""
    expanded: dict[int, int] = {}
    for operator in graph.operators:
        kind = operator_name(model, operator)
        source = graph.tensors[operator.inputs[0]] if kind in ("DEQUANTIZE", "DENSIFY") else None
        plain = source and (kind == "DENSIFY" or source.type == _FLOAT16)
        if plain and content_of(model, source) is not None:
            expanded[operator.outputs[0]] = operator.inputs[0]
    constants = dict.fromkeys(expanded.values())
    for constant in (graph.tensors[place] for place in constants if graph.tensors[place].type == _FLOAT16):
        values: NDArray[np.float16] = np.frombuffer(content_of(model, constant).tobytes(), dtype="<f2")
        constant.type, constant.buffer = _FLOAT32, add_buffer(model, values.astype("<f4").tobytes())
    _replace(graph, expanded)
    return len(expanded)


def _replace(graph: schema.SubGraphT, by: dict[int, int]) -> None:
    """Make readers of each tensor read another one, and leave out what computed it."""

    def source(index: int) -> int:
        while index in by:
            index = by[index]
        return index

    graph.operators = [each for each in graph.operators if not by.keys() & {int(index) for index in each.outputs}]
    for operator in graph.operators:
        operator.inputs = [source(int(index)) for index in operator.inputs]
    graph.outputs = [source(int(index)) for index in graph.outputs]


def _without_steps(model: schema.ModelT, graph: schema.SubGraphT) -> int:
    """Give integers that stand for real numbers these numbers; return the number of tensors."""
    stepped = [tensor for tensor in graph.tensors if _scales(tensor) is not None and tensor.type != _FLOAT32]
    for tensor in stepped:
        content = content_of(model, tensor)
        if tensor.type not in _TYPES:
            raise StageError(f"'{text_of(tensor.name)}' is of a type that is not read here")
        if content is not None:
            tensor.buffer = add_buffer(model, _real(tensor, content.tobytes()).astype("<f4").tobytes())
        tensor.type, tensor.quantization = _FLOAT32, None
    stands_for = {
        int(operator.outputs[0]): int(operator.inputs[0])
        for operator in graph.operators
        if operator_name(model, operator) in _STEPS
    }
    moved = {index: stands_for[index] for index in map(int, graph.outputs) if index in stands_for}
    _replace(graph, stands_for)
    for signature in model.signatureDefs:
        if model.subgraphs[signature.subgraphIndex] is graph:
            for entry in signature.outputs:
                while (place := int(entry.tensorIndex)) in stands_for:
                    entry.tensorIndex = stands_for[place]
    for operator in graph.operators:
        if isinstance(operator.builtinOptions, schema.FullyConnectedOptionsT):
            operator.builtinOptions.asymmetricQuantizeInputs = False
    return len(stepped) + len(moved)


def _scales(tensor: schema.TensorT) -> NDArray[np.float64] | None:
    scales = [] if tensor.quantization is None else _list(tensor.quantization.scale)
    return np.asarray(scales, np.float64) if len(scales) else None


def _real(tensor: schema.TensorT, content: bytes) -> NDArray[np.float64]:
    """Return the real values of a quantized constant."""
    shape, scales = [int(side) for side in tensor.shape], _scales(tensor)
    assert scales is not None, "only tensors with scales have steps"
    stored: NDArray[Any] = np.frombuffer(content, _TYPES[tensor.type])
    if tensor.type == _INT4:  # two values a byte, the first in the low bits
        stored = (np.stack([stored << 4, stored], axis=-1) >> 4).reshape(-1)[: int(np.prod(shape))]
    along = [1] * len(shape)
    if len(scales) > 1:
        along[int(tensor.quantization.quantizedDimension)] = -1
    zeros = np.broadcast_to(np.asarray([*_list(tensor.quantization.zeroPoint)] or [0], np.float64), len(scales))
    real: NDArray[np.float64] = (stored.reshape(shape) - zeros.reshape(along)) * scales.reshape(along)
    return real
