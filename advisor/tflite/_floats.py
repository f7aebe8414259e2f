"""Store the constants of a `.tflite` file as dense float32.

Rooms that edit or convert weights (import, compression of a user's file, Core ML) call
:func:`to_float32` first, because they read no other form: float16 and sparse constants, and on
request the integers of a quantized file, become plain floats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core import StageError, UsageError
from advisor.tflite._model import read, text_of
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables
from advisor.tflite._values import Tensor

_FLOAT32 = schema.TensorType.FLOAT32
_FLOAT16 = schema.TensorType.FLOAT16
_ACTIVATIONS = ("int8", "uint8", "int16", "int32")
_CONVERTING = ("QUANTIZE", "DEQUANTIZE")
_SPARSE = {_FLOAT32: "<f4", _FLOAT16: "<f2", schema.TensorType.INT8: "i1"}
"""Types of sparse weights that are read here; the schema has only 4 bits besides."""


def to_float32(data: bytes, name: str = "the model", quantized: bool = False) -> bytes:
    """Store constants that are sparse, or in float16, as dense float32.

    Runtimes do the same when they load the file. What is computed stays the same to the last bit.
    A file without such constants is returned as it is. With ``quantized``, integers that stand for
    real numbers become these numbers, inputs and outputs too, and what is computed is no longer
    rounded. UsageError is raised for sparse constants that contradict their shape, StageError for
    a type that has no real values here.
    """
    model = unpack(data, name)
    if sum(
        _densify_constants(model, graph, name) + _expand_constants(model, graph)
        for graph in model.subgraphs
    ):
        model.drop_unused_buffers()
        data = model.pack()
    return _dequantize_constants(data, name) if quantized else data


def _densify_constants(model: Tables, graph: schema.SubGraphT, name: str) -> int:
    """Store the values of sparse constants densely; return the number of constants."""
    sparse = [tensor for tensor in graph.tensors if tensor.sparsity is not None]
    for tensor in sparse:
        kind = _SPARSE.get(tensor.type)
        content = None if kind is None else model.read_content(tensor)
        if kind is None or content is None:
            raise StageError(
                f"the sparse weights '{text_of(tensor.name)}' are of a type that is not read here"
            )
        try:
            values = expand_sparse(
                np.frombuffer(content.tobytes(), kind),
                tensor.sparsity,
                list(map(int, tensor.shape)),
            )
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            message = (
                f"{name}: the sparse weights '{text_of(tensor.name)}' contradict their shape:"
                f" {error}"
            )
            raise UsageError(message, "export it again with dense weights") from error
        tensor.buffer = model.add_buffer(values.tobytes())
        tensor.sparsity = None
    return len(sparse)


def expand_sparse(
    values: NDArray[Any], sparsity: schema.SparsityParametersT, shape: Sequence[int]
) -> NDArray[Any]:
    """Return the dense array of a tensor's stored values, (N,).

    ValueError is raised if they do not fit the shape. The format is that of the schema: dimensions
    in the order in which they are stored, each whole or as the places of its values (compressed
    sparse rows); those after the tensor's own divide it into blocks.
    """
    order = list(sparsity.traversalOrder)
    blocks = []
    if sparsity.blockMap is not None:
        blocks = list(sparsity.blockMap)
    sides = {
        dimension: int(level.denseSize)
        for dimension, level in zip(order, sparsity.dimMetadata, strict=True)
    }
    places = np.zeros((1, 0), np.int64)
    for level in sparsity.dimMetadata:
        # One stored dimension after the other: each place so far gets its places in this one.
        if level.format == schema.DimensionType.DENSE:
            level_places = np.tile(np.arange(int(level.denseSize)), len(places))
            counts = np.full(len(places), int(level.denseSize))
        else:
            level_places = np.asarray(level.arrayIndices.values, np.int64)
            counts = np.diff(np.asarray(level.arraySegments.values, np.int64))
        if counts.sum() != len(level_places) or len(level_places) > np.prod(shape):
            raise ValueError("their places are not as many as their values")
        places = np.column_stack([np.repeat(places, counts, axis=0), level_places])
    index = [np.zeros(len(places), np.int64) for _ in shape]
    for column, dimension in enumerate(order):
        if dimension < len(shape):
            # A divided dimension counts blocks, and the one of its block counts inside of it.
            block_sides = []
            for block, side in enumerate(blocks):
                if side == dimension:
                    block_sides.append(sides[len(shape) + block])
            index[dimension] += places[:, column] * (block_sides[0] if block_sides else 1)
        else:
            index[blocks[dimension - len(shape)]] += places[:, column]
    array = np.zeros(shape, values.dtype)
    array[tuple(index)] = values
    return array


def _expand_constants(model: Tables, graph: schema.SubGraphT) -> int:
    """Let readers of an expanded constant read the constant itself, now float32.

    Return the number of expanded constants.
    """
    expanded: dict[int, int] = {}
    for operator in graph.operators:
        kind = model.name_operator(operator)
        source = None
        if kind in ("DEQUANTIZE", "DENSIFY"):
            source = graph.tensors[operator.inputs[0]]
        # A DEQUANTIZE of integers changes values and stays; one of float16 only widens them.
        plain = source and (kind == "DENSIFY" or source.type == _FLOAT16)
        if plain and model.read_content(source) is not None:
            expanded[operator.outputs[0]] = operator.inputs[0]
    # Several operators may expand one constant, which is converted once.
    for place in dict.fromkeys(expanded.values()):
        constant = graph.tensors[place]
        if constant.type != _FLOAT16:
            continue
        values: NDArray[np.float16] = np.frombuffer(
            model.read_content(constant).tobytes(), dtype="<f2"
        )
        constant.type = _FLOAT32
        constant.buffer = model.add_buffer(values.astype("<f4").tobytes())
    _bypass(graph, expanded)
    return len(expanded)


def _bypass(graph: schema.SubGraphT, by: Mapping[int, int]) -> None:
    """Let readers of a key of ``by`` read its value; remove what made the keys."""
    graph.operators = [
        operator for operator in graph.operators if not by.keys() & set(operator.outputs)
    ]
    for reader in graph.operators:
        reader.inputs = [_last_source(index, by) for index in reader.inputs]
    graph.outputs = [_last_source(index, by) for index in graph.outputs]


def _last_source(index: int, by: Mapping[int, int]) -> int:
    # Chains occur: a sparse float16 constant has a DENSIFY and then a DEQUANTIZE.
    while index in by:
        index = by[index]
    return index


def _dequantize_constants(data: bytes, name: str) -> bytes:
    """Return a file in which integers that stand for real numbers are these numbers."""
    model = unpack(data, name)
    value = read(data, name)
    rounded = list[tuple[schema.TensorT, Tensor]]()
    for graph, graph_value in zip(model.subgraphs, value.subgraphs, strict=True):
        for table, tensor in zip(graph.tensors, graph_value.tensors, strict=True):
            if tensor.quantization and tensor.dtype != "float32":
                rounded.append((table, tensor))
    if not rounded:
        return data
    for table, tensor in rounded:
        if tensor.is_constant:
            table.buffer = model.add_buffer(_read_real_values(tensor).astype("<f4").tobytes())
        elif tensor.dtype not in _ACTIVATIONS:
            raise _refuse_type(tensor.name)
        table.type = _FLOAT32
        table.quantization = None
    by_graph = list[Mapping[int, int]]()
    for graph in model.subgraphs:
        # Between real numbers a conversion changes nothing: readers take what it reads.
        conversions = []
        for conversion in graph.operators:
            if model.name_operator(conversion) in _CONVERTING:
                conversions.append(conversion)
        by_graph.append(
            {conversion.outputs[0]: conversion.inputs[0] for conversion in conversions}
        )
        _bypass(graph, by_graph[-1])
        for operator in graph.operators:
            if isinstance(operator.builtinOptions, schema.FullyConnectedOptionsT):
                # The flag makes the runtime quantize the inputs while it runs,
                # which a float layer does not do.
                operator.builtinOptions.asymmetricQuantizeInputs = False
    for signature in model.signatureDefs:
        for entry in signature.outputs:
            entry.tensorIndex = _last_source(entry.tensorIndex, by_graph[signature.subgraphIndex])
    model.drop_unused_buffers()
    return model.pack()


def _refuse_type(name: str) -> StageError:
    return StageError(f"'{name}' is of a type that is not read here")


def _read_real_values(constant: Tensor) -> NDArray[np.float64]:
    """Return the real values of a quantized constant."""
    if constant.dtype == "int4":
        # Two values a byte, the first in the low bits;
        # a shift of int8 to the right repeats the sign.
        pairs = np.frombuffer(constant.buffer, np.int8)
        values = (np.stack([pairs << 4, pairs], axis=-1) >> 4).reshape(-1)[: constant.elements]
        constant = replace(constant, dtype="int8", buffer=values.tobytes())
    reals = constant.real_values()
    if reals is None:
        raise _refuse_type(constant.name)
    return reals
