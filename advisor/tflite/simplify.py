"""Simplify what other converters leave: activations behind their operators, paddings by the lowest number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.rewrite import operator_code, operator_name, pack, single_graph, unpack
from advisor.tflite.surgery import prune

_KINDS = schema.ActivationFunctionType
_ACTIVATIONS: Mapping[str, int] = MappingProxyType({"RELU": _KINDS.RELU, "RELU6": _KINDS.RELU6})
_TAKE_ACTIVATION = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL"})


def simplified(data: bytes) -> bytes:
    """Return a file of another converter with activations and paddings as TensorFlow's converter writes them.

    Raises:
        UsageError: the file is damaged.
        StageError: not exactly one subgraph and one signature.
    """
    model = unpack(data, "the model")
    graph, signature = single_graph(model)
    _fuse_activations(model, graph)
    _pad_with_zeros(model, graph)
    prune(model, graph, signature)
    return pack(model)


def _fuse_activations(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Make an activation part of the operator before it, whose result nobody else reads."""
    makers = {int(tensor): operator for operator in graph.operators for tensor in operator.outputs}
    read_by = Counter(int(tensor) for operator in graph.operators for tensor in operator.inputs)
    read_by.update(int(tensor) for tensor in graph.outputs)
    left = []
    for operator in graph.operators:
        kind = _ACTIVATIONS.get(operator_name(model, operator))
        maker = makers.get(int(operator.inputs[0])) if kind is not None else None
        if maker is None or read_by[int(operator.inputs[0])] > 1 or not _takes_activation(model, maker):
            left.append(operator)
            continue
        maker.builtinOptions.fusedActivationFunction = kind
        maker.outputs = operator.outputs
        makers[int(operator.outputs[0])] = maker
    graph.operators = left


def _pad_with_zeros(model: schema.ModelT, graph: schema.SubGraphT) -> None:
    """Pad the input of a max-pooling with zeros where it has no negative values, in place of the lowest number.

    The largest values stay the same. The quantizer refuses the other operator, whose range would leave no digits.
    """
    makers = {int(tensor): operator for operator in graph.operators for tensor in operator.outputs}
    for operator in graph.operators:
        if operator_name(model, operator) != "PADV2":
            continue
        source, padded = int(operator.inputs[0]), int(operator.outputs[0])
        readers = [operator_name(model, one) for one in graph.operators if padded in one.inputs]
        if source in makers and _is_positive(model, makers[source]) and set(readers) == {"MAX_POOL_2D"}:
            operator.inputs = operator.inputs[:2]
            operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.PAD, 1)
            operator.builtinOptions = schema.PadOptionsT()
            operator.builtinOptionsType = schema.BuiltinOptions.PadOptions


def _is_positive(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    """Return whether an operator never gives a negative value."""
    fused = getattr(operator.builtinOptions, "fusedActivationFunction", _KINDS.NONE)
    return fused in _ACTIVATIONS.values() or operator_name(model, operator) in _ACTIVATIONS


def _takes_activation(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    fused = operator_name(model, operator) in _TAKE_ACTIVATION
    return fused and operator.builtinOptions.fusedActivationFunction == _KINDS.NONE
