"""Make an activation a part of the operator before it, as converters do where nothing stands between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.rewrite import operator_name

_KINDS = schema.ActivationFunctionType
_ACTIVATIONS: Mapping[str, int] = MappingProxyType({"RELU": _KINDS.RELU, "RELU6": _KINDS.RELU6})
_TAKE_ACTIVATION = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL"})


def fuse_activations(model: schema.ModelT, graph: schema.SubGraphT) -> None:
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


def _takes_activation(model: schema.ModelT, operator: schema.OperatorT) -> bool:
    fused = operator_name(model, operator) in _TAKE_ACTIVATION
    return fused and operator.builtinOptions.fusedActivationFunction == _KINDS.NONE
