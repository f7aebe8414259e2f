"""Count a model's multiply-accumulates and parameters, by operator and by operator type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
class TypeCost:
    """The cost of all operators of one type."""

    name: str
    operators: int
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

    def by_type(self) -> tuple[TypeCost, ...]:
        """Return the cost of each operator type, the most multiply-accumulates first."""
        groups: dict[str, list[OperatorCost]] = {}
        for operator in self.operators:
            groups.setdefault(operator.name, []).append(operator)
        costs = (
            TypeCost(name, len(group), sum(cost.macs for cost in group), sum(cost.parameters for cost in group))
            for name, group in groups.items()
        )
        return tuple(sorted(costs, key=lambda cost: (-cost.macs, -cost.operators, cost.name)))


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
        costs.append(_cost(graph, index, operator, sum(graph.tensors[weight].elements for weight in weights)))
    return Cost(tuple(costs))


def _cost(graph: Subgraph, index: int, operator: Operator, parameters: int) -> OperatorCost:
    output = graph.tensors[operator.outputs[0]] if operator.outputs else None
    return OperatorCost(
        index=index,
        name=operator.name,
        output=output.name if output else "",
        macs=_macs(graph, operator),
        parameters=parameters,
    )


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


def _convolution(source: Tensor, kernel: Tensor, output: Tensor) -> int:
    """Count a convolution; the kernel is (output channels, height, width, input channels of one group)."""
    del source
    return output.elements * (kernel.elements // max(kernel.shape[0], 1))


def _depthwise(source: Tensor, kernel: Tensor, output: Tensor) -> int:
    """Count a depthwise convolution; the kernel is (1, height, width, output channels)."""
    del source
    return output.elements * (kernel.elements // max(kernel.shape[-1], 1))


def _fully_connected(source: Tensor, kernel: Tensor, output: Tensor) -> int:
    """Count a dense layer; the kernel is (units, width of the input)."""
    del source
    return output.elements * kernel.shape[-1]


def _transposed(kernel: Tensor, source: Tensor) -> int:
    """Count a transposed convolution; the kernel is (output channels, height, width, input channels)."""
    return source.elements * (kernel.elements // max(kernel.shape[-1], 1))


def _product(left: Tensor, right: Tensor, output: Tensor) -> int:
    """Count a matrix product: each value of the left matrix is multiplied with one row of the right one."""
    del right
    return left.elements * output.shape[-1]


_FORMULAS: Mapping[str, Callable[[Tensor, Tensor, Tensor], int]] = MappingProxyType(
    {
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _depthwise,
        "FULLY_CONNECTED": _fully_connected,
        "BATCH_MATMUL": _product,
    }
)


def _macs(graph: Subgraph, operator: Operator) -> int:
    """Return the operator's multiply-accumulates; 0 if its tensors do not have the shapes of its type."""
    tensors = [graph.tensors[index] for index in operator.inputs if index >= 0]
    if operator.name == "TRANSPOSE_CONV" and len(tensors) >= 3 and tensors[1].shape:
        return _transposed(tensors[1], tensors[2])
    formula = _FORMULAS.get(operator.name)
    if formula is None or len(tensors) < 2 or not operator.outputs:
        return 0
    source, kernel, output = tensors[0], tensors[1], graph.tensors[operator.outputs[0]]
    return formula(source, kernel, output) if kernel.shape and output.shape else 0
