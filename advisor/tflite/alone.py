"""Cut one operator out of a `.tflite` file as a file that runs by itself."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.rewrite import content_of, pack

_NO_INPUT = -1


def operator_alone(tables: schema.ModelT, index: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file with one operator of the main graph and the operators that expand its constants.

    Args:
        tables: the file's tables as ``rewrite.unpack`` gives them; they are not changed.
        index: the operator's place in the main graph.

    Returns:
        The file, its inputs and outputs those of the operator, and the inputs' tensor indices in the given tables.
    """
    graph = tables.subgraphs[0]
    operators = [*_preparing(tables, graph, graph.operators[index]), graph.operators[index]]
    made = {tensor for operator in operators[:-1] for tensor in operator.outputs}
    taken = [tensor for tensor in operators[-1].inputs if tensor != _NO_INPUT and tensor not in made]
    inputs = tuple(tensor for tensor in dict.fromkeys(taken) if content_of(tables, graph.tensors[tensor]) is None)
    file = _file(tables, graph, operators, inputs, operators[-1].outputs)
    return pack(file), inputs


def _preparing(tables: schema.ModelT, graph: schema.SubGraphT, operator: schema.OperatorT) -> list[schema.OperatorT]:
    """Return the operators that expand constants for this one, such as DEQUANTIZE of stored weights."""
    makers = {tensor: maker for maker in graph.operators for tensor in maker.outputs}
    found = [makers[tensor] for tensor in operator.inputs if tensor in makers]
    return [
        maker
        for maker in found
        if all(content_of(tables, graph.tensors[tensor]) is not None for tensor in maker.inputs)
    ]


def _file(
    tables: schema.ModelT,
    graph: schema.SubGraphT,
    operators: list[schema.OperatorT],
    inputs: Iterable[int],
    outputs: Iterable[int],
) -> schema.ModelT:
    used = sorted({tensor for one in operators for tensor in (*one.inputs, *one.outputs)} - {_NO_INPUT})
    places = {tensor: place for place, tensor in enumerate(used)} | {_NO_INPUT: _NO_INPUT}
    buffers = [schema.BufferT()]
    small = schema.SubGraphT()
    small.tensors = [_tensor(tables, graph.tensors[index], buffers) for index in used]
    small.operators = [_moved(operator, places) for operator in operators]
    small.inputs = [places[tensor] for tensor in inputs]
    small.outputs = [places[tensor] for tensor in outputs]
    file = schema.ModelT()
    file.version, file.operatorCodes = tables.version, tables.operatorCodes
    file.subgraphs, file.buffers = [small], buffers
    return file


def _tensor(tables: schema.ModelT, tensor: schema.TensorT, buffers: list[schema.BufferT]) -> schema.TensorT:
    """Return a copy of the tensor, with its content in a new buffer of ``buffers``; buffer 0 is empty."""
    made = copy.copy(tensor)
    content = content_of(tables, tensor)
    made.buffer = 0
    if content is not None:
        made.buffer = len(buffers)
        buffers.append(schema.BufferT(data=content))
    return made


def _moved(operator: schema.OperatorT, places: dict[int, int]) -> schema.OperatorT:
    made = copy.copy(operator)
    made.inputs = [places[tensor] for tensor in operator.inputs]
    made.outputs = [places[tensor] for tensor in operator.outputs]
    made.intermediates = None
    return made
