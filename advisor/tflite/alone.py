"""One operator of a `.tflite` file as a file of its own: what it does to its inputs, whatever came before it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from advisor.tflite.rewrite import pack

_NO_INPUT = -1


def operator_alone(tables: Any, index: int) -> tuple[bytes, tuple[int, ...]]:
    """Return a file that holds one operator of the main graph, and what else only prepares its constants.

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
    inputs = tuple(tensor for tensor in dict.fromkeys(taken) if not _is_constant(tables, graph, tensor))
    file = _file(tables, graph, operators, inputs, operators[-1].outputs)
    return pack(file), inputs


def _preparing(tables: Any, graph: Any, operator: Any) -> list[Any]:
    """Return the operators that expand constants for this one, such as DEQUANTIZE of stored weights."""
    makers = {tensor: maker for maker in graph.operators for tensor in maker.outputs}
    found = [makers[tensor] for tensor in operator.inputs if tensor in makers]
    return [maker for maker in found if all(_is_constant(tables, graph, tensor) for tensor in maker.inputs)]


def _is_constant(tables: Any, graph: Any, tensor: int) -> bool:
    content = tables.buffers[graph.tensors[tensor].buffer].data
    return content is not None and len(content) > 0


def _file(tables: Any, graph: Any, operators: list[Any], inputs: Iterable[int], outputs: Iterable[int]) -> Any:
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


def _tensor(tables: Any, tensor: Any, buffers: list[Any]) -> Any:
    """Return the tensor with its content in a buffer of its own, added to ``buffers``; 0 is the empty one."""
    made = copy.copy(tensor)
    content = tables.buffers[tensor.buffer].data
    made.buffer = 0
    if content is not None and len(content):
        made.buffer = len(buffers)
        buffers.append(schema.BufferT(data=content))
    return made


def _moved(operator: Any, places: dict[int, int]) -> Any:
    made = copy.copy(operator)
    made.inputs = [places[tensor] for tensor in operator.inputs]
    made.outputs = [places[tensor] for tensor in operator.outputs]
    made.intermediates = None
    return made
