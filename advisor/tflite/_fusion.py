"""Join operators that other converters write apart and TensorFlow's converter writes as one.

Activations become a part of the operator before them, the lowest number as padding becomes zero,
and two linear layers whose sum is taken become one. The import of ONNX files and of other formats
(`catalog/_user_models/formats.py`) calls :func:`simplify_file` after `_layout.py`. What a file
computes stays the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables, index_makers

_FLOAT32 = schema.TensorType.FLOAT32
_KINDS = schema.ActivationFunctionType
_ACTIVATIONS: Mapping[str, int] = MappingProxyType({"RELU": _KINDS.RELU, "RELU6": _KINDS.RELU6})
_TAKE_ACTIVATION = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL"}
)


def simplify_file(data: bytes) -> bytes:
    """Return a file of another converter with fewer operators, as TensorFlow's writes it.

    StageError is raised for a file of several graphs or signatures.
    """
    model = unpack(data)
    graph, _ = model.find_single_graph()
    _fuse_activations(model, graph)
    _pad_with_zeros(model, graph)
    _merge_linear_layers(model, graph)
    model.prune_tensors(graph)
    return model.pack()


def _fuse_activations(model: Tables, graph: schema.SubGraphT) -> None:
    """Make an activation part of the operator before it, whose result nobody else reads."""
    makers = index_makers(graph)
    readings = Counter(map(int, graph.outputs))
    for operator in graph.operators:
        readings.update(map(int, operator.inputs))
    remaining = []
    for operator in graph.operators:
        kind = _ACTIVATIONS.get(model.name_operator(operator))
        maker = None
        if kind is not None:
            maker = makers.get(int(operator.inputs[0]))
        # Only a result that nobody else reads may change: the activation becomes a part of it.
        if (
            maker is None
            or readings[int(operator.inputs[0])] > 1
            or not _can_take_activation(model, maker)
        ):
            remaining.append(operator)
            continue
        maker.builtinOptions.fusedActivationFunction = kind
        maker.outputs = operator.outputs
        # Later operators read the activation's result, which the operator before it makes now.
        makers[int(operator.outputs[0])] = maker
    graph.operators = remaining


def _can_take_activation(model: Tables, operator: schema.OperatorT) -> bool:
    """Return whether an operator has a place for an activation, and none in it yet."""
    if model.name_operator(operator) not in _TAKE_ACTIVATION:
        return False
    free: bool = operator.builtinOptions.fusedActivationFunction == _KINDS.NONE
    return free


def _pad_with_zeros(model: Tables, graph: schema.SubGraphT) -> None:
    """Pad a max-pooling with zeros in place of the lowest number if no value is negative.

    The largest values stay the same. The quantizer refuses a padding with the lowest number, whose
    range would leave no digits for the values.
    """
    makers = index_makers(graph)
    for operator in graph.operators:
        if model.name_operator(operator) != "PADV2":
            continue
        source = int(operator.inputs[0])
        padded = int(operator.outputs[0])
        readers = {
            model.name_operator(reader) for reader in graph.operators if padded in reader.inputs
        }
        if source in makers and _is_positive(model, makers[source]) and readers == {"MAX_POOL_2D"}:
            operator.inputs = operator.inputs[:2]
            operator.opcodeIndex = model.find_operator_code(schema.BuiltinOperator.PAD, 1)
            operator.builtinOptions = schema.PadOptionsT()
            operator.builtinOptionsType = schema.BuiltinOptions.PadOptions


def _is_positive(model: Tables, operator: schema.OperatorT) -> bool:
    """Return whether an operator never gives a negative value."""
    fused = getattr(operator.builtinOptions, "fusedActivationFunction", _KINDS.NONE)
    return fused in _ACTIVATIONS.values() or model.name_operator(operator) in _ACTIVATIONS


def _merge_linear_layers(model: Tables, graph: schema.SubGraphT) -> None:
    """Make one layer of two linear layers of the same values whose mean or sum is taken.

    LeViT, EfficientFormerV2 and RepViT have two heads: one learnt from labels, one from a teacher.
    """
    makers = index_makers(graph)
    readers: dict[int, list[schema.OperatorT]] = {}
    for operator in graph.operators:
        for tensor in operator.inputs:
            readers.setdefault(int(tensor), []).append(operator)
    for total in list(graph.operators):
        pair = []
        for tensor in total.inputs:
            if int(tensor) in makers:
                pair.append(makers[int(tensor)])
        if (
            model.name_operator(total) != "ADD"
            or len(pair) != 2
            or not _are_heads(model, graph, total, pair, readers)
        ):
            continue
        first, second = pair
        sums = list[npt.NDArray[np.float32]]()
        for tensor, other_tensor in zip(first.inputs[1:], second.inputs[1:], strict=True):
            values = _read_floats(model, graph, int(tensor))
            other_values = _read_floats(model, graph, int(other_tensor))
            if values is not None and other_values is not None:
                sums.append(values + other_values)
        # A bias that only one of the two has cannot be added.
        if len(sums) < len(first.inputs) - 1:
            continue
        scale, last = _find_scale(model, graph, total, readers)
        for place, values in enumerate(sums, 1):
            shape = graph.tensors[first.inputs[place]].shape
            merged = (values * scale).astype("<f4")
            name = f"merged/{first.inputs[place]}"
            first.inputs[place] = model.add_tensor(graph, name, shape, _FLOAT32, merged.tobytes())
        first.outputs = last.outputs
        merged_ids = {id(second), id(total), id(last)}
        graph.operators = [
            operator for operator in graph.operators if id(operator) not in merged_ids
        ]


def _are_heads(
    model: Tables,
    graph: schema.SubGraphT,
    total: schema.OperatorT,
    pair: Sequence[schema.OperatorT],
    readers: Mapping[int, list[schema.OperatorT]],
) -> bool:
    """Return whether a sum is that of two linear layers of the same values.

    ``total`` is the ADD, ``pair`` what makes its summands, which nothing else may read.
    """
    first, second = pair
    if first is second or any(model.name_operator(layer) != "FULLY_CONNECTED" for layer in pair):
        return False
    for operator in (first, second, total):
        if operator.builtinOptions.fusedActivationFunction != _KINDS.NONE:
            return False
    for tensor in total.inputs:
        if len(readers[int(tensor)]) != 1 or tensor in graph.outputs:
            return False
    reads_the_same = int(first.inputs[0]) == int(second.inputs[0])
    return reads_the_same and len(first.inputs) == len(second.inputs)


def _read_floats(
    model: Tables, graph: schema.SubGraphT, tensor: int
) -> npt.NDArray[np.float32] | None:
    """Return the values of a constant of float32, None for anything else."""
    content = None
    if tensor >= 0:
        content = model.read_content(graph.tensors[tensor])
    if content is None or graph.tensors[tensor].type != _FLOAT32:
        return None
    return np.frombuffer(content.tobytes(), "<f4")


def _find_scale(
    model: Tables,
    graph: schema.SubGraphT,
    total: schema.OperatorT,
    readers: Mapping[int, list[schema.OperatorT]],
) -> tuple[float, schema.OperatorT]:
    """Return the number that alone multiplies a sum, with its operator; else 1 and the sum."""
    unscaled = 1.0, total
    result = int(total.outputs[0])
    if len(readers.get(result, [])) != 1 or result in graph.outputs:
        return unscaled
    (reader,) = readers[result]
    # The mean of two heads is their sum times 0.5.
    factor = None
    if model.name_operator(reader) == "MUL":
        factor = _read_floats(model, graph, int(reader.inputs[-1]))
    if factor is None or factor.size != 1:
        return unscaled
    if reader.builtinOptions.fusedActivationFunction != _KINDS.NONE:
        return unscaled
    return float(factor[0]), reader
