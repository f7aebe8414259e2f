"""Tell in which form a file computes: in floats, in integers, or in floats with weights of 8 bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from advisor.tflite.macs import Cost
from advisor.tflite.values import Model, Operator, Subgraph


def form_of(model: Model, cost: Cost) -> str:
    """Return the form in which most multiply-accumulates of the main graph are computed.

    It is ``float32``, ``float16`` (halved weights), ``weight_int8``, ``dynamic_int8``, ``int8`` or ``int16x8``.
    """
    graph = model.subgraphs[0]
    stored = {each.outputs[0]: graph.tensors[each.inputs[0]].dtype for each in expanded_constants(graph)}
    work: Counter[str] = Counter()
    for operator, counted in zip(graph.operators, cost.operators, strict=True):
        if counted.macs:
            work[_form_of(graph, operator, stored)] += counted.macs
    return work.most_common(1)[0][0] if work else "float32"


def expanded_constants(graph: Subgraph) -> Sequence[Operator]:
    """Return the operators that expand a constant to float32."""
    return [
        operator
        for operator in graph.operators
        if operator.name == "DEQUANTIZE" and operator.outputs and graph.tensors[operator.inputs[0]].is_constant
    ]


def _form_of(graph: Subgraph, operator: Operator, stored: Mapping[int, str]) -> str:
    """Return the form of one operator, from its input and its weights as they are stored before a DEQUANTIZE."""
    source, kernel = operator.inputs[0], operator.inputs[1]
    activations, weights = graph.tensors[source].dtype, graph.tensors[kernel].dtype
    if activations == "int16":
        return "int16x8"
    if activations in ("int8", "uint8"):
        return "int8"
    if kernel in stored:
        return "float16" if stored[kernel] == "float16" else "weight_int8"
    return "float32" if weights.startswith("float") else "dynamic_int8"
