"""Read a float ``.tflite`` as a graph whose weights can be trained.

Recipes that retrain (`compression/_recipes/retrained.py`) read a file as a :class:`Graph`, train
its weights (`retraining.py`) or prune them (`refitting.py`), and write it again: no network of
Keras is needed. `operators.py` computes each operator; a file with another one is refused. Other
weights for equal inputs need a new version of the recipes in `retrained.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import UnsupportedRecipe
from advisor.tflite import Tables, read, unpack
from advisor.training._flatgraph.operators import run_operator

if TYPE_CHECKING:
    import tensorflow as tf

Change = Callable[[int, Any], Any]
"""Maps a tensor's index and value to another value, as quantization does."""

SUPPORTED = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "MEAN"),
        *("AVERAGE_POOL_2D", "MAX_POOL_2D", "CONCATENATION", "PAD", "RESHAPE", "SOFTMAX"),
        *("HARD_SWISH", "LOGISTIC", "RELU", "RELU6"),
        *("DIV", "PADV2", "SLICE", "GATHER", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"),
    }
)
"""The names of the operators that can be trained."""

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
    """The graph of a float model."""

    nodes: tuple[Node, ...]  # its operators in the order of execution
    constants: Mapping[int, NDArray[Any]]  # content of its constants by tensor index
    source: int  # tensor index of its input
    outputs: tuple[int, ...]  # tensor indices of its outputs
    tables: Tables  # the file's tables, to write it again

    @classmethod
    def read(cls, data: bytes) -> Graph:
        """Return the graph of a float ``.tflite``.

        Raises UsageError for a damaged file, and UnsupportedRecipe for an operator that
        cannot be trained.
        """
        model = read(data)
        tables = unpack(data)
        nodes = []
        for operator, table in zip(model.operators, tables.subgraphs[0].operators, strict=True):
            if operator.name not in SUPPORTED or len(operator.outputs) != 1:
                raise UnsupportedRecipe(
                    f"the model has the operator {operator.name}, which cannot be trained here"
                )
            inputs = tuple(index for index in operator.inputs if index >= 0)
            nodes.append(Node(operator.name, table.builtinOptions, inputs, operator.outputs[0]))
        graph = model.subgraphs[0]
        kinds = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}
        constants = {}
        for index, tensor in enumerate(model.tensors):
            if tensor.is_constant and tensor.dtype in kinds:
                values = np.frombuffer(tensor.buffer, kinds[tensor.dtype])
                constants[index] = values.reshape(tensor.shape)
        return cls(tuple(nodes), constants, graph.inputs[0], tuple(graph.outputs), tables)

    @property
    def kernels(self) -> Mapping[int, str]:
        """The operator's name of each float kernel, by tensor index."""
        kernels = {}
        for node in self.nodes:
            if node.name in _LAYERS and node.inputs[1] in self.constants:
                kernels[node.inputs[1]] = node.name
        return kernels

    @property
    def biases(self) -> tuple[int, ...]:
        """Tensor indices of the layers' biases."""
        biases = []
        for node in self.nodes:
            if node.name in _LAYERS and len(node.inputs) > 2 and node.inputs[2] in self.constants:
                biases.append(node.inputs[2])
        return tuple(biases)

    @property
    def logits(self) -> int | None:
        """Tensor index of the last softmax's input, or of an output of one row; None for none."""
        for node in reversed(self.nodes):
            if node.name == "SOFTMAX":
                return node.inputs[0]
        output = self.outputs[0]
        if len(self.tables.subgraphs[0].tensors[output].shape) <= 2:
            return output
        return None

    @property
    def first(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and the input."""
        reached = {self.source}
        first_layers = []
        for node in self.nodes:
            if reached.isdisjoint(node.inputs):
                continue
            if node.name in _LAYERS:
                first_layers.append(node)
            else:
                reached.add(node.output)
        return tuple(first_layers)

    @property
    def last(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and an output.

        A head on several levels has one for each.
        """
        reaching = set(self.outputs)
        last_layers = []
        for node in reversed(self.nodes):
            if node.output not in reaching:
                continue
            if node.name in _LAYERS:
                last_layers.append(node)
            else:
                reaching.update(node.inputs)
        return tuple(reversed(last_layers))

    @property
    def features(self) -> tuple[int, ...]:
        """Tensor indices of the last layers' inputs, or of the outputs."""
        return tuple(dict.fromkeys(node.inputs[0] for node in self.last)) or self.outputs

    def run(
        self, images: tf.Tensor, weights: Mapping[int, tf.Tensor], change: Change | None = None
    ) -> dict[int, tf.Tensor]:
        """Return every activation for normalised images (n, S, S, 3).

        ``weights`` replace constants, by tensor index. ``change`` is applied to the input and to
        each operator's output.
        """
        passed = change or (lambda _index, value: value)
        constants: dict[int, Any] = {**self.constants, **weights}
        activations: dict[int, Any] = {self.source: passed(self.source, images)}
        for node in self.nodes:
            inputs = []
            for index in node.inputs:
                known = activations if index in activations else constants
                inputs.append(known[index])
            output = run_operator(node.name, node.options, inputs)
            activations[node.output] = passed(node.output, output)
        return activations

    def with_weights(self, weights: Mapping[int, NDArray[np.float32]]) -> bytes:
        """Return the file with these constants replaced."""
        for index, value in weights.items():
            content = np.ascontiguousarray(value, dtype="<f4").tobytes()
            self.tables.subgraphs[0].tensors[index].buffer = self.tables.add_buffer(content)
        self.tables.drop_unused_buffers()
        return self.tables.pack()
