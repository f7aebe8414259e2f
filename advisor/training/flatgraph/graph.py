"""Read a float ``.tflite`` as a graph that TensorFlow can run and train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import UnsupportedRecipe
from advisor.training.flatgraph.operators import SUPPORTED, run_operator

if TYPE_CHECKING:
    import tensorflow as tf
    from ai_edge_litert import schema_py_generated as schema

    from advisor.tflite.model import Model

Change = Callable[[int, Any], Any]
"""Maps a tensor's index and value to another value, for instance to simulate quantization."""

_LAYERS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})


@dataclass(frozen=True)
class Node:
    """One operator of the graph."""

    name: str
    options: Any
    inputs: tuple[int, ...]
    output: int


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of a float model.

    Attributes:
        nodes: its operators in the order of execution.
        constants: content of its constants by tensor index.
        source: tensor index of its input.
        output: tensor index of its output.
        tables: the file's tables, to write it again.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[int, NDArray[Any]]
    source: int
    output: int
    tables: schema.ModelT

    @property
    def kernels(self) -> Mapping[int, str]:
        """The operator's name of each float kernel, by tensor index."""
        found = {node.inputs[1]: node.name for node in self.nodes if node.name in _LAYERS}
        return {index: name for index, name in found.items() if index in self.constants}

    @property
    def biases(self) -> tuple[int, ...]:
        """Tensor indices of the layers' biases."""
        found = (node.inputs[2] for node in self.nodes if node.name in _LAYERS and len(node.inputs) > 2)
        return tuple(index for index in found if index in self.constants)

    @property
    def logits(self) -> int:
        """Tensor index of the last softmax's input, or of the output."""
        return next((node.inputs[0] for node in reversed(self.nodes) if node.name == "SOFTMAX"), self.output)

    @property
    def first(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and the input."""
        reached, found = {self.source}, []
        for node in self.nodes:
            if reached.isdisjoint(node.inputs):
                continue
            if node.name in _LAYERS:
                found.append(node)
            else:
                reached.add(node.output)
        return tuple(found)

    @property
    def last(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and the output; a head on several levels has one for each."""
        reaching, found = {self.output}, []
        for node in reversed(self.nodes):
            if node.output not in reaching:
                continue
            if node.name in _LAYERS:
                found.append(node)
            else:
                reaching.update(node.inputs)
        return tuple(reversed(found))

    @property
    def features(self) -> tuple[int, ...]:
        """Tensor indices of the last layers' inputs, or of the output."""
        return tuple(dict.fromkeys(node.inputs[0] for node in self.last)) or (self.output,)

    def run(
        self, images: tf.Tensor, weights: Mapping[int, tf.Tensor], change: Change | None = None
    ) -> dict[int, tf.Tensor]:
        """Return every activation.

        Args:
            images: normalised, (n, S, S, 3).
            weights: values that replace constants, by tensor index.
            change: applied to the input and to each operator's output.
        """
        passed = change or (lambda _index, value: value)
        values: dict[int, Any] = {**self.constants, **weights, self.source: passed(self.source, images)}
        for node in self.nodes:
            inputs = [values[index] for index in node.inputs]
            values[node.output] = passed(node.output, run_operator(node.name, node.options, inputs))
        return {index: values[index] for index in (self.source, *(node.output for node in self.nodes))}

    def with_weights(self, weights: Mapping[int, NDArray[np.float32]]) -> bytes:
        """Return the file with these constants replaced."""
        from advisor.tflite.rewrite import add_buffer, drop_unused_buffers, pack

        for index, value in weights.items():
            content = np.ascontiguousarray(value, dtype="<f4").tobytes()
            self.tables.subgraphs[0].tensors[index].buffer = add_buffer(self.tables, content)
        drop_unused_buffers(self.tables)
        return pack(self.tables)


def read_graph(data: bytes) -> Graph:
    """Return the graph of a float ``.tflite``.

    Raises:
        UsageError: the file is damaged.
        UnsupportedRecipe: the model has an operator that cannot be trained.
    """
    from advisor.tflite.model import read
    from advisor.tflite.rewrite import unpack

    model, tables = read(data), unpack(data)
    nodes = []
    for operator, table in zip(model.operators, tables.subgraphs[0].operators, strict=True):
        if operator.name not in SUPPORTED or len(operator.outputs) != 1:
            raise UnsupportedRecipe(f"the model has the operator {operator.name}, which cannot be trained here")
        inputs = tuple(index for index in operator.inputs if index >= 0)
        nodes.append(Node(operator.name, table.builtinOptions, inputs, operator.outputs[0]))
    graph = model.subgraphs[0]
    return Graph(tuple(nodes), _constants(model), graph.inputs[0], graph.outputs[0], tables)


def _constants(model: Model) -> dict[int, NDArray[Any]]:
    kinds = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}
    found = {}
    for index, tensor in enumerate(model.tensors):
        if tensor.is_constant and tensor.dtype in kinds:
            found[index] = np.frombuffer(tensor.buffer, kinds[tensor.dtype]).reshape(tensor.shape)
    return found
