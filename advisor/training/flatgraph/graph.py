"""The graph: its constants as numbers, its run with whatever stands in for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.core.errors import UnsupportedRecipe
from advisor.training.flatgraph.operators import OPERATIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Change = Callable[[int, Any], Any]
"""From a tensor's index and its value to the value that goes on, as quantizing it would make of it."""

_LAYERS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})


@dataclass(frozen=True)
class Step:
    """One operator."""

    name: str
    options: Any
    inputs: tuple[int, ...]
    output: int


@dataclass(frozen=True, eq=False)
class Graph:
    """A float model's only graph.

    Attributes:
        steps: its operators in their order.
        constants: content of its constants by tensor index.
        source: its input.
        output: what it gives.
        tables: the file's tables, for writing it back.
    """

    steps: tuple[Step, ...]
    constants: Mapping[int, NDArray[Any]]
    source: int
    output: int
    tables: Any

    @property
    def kernels(self) -> Mapping[int, str]:
        """Float kernels of layers by tensor index, with the operator's name."""
        found = {step.inputs[1]: step.name for step in self.steps if step.name in _LAYERS}
        return {index: name for index, name in found.items() if index in self.constants}

    @property
    def biases(self) -> tuple[int, ...]:
        """Biases of layers."""
        found = (step.inputs[2] for step in self.steps if step.name in _LAYERS and len(step.inputs) > 2)
        return tuple(index for index in found if index in self.constants)

    @property
    def logits(self) -> int:
        """What the last softmax reads, else the output."""
        return next((step.inputs[0] for step in reversed(self.steps) if step.name == "SOFTMAX"), self.output)

    @property
    def first(self) -> tuple[Step, ...]:
        """Layers that the input reaches through no other layer."""
        reached, found = {self.source}, []
        for step in self.steps:
            if reached.isdisjoint(step.inputs):
                continue
            if step.name in _LAYERS:
                found.append(step)
            else:
                reached.add(step.output)
        return tuple(found)

    @property
    def last(self) -> tuple[Step, ...]:
        """Layers that reach the output through no other layer: a head over several levels has one a level."""
        reaching, found = {self.output}, []
        for step in reversed(self.steps):
            if step.output not in reaching:
                continue
            if step.name in _LAYERS:
                found.append(step)
            else:
                reaching.update(step.inputs)
        return tuple(reversed(found))

    @property
    def features(self) -> tuple[int, ...]:
        """What the last layers read, else the output."""
        return tuple(dict.fromkeys(step.inputs[0] for step in self.last)) or (self.output,)

    def run(self, images: Any, weights: Mapping[int, Any], change: Change | None = None) -> dict[int, Any]:
        """Return every activation.

        Args:
            images: normalised, (n, S, S, 3).
            weights: what stands for constants.
            change: applied to the input and to each operator's output.
        """
        passed = change or (lambda _index, value: value)
        values: dict[int, Any] = {**self.constants, **weights, self.source: passed(self.source, images)}
        for step in self.steps:
            inputs = [values[index] for index in step.inputs]
            values[step.output] = passed(step.output, OPERATIONS[step.name](step.options, inputs))
        return {index: values[index] for index in (self.source, *(step.output for step in self.steps))}

    def with_weights(self, weights: Mapping[int, NDArray[np.float32]]) -> bytes:
        """Return the file with these constants in place of its own."""
        import numpy as np

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
        UnsupportedRecipe: it has an operator that cannot be trained here.
    """
    from advisor.tflite.model import read
    from advisor.tflite.rewrite import unpack

    model, tables = read(data), unpack(data)
    steps = []
    for operator, table in zip(model.operators, tables.subgraphs[0].operators, strict=True):
        if operator.name not in OPERATIONS or len(operator.outputs) != 1:
            raise UnsupportedRecipe(f"the model has the operator {operator.name}, which cannot be trained here")
        inputs = tuple(index for index in operator.inputs if index >= 0)
        steps.append(Step(operator.name, table.builtinOptions, inputs, operator.outputs[0]))
    graph = model.subgraphs[0]
    return Graph(tuple(steps), _constants(model), graph.inputs[0], graph.outputs[0], tables)


def _constants(model: Any) -> dict[int, NDArray[Any]]:
    import numpy as np

    kinds = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}
    found = {}
    for index, tensor in enumerate(model.tensors):
        if tensor.is_constant and tensor.dtype in kinds:
            found[index] = np.frombuffer(tensor.buffer, kinds[tensor.dtype]).reshape(tensor.shape)
    return found
