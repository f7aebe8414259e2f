"""Count a model's multiply-accumulates and parameters, by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.tflite.values import Model, Operator, Subgraph, Tensor


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator's cost.

    Attributes:
        index: its place in the order of execution.
        name: its type (``CONV_2D``).
        output: the name of its first output tensor, empty if it has none.
        macs: multiply-accumulates of one run, 0 for a type that has none or is not counted.
        parameters: elements of the weights that it is the first to read.
    """

    index: int
    name: str
    output: str
    macs: int
    parameters: int


@dataclass(frozen=True, slots=True)
class Cost:
    """A model's cost, operator by operator."""

    operators: tuple[OperatorCost, ...]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return sum(operator.macs for operator in self.operators)

    @property
    def parameters(self) -> int:
        """Elements of all weights, each counted once."""
        return sum(operator.parameters for operator in self.operators)


def count(model: Model) -> Cost:
    """Count the main graph's multiply-accumulates and parameters.

    Counted are convolutions (also depthwise, grouped and transposed), fully connected layers and matrix products; a
    bias, an activation or a pooling adds nothing, as is usual in the literature. Parameters are the elements of
    constants that are stored as floats or quantized; shapes, axes and paddings are none. Constants that a DEQUANTIZE
    expands (float16) count for the operator that reads the result.
    """
    graph = model.subgraphs[0]
    sources = _expanded(graph)
    counted: set[int] = set()
    costs = []
    for index, operator in enumerate(graph.operators):
        weights = set() if _expands(graph, operator) else _weights(graph, operator, sources) - counted
        counted |= weights
        parameters = sum(graph.tensors[weight].elements for weight in weights)
        output = graph.tensors[operator.outputs[0]].name if operator.outputs else ""
        costs.append(OperatorCost(index, operator.name, output, _macs(graph, operator), parameters))
    return Cost(tuple(costs))


def _expands(graph: Subgraph, operator: Operator) -> bool:
    inputs = operator.inputs
    return (
        operator.name == "DEQUANTIZE" and len(inputs) == 1 and inputs[0] >= 0 and graph.tensors[inputs[0]].is_constant
    )


def _expanded(graph: Subgraph) -> dict[int, int]:
    """Return the stored constant behind each tensor that a DEQUANTIZE expands."""
    return {
        output: operator.inputs[0]
        for operator in graph.operators
        if _expands(graph, operator)
        for output in operator.outputs
    }


def _weights(graph: Subgraph, operator: Operator, sources: Mapping[int, int]) -> set[int]:
    indices = {sources.get(index, index) for index in operator.inputs if index >= 0}
    return {index for index in indices if _is_weight(graph.tensors[index])}


def _is_weight(tensor: Tensor) -> bool:
    stored_as_number = tensor.dtype.startswith(("float", "bfloat")) or tensor.quantization is not None
    return tensor.is_constant and stored_as_number


def _macs(graph: Subgraph, operator: Operator) -> int:
    """Return the operator's multiply-accumulates; 0 if its tensors do not have the shapes of its type."""
    tensors = [graph.tensors[index] for index in operator.inputs if index >= 0]
    if len(tensors) < 2 or not operator.outputs:
        return 0
    source, kernel, output = tensors[0], tensors[1], graph.tensors[operator.outputs[0]]
    if not kernel.shape or not output.shape:
        return 0
    match operator.name:
        case "CONV_2D":  # kernel: output channels, height, width, input channels of one group
            return output.elements * (kernel.elements // max(kernel.shape[0], 1))
        case "DEPTHWISE_CONV_2D":  # kernel: 1, height, width, output channels
            return output.elements * (kernel.elements // max(kernel.shape[-1], 1))
        case "FULLY_CONNECTED":  # kernel: units, width of the input
            return output.elements * kernel.shape[-1]
        case "BATCH_MATMUL":  # each value of the left matrix is multiplied with one row of the right one
            return source.elements * output.shape[-1]
        case "TRANSPOSE_CONV" if len(tensors) > 2:  # inputs: shape, kernel (outputs, height, width, inputs), image
            return tensors[2].elements * (kernel.elements // max(kernel.shape[-1], 1))
    return 0


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
