"""Export a profile as a graph for Google's Model Explorer, with the time and share of each operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.measurement.operators.profile_values import OperatorTime, Profile
    from advisor.tflite.model import Model


def to_graph(profile: Profile) -> dict[str, object]:
    """Return the file's main graph in Model Explorer's JSON form (a ``GraphCollection`` of its user guide).

    Raises:
        UsageError: the file is missing or has changed.
    """
    from advisor.tflite.model import read

    model = read(Path(profile.model))
    times = {row.node.index: row for row in profile.operators if row.node}
    nodes = [_input_node(model), *(_node(model, index, times.get(index)) for index in range(len(model.operators)))]
    return {"label": Path(profile.model).name, "graphs": [{"id": "main", "nodes": [*nodes, _output_node(model)]}]}


def _node(model: Model, index: int, row: OperatorTime | None) -> dict[str, object]:
    operator = model.operators[index]
    facts: dict[str, str] = {}
    if row is not None and row.node is not None:
        facts = {
            "time us": f"{row.time_us:.1f}",
            "share %": f"{100 * row.share:.2f}",
            "where": row.where,
            "kernel": row.kernel,
            "MACs": str(row.node.macs),
            "bytes moved": str(row.node.bytes_moved),
        }
    return {
        "id": str(index),
        "label": operator.name,
        "namespace": "",
        "attrs": _pairs(facts),
        "incomingEdges": _edges(model, operator.inputs),
        "outputsMetadata": [_output(model, position, tensor) for position, tensor in enumerate(operator.outputs)],
    }


def _input_node(model: Model) -> dict[str, object]:
    indices = model.subgraphs[0].inputs
    outputs = [_output(model, position, tensor) for position, tensor in enumerate(indices)]
    return {"id": "inputs", "label": "GraphInputs", "namespace": "", "outputsMetadata": outputs}


def _output_node(model: Model) -> dict[str, object]:
    edges = _edges(model, model.subgraphs[0].outputs)
    return {"id": "outputs", "label": "GraphOutputs", "namespace": "", "incomingEdges": edges}


def _edges(model: Model, tensors: tuple[int, ...]) -> list[dict[str, str]]:
    """Return an edge for each tensor that an operator or the input produces; constants have no edge."""
    makers = {tensor: ("inputs", position) for position, tensor in enumerate(model.subgraphs[0].inputs)}
    for index, operator in enumerate(model.operators):
        makers.update({tensor: (str(index), position) for position, tensor in enumerate(operator.outputs)})
    return [
        {
            "sourceNodeId": makers[tensor][0],
            "sourceNodeOutputId": str(makers[tensor][1]),
            "targetNodeInputId": str(slot),
        }
        for slot, tensor in enumerate(tensors)
        if tensor in makers
    ]


def _output(model: Model, position: int, tensor: int) -> dict[str, object]:
    found = model.tensors[tensor]
    shape = f"{found.dtype}[{','.join(map(str, found.shape))}]"
    return {"id": str(position), "attrs": _pairs({"tensor_name": found.name, "shape": shape})}


def _pairs(facts: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in facts.items()]
