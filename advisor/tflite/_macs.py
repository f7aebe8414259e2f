"""Count a file's multiply-accumulates and parameters, and describe the work of its operators.

Reports and cards show the counts; the predictor of latencies (`devices/_latency`) reads the works.
The numbers are stored with profiles of devices (columns of :class:`Work`) and with the catalogue,
so a change of a count makes old and new figures differ.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from advisor.tflite._operator_work import CONVOLUTION, DENSE, DEPTHWISE, Work
from advisor.tflite._values import Model, Operator, Subgraph, Tensor

CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})
"""Activations that XNNPACK joins with the operator before."""

_PARTS = frozenset({"SLICE", "STRIDED_SLICE"})
"""Operators that read only what they write."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator's cost, with its index, its type (``CONV_2D``) and its first output's name.

    The name is empty for an operator without outputs. ``macs`` are multiply-accumulates of one
    run, 0 for a type that has none or is not counted; ``parameters`` are elements of the weights
    that it is the first to read.
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

    Counted are convolutions (also depthwise, grouped and transposed), fully connected layers and
    matrix products; a bias, an activation or a pooling adds nothing, as is usual in the
    literature. Parameters are the elements of constants that are stored as floats or quantized;
    shapes, axes and paddings are none. Constants that a DEQUANTIZE expands (float16) count for the
    operator that reads the result.
    """
    graph = model.subgraphs[0]
    sources = graph.expanded
    counted: set[int] = set()
    costs = []
    for index, operator in enumerate(graph.operators):
        weights = set[int]()
        if not sources.keys() & set(operator.outputs):
            stored = set()
            for place in operator.inputs:
                if place >= 0:
                    stored.add(sources.get(place, place))
            # Weights that two operators share are stored once and count once.
            weights = {place for place in stored if graph.tensors[place].is_weight} - counted
        counted |= weights
        parameters = sum(graph.tensors[weight].elements for weight in weights)
        output = ""
        if operator.outputs:
            output = graph.tensors[operator.outputs[0]].name
        costs.append(
            OperatorCost(index, operator.name, output, _count_macs(graph, operator), parameters)
        )
    return Cost(tuple(costs))


def _count_macs(graph: Subgraph, operator: Operator) -> int:
    """Return an operator's multiply-accumulates; 0 if its tensors do not fit its type."""
    tensors = []
    for index in operator.inputs:
        if index >= 0:
            tensors.append(graph.tensors[index])
    if len(tensors) < 2 or not operator.outputs:
        return 0
    source = tensors[0]
    kernel = tensors[1]
    output = graph.tensors[operator.outputs[0]]
    if not kernel.shape or not output.shape:
        return 0
    match operator.name:
        case "CONV_2D":  # kernel: output channels, height, width, input channels of one group
            return output.elements * (kernel.elements // max(kernel.shape[0], 1))
        case "DEPTHWISE_CONV_2D":  # kernel: 1, height, width, output channels
            return output.elements * (kernel.elements // max(kernel.shape[-1], 1))
        case "FULLY_CONNECTED":  # kernel: units, width of the input
            return output.elements * kernel.shape[-1]
        # Each value of the left matrix is multiplied with one row of the right one.
        case "BATCH_MATMUL":
            return source.elements * output.shape[-1]
        # Inputs: shape, kernel (outputs, height, width, inputs), image.
        case "TRANSPOSE_CONV" if len(tensors) > 2:
            return tensors[2].elements * (kernel.elements // max(kernel.shape[-1], 1))
    return 0


def form_of(model: Model, cost: Cost) -> str:
    """Return the form in which most multiply-accumulates of the main graph are computed.

    It is ``float32``, ``float16`` (halved weights), ``weight_int8``, ``dynamic_int8``,
    ``int8`` or ``int16x8``.
    """
    graph = model.subgraphs[0]
    stored = {output: graph.tensors[source].dtype for output, source in graph.expanded.items()}
    work: Counter[str] = Counter()
    for operator, counted in zip(graph.operators, cost.operators, strict=True):
        if counted.macs:
            work[_find_form(graph, operator, stored)] += counted.macs
    # By arithmetic and not by the number of operators: a mixed file has small float layers.
    if work:
        return work.most_common(1)[0][0]
    return "float32"


def _find_form(graph: Subgraph, operator: Operator, stored: Mapping[int, str]) -> str:
    """Return the form of one operator, by the types of its input and of its weights.

    ``stored`` has the type of the constants that a DEQUANTIZE expands, by the expanded tensor.
    """
    source = operator.inputs[0]
    kernel = operator.inputs[1]
    activations = graph.tensors[source].dtype
    weights = graph.tensors[kernel].dtype
    if activations == "int16":
        return "int16x8"
    if activations in ("int8", "uint8"):
        return "int8"
    if kernel in stored:
        return "float16" if stored[kernel] == "float16" else "weight_int8"
    return "float32" if weights.startswith("float") else "dynamic_int8"


Works = tuple[tuple[Work, int], ...]
"""Different operators of a network, each with its number."""


def list_works(model: Model) -> tuple[Work, ...]:
    """Return the operators of the main graph that take time.

    XNNPACK runs a PAD as a part of the convolution that alone reads it, and a clamp as a part of
    the operator whose result it alone reads. Constants are expanded when the file is loaded.
    """
    # An output of the graph is read from outside, so no other operator can take it over.
    readers: Counter[int] = Counter(model.subgraphs[0].outputs)
    convolved = set[int]()
    computed = set[int]()
    for operator in model.operators:
        readers.update(set(operator.inputs))
        computed.update(operator.outputs)
        if operator.name in (CONVOLUTION, DEPTHWISE):
            convolved.add(operator.inputs[0])

    def takes_time(operator: Operator) -> bool:
        if operator.name == "PAD":
            return readers[operator.outputs[0]] > 1 or operator.outputs[0] not in convolved
        return (
            operator.name not in CLAMPS
            or readers[operator.inputs[0]] > 1
            or operator.inputs[0] not in computed
        )

    works = list[Work]()
    for operator in model.operators:
        sources = _list_activations(model, operator)
        if operator.outputs and sources and takes_time(operator):
            works.append(_describe_work(model, operator, sources))
    return tuple(works)


def count_works(works: Iterable[Work]) -> Works:
    """Return each different operator with its number, sorted."""
    return tuple(sorted(Counter(works).items()))


def count_graph_works(model: Model) -> Works:
    """Return each different operator of the main graph that takes time, with its number.

    See :func:`list_works`.
    """
    return count_works(list_works(model))


def _list_activations(model: Model, operator: Operator) -> list[Tensor]:
    inputs = []
    for index in operator.inputs:
        if index >= 0 and not model.tensors[index].is_constant:
            inputs.append(model.tensors[index])
    return inputs


def _describe_work(model: Model, operator: Operator, sources: Iterable[Tensor]) -> Work:
    output = model.tensors[operator.outputs[0]]
    read = sum(source.elements for source in sources)
    channels = 1
    if output.shape:
        channels = abs(output.shape[-1])
    pixels = math.prod(map(abs, output.shape[:-1]))
    stride = int(operator.options.get("stride_h", 1))
    if operator.name in (CONVOLUTION, DEPTHWISE, DENSE) and len(operator.inputs) > 1:
        kernel = model.tensors[operator.inputs[1]].shape
        taps = 1
        if len(kernel) == 4:
            taps = kernel[1] * kernel[2]
        depth = 1
        if operator.name != DEPTHWISE:
            depth = kernel[-1]
        return Work(operator.name, pixels, channels, depth, taps, stride, read)
    taps = int(operator.options.get("filter_height", 1)) * int(
        operator.options.get("filter_width", 1)
    )
    # The parts of a split are equal.
    channels *= len(operator.outputs)
    if operator.name in _PARTS:
        read = pixels * channels
    return Work(operator.name, pixels, channels, 1, taps, stride, read)
