"""Compute the tensor arena of TensorFlow Lite Micro (TFLM): planned activations, and what the interpreter keeps."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from advisor.tflite.arena import Lifetime
from advisor.tflite.values import Model, Operator, Subgraph

ALIGNMENT = 16
"""TFLM's alignment of buffers (``MicroArenaBufferAlignment``)."""

FIXED_BYTES = 704
"""The allocators, the planner, and the tensors and quantization of one input and one output."""

TENSOR_BYTES, OPERATOR_BYTES = 24, 64
"""``TfLiteEvalTensor`` and ``NodeAndRegistration`` with pointers of 64 bits; a controller of 32 bits needs half."""

_KEPT: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), 108),
        "TRANSPOSE_CONV": 128,
        "FULLY_CONNECTED": 112,
        **dict.fromkeys(("ADD", "SUB", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM"), 72),
        **dict.fromkeys(("CONCATENATION", "SOFTMAX"), 84),
        **dict.fromkeys(("RELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE", "LEAKY_RELU", "PRELU"), 32),
        **dict.fromkeys(("RELU6", "LOGISTIC", "TANH"), 16),
        "MUL": 56,
        "PAD": 64,
        "RESHAPE": 40,
        "PACK": 40,
        "STRIDED_SLICE": 120,
        "ELU": 256,
        **dict.fromkeys(("SPLIT", "TRANSPOSE", "EXPAND_DIMS", "MAXIMUM", "MINIMUM"), 0),
        **dict.fromkeys(("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"), 0),
    }
)
"""Bytes that the interpreter keeps for an operator: its options, and the data of its kernel. Each is the difference
between files with four and two such operators in the reference kernels of TFLM 0.dev20261023182759."""

_KEPT_OTHERWISE = 64

_BY_CHANNEL = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"})
"""Operators that keep a multiplier and a shift for each channel."""


@dataclass(frozen=True, slots=True)
class MicroArena:
    """The parts of a tensor arena, in bytes.

    Attributes:
        activations: what the planner gives to activations, which share memory.
        persistent: what the interpreter keeps: tensors, operators, multipliers by channel.
        setup: what is needed besides the persistent part for a moment, before activations are placed.
    """

    activations: int
    persistent: int
    setup: int

    @property
    def total(self) -> int:
        """The whole arena."""
        return self.persistent + max(self.activations, self.setup)


def micro_arena(model: Model) -> MicroArena:
    """Return the arena that TFLM's reference kernels need for the main graph, with pointers of 64 bits."""
    graph = model.subgraphs[0]
    kept = sum(_kept(graph, operator) for operator in graph.operators)
    structs = TENSOR_BYTES * len(graph.tensors) + OPERATOR_BYTES * len(graph.operators)
    blocks = _lifetimes(graph)
    planning = 280 + 32 * len(graph.tensors) + 40 * len(blocks)
    preparing = max((_preparing(graph, operator) for operator in graph.operators), default=0)
    return MicroArena(_plan(blocks), FIXED_BYTES + structs + kept, max(planning, preparing))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _kept(graph: Subgraph, operator: Operator) -> int:
    kept = _KEPT.get(operator.name, _KEPT_OTHERWISE)
    return kept + 2 * _rounded(4 * _channels(graph, operator, 1)) if operator.name in _BY_CHANNEL else kept


def _preparing(graph: Subgraph, operator: Operator) -> int:
    """Return what the kernel needs while it reads its tensors' scales; a convolution reads its weights' twice."""
    if operator.name not in _BY_CHANNEL:
        return 0
    weights, bias = _channels(graph, operator, 1), _channels(graph, operator, 2)
    if operator.name != "FULLY_CONNECTED":
        return 628 + 4 * (2 * weights + bias)
    return 240 + 4 * weights + (136 + 4 * bias if bias else 0)


def _channels(graph: Subgraph, operator: Operator, place: int) -> int:
    """Return the number of scales of one of the operator's inputs; 0 if it has no such input."""
    if place >= len(operator.inputs) or operator.inputs[place] < 0:
        return 0
    found = graph.tensors[operator.inputs[place]].quantization
    return len(found.scales) if found else 0


def _lifetimes(graph: Subgraph) -> list[Lifetime]:
    """Return the lifetimes of the activations in the order of the tensors.

    Unlike LiteRT, TFLM lets others use the memory of the input once it was read, and no operator works in place.
    """
    first: dict[int, int] = dict.fromkeys(graph.inputs, 0)
    last = dict(first)
    for step, operator in enumerate(graph.operators, 1):
        first.update(dict.fromkeys(operator.outputs, step))
        last.update(dict.fromkeys((*operator.inputs, *operator.outputs), step))
    last.update(dict.fromkeys(graph.outputs, len(graph.operators)))
    return [
        Lifetime(_rounded(tensor.size_bytes), first[index], last[index])
        for index, tensor in enumerate(graph.tensors)
        if index in first and not tensor.is_constant and not tensor.is_variable
    ]


def _plan(blocks: Sequence[Lifetime]) -> int:
    """Place blocks as TFLM's ``GreedyMemoryPlanner`` does, and return the size of the whole.

    The largest goes first, of equal ones the last; each goes into the first gap between the blocks of its time that
    holds it.
    """
    placed: list[tuple[int, Lifetime]] = []
    for _, block in sorted(enumerate(blocks), key=lambda pair: (-pair[1].size_bytes, -pair[0])):
        offset = 0
        for start, other in placed:
            if not other.overlaps(block):
                continue
            if start - offset >= block.size_bytes:
                break
            offset = max(offset, start + other.size_bytes)
        insort(placed, (offset, block), key=lambda pair: pair[0])
    return max((offset + block.size_bytes for offset, block in placed), default=0)
