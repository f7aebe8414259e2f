"""Find the operator of the file that each event of the profiler belongs to.

Builtin kernels report the index of the operator. XNNPACK fuses operators and names only its own kernels, so its events
are matched by kind and order: if a kind has as many events as the graph has remaining operators of this kind, they are
matched in the order in which the runtime executes its partitions. If the counts differ, the kind gets no operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.measurement.accelerators.delegation import execution_order
from advisor.measurement.operators.runs import ProfilerEvent
from advisor.tflite.macs import OperatorCost, count
from advisor.tflite.model import Model, Operator

# The names of XNNPACK's kernels (without the types in brackets), and the operators that become such a kernel.
_KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("DWConv", frozenset({"DEPTHWISE_CONV_2D"})),
    ("Deconvolution", frozenset({"TRANSPOSE_CONV"})),
    ("Convolution", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Fully Connected", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Dynamic Fully Connected", frozenset({"CONV_2D", "FULLY_CONNECTED"})),
    ("Add", frozenset({"ADD"})),
    ("Subtract", frozenset({"SUB"})),
    ("Multiply", frozenset({"MUL"})),
    ("Average Pooling", frozenset({"AVERAGE_POOL_2D"})),
    ("Max Pooling", frozenset({"MAX_POOL_2D"})),
    ("Mean", frozenset({"MEAN"})),
    ("Softmax", frozenset({"SOFTMAX"})),
    ("Sigmoid", frozenset({"LOGISTIC"})),
    ("HardSwish", frozenset({"HARD_SWISH"})),
    ("Concatenate", frozenset({"CONCATENATION"})),
    ("Constant Pad", frozenset({"PAD"})),
    ("Static Reshape", frozenset({"RESHAPE"})),
    ("Resize Bilinear", frozenset({"RESIZE_BILINEAR"})),
)


@dataclass(frozen=True)
class ProfiledOperator:
    """One operator of the file, as a profile shows it.

    Attributes:
        index: index in the file's main graph.
        name: the builtin operator's name.
        inputs: ``float32 1x224x224x3`` of each input that is an activation.
        outputs: the same for each output.
        macs: multiply-accumulates in a run; 0 for operators without any.
        bytes_moved: bytes of its inputs, constants and outputs; each tensor counts once.
    """

    index: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    bytes_moved: int


def nodes(model: Model) -> tuple[ProfiledOperator, ...]:
    """Return the operators of the main graph."""
    costs = count(model).operators
    return tuple(_node(model, cost, operator) for cost, operator in zip(costs, model.operators, strict=True))


def match(model: Model, events: Sequence[ProfilerEvent]) -> tuple[ProfiledOperator | None, ...]:
    """Return the operator of each event, None if it is not known."""
    known = nodes(model)
    found: list[ProfiledOperator | None] = [_builtin_node(known, event) for event in events]
    taken = {node.index for node in found if node is not None}
    rest = [known[index] for index in execution_order(model, taken) if index not in taken]
    waiting: dict[frozenset[str], list[int]] = {}
    for position, event in enumerate(events):
        if found[position] is None and (kind := kind_of(event.tag)):
            waiting.setdefault(kind, []).append(position)
    for kind, positions in waiting.items():
        left = [node for node in rest if node.name in kind]
        if len(left) == len(positions):
            for position, node in zip(positions, left, strict=True):
                found[position] = node
    return tuple(found)


def kind_of(tag: str) -> frozenset[str] | None:
    """Return the operators that can become an XNNPACK kernel of this name, None if unknown."""
    name = tag.removeprefix("Delegate/")
    if "DWConv" in name:
        return _KINDS[0][1]
    return next((kind for start, kind in _KINDS if name.startswith(start)), None)


def _builtin_node(known: Sequence[ProfiledOperator], event: ProfilerEvent) -> ProfiledOperator | None:
    """Return the operator that a builtin kernel reports, if the names are equal."""
    if not event.builtin or event.operator >= len(known):
        return None
    node = known[event.operator]
    return node if event.tag == node.name else None


def _node(model: Model, cost: OperatorCost, operator: Operator) -> ProfiledOperator:
    tensors = model.tensors
    inputs = [tensors[position] for position in operator.inputs if position >= 0]
    outputs = [tensors[position] for position in operator.outputs]
    return ProfiledOperator(
        index=cost.index,
        name=operator.name,
        inputs=tuple(_shown(tensor.dtype, tensor.shape) for tensor in inputs if not tensor.is_constant),
        outputs=tuple(_shown(tensor.dtype, tensor.shape) for tensor in outputs),
        macs=cost.macs,
        bytes_moved=sum(tensor.size_bytes for tensor in {id(tensor): tensor for tensor in inputs + outputs}.values()),
    )


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    """Return ``float32 1x224x224x3``."""
    return f"{dtype} {'x'.join(map(str, shape)) or 'scalar'}"
