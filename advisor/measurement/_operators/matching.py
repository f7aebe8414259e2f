"""Say which operator of a file each event of the profiler belongs to.

Builtin kernels report the place of their operator. XNNPACK reports the names of its kernels only,
so its events are matched by kind and order.
"""

from collections.abc import Sequence
from dataclasses import replace

from advisor.measurement._delegation import execution_order
from advisor.measurement._operators.profile_values import (
    ProfiledOperator,
)
from advisor.measurement._operators.runs import (
    ProfilerEvent,
)
from advisor.tflite import Model, Operator, OperatorCost, Tensor, count

# The names of XNNPACK's kernels (without the types in brackets),
# and the operators that become such a kernel.
_LINEAR = "CONV_2D FULLY_CONNECTED"
_KINDS = (
    ("DWConv", "DEPTHWISE_CONV_2D"),
    ("Deconvolution", "TRANSPOSE_CONV"),
    ("Convolution", _LINEAR),
    ("Fully Connected", _LINEAR),
    ("Dynamic Fully Connected", _LINEAR),
    ("Add", "ADD"),
    ("Subtract", "SUB"),
    ("Multiply", "MUL"),
    ("Average Pooling", "AVERAGE_POOL_2D"),
    ("Max Pooling", "MAX_POOL_2D"),
    ("Mean", "MEAN"),
    ("Softmax", "SOFTMAX"),
    ("Sigmoid", "LOGISTIC"),
    ("HardSwish", "HARD_SWISH"),
    ("Concatenate", "CONCATENATION"),
    ("Constant Pad", "PAD"),
    ("Static Reshape", "RESHAPE"),
    ("Resize Bilinear", "RESIZE_BILINEAR"),
)


def with_shapes(graph: Model, shapes: Sequence[Sequence[int]] | None) -> Model:
    """Return the graph with the tensor shapes of a run; unchanged if there are none."""
    if shapes is None:
        return graph
    main = graph.subgraphs[0]
    # The runtime adds tensors of its own behind those of the file.
    shapes = shapes[: len(main.tensors)]
    tensors = []
    for tensor, shape in zip(main.tensors, shapes, strict=True):
        tensors.append(replace(tensor, shape=tuple(shape)))
    main = replace(main, tensors=tuple(tensors))
    return replace(graph, subgraphs=(main, *graph.subgraphs[1:]))


def list_nodes(model: Model) -> tuple[ProfiledOperator, ...]:
    """Return the operators of the main graph."""
    nodes = []
    for cost, operator in zip(count(model).operators, model.operators, strict=True):
        nodes.append(_make_node(model, cost, operator))
    return tuple(nodes)


def match_events(
    model: Model, events: Sequence[ProfilerEvent]
) -> tuple[ProfiledOperator | None, ...]:
    """Return the operator of each event, None if it is not known."""
    nodes = list_nodes(model)
    # Only builtin kernels report the place of their operator in the file.
    matched = [_find_reported(nodes, event) for event in events]
    matched_places = {node.index for node in matched if node is not None}
    rest = []
    for place in execution_order(model, matched_places):
        if place not in matched_places:
            rest.append(nodes[place])
    waiting: dict[frozenset[str], list[int]] = {}
    for position, event in enumerate(events):
        kind = kind_of(event.tag)
        if matched[position] is None and kind:
            waiting.setdefault(kind, []).append(position)
    # XNNPACK names kernels and not operators.
    # Only where both are equally many does their order tell which is which.
    for kind, positions in waiting.items():
        candidates = [node for node in rest if node.name in kind]
        if len(candidates) == len(positions):
            for position, node in zip(positions, candidates, strict=True):
                matched[position] = node
    return tuple(matched)


def _find_reported(
    nodes: Sequence[ProfiledOperator], event: ProfilerEvent
) -> ProfiledOperator | None:
    """Return the operator at the place that a builtin kernel reports, if it is of that kind."""
    if not event.builtin or event.operator >= len(nodes):
        return None
    node = nodes[event.operator]
    return node if node.name == event.tag else None


def kind_of(tag: str) -> frozenset[str] | None:
    """Return the operators that can become an XNNPACK kernel of this name, None if unknown."""
    name = tag.removeprefix("Delegate/")
    if "DWConv" in name:
        name = "DWConv"
    for start, operators in _KINDS:
        if name.startswith(start):
            return frozenset(operators.split())
    return None


def _make_node(model: Model, cost: OperatorCost, operator: Operator) -> ProfiledOperator:
    tensors = model.tensors
    inputs = []
    for position in operator.inputs:
        if position >= 0:
            inputs.append(tensors[position])
    outputs = [tensors[position] for position in operator.outputs]
    input_texts = tuple(_show_tensor(tensor) for tensor in inputs if not tensor.is_constant)
    output_texts = tuple(map(_show_tensor, outputs))
    # A tensor that is two inputs of one operator is read once.
    # Equal tensors are two, so identity decides.
    distinct = {id(tensor): tensor for tensor in inputs + outputs}
    bytes_moved = sum(tensor.size_bytes for tensor in distinct.values())
    return ProfiledOperator(
        cost.index, operator.name, input_texts, output_texts, cost.macs, bytes_moved
    )


def _show_tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype} {'x'.join(map(str, tensor.shape)) or 'scalar'}"
