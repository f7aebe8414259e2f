"""Compute the memory of a model's activations, in LiteRT and on a microcontroller.

Nothing runs: the plans of both interpreters are repeated on the graph. Reports, the limit of
memory in a search and the predictor of latencies read the bytes. `benchmarks/micro_arena.py`
compares them with TensorFlow Lite Micro, and `tests/tflite/test_arena.py` with LiteRT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from advisor.tflite._values import Model, Operator, Subgraph

ALIGNMENT = 64
"""The runtime's alignment of tensors (``kDefaultTensorAlignment`` in TensorFlow Lite's util.h)."""

_SCALAR_BYTES = 4  # tensors of at most this size do not share a block

_IN_PLACE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), (0, 1)),
        **dict.fromkeys(
            ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST", "SOFTMAX", "DYNAMIC_UPDATE_SLICE"),
            (0,),
        ),
    }
)
"""Inputs whose block an operator's first output may reuse.

These are the flags ``inplace_operator`` of the kernels.
"""

_MOVES_NOTHING = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"})
"""Operators whose output has the bytes of their input, so that other readers lose nothing."""

_POINTER_BYTES = 8

MICRO_ALIGNMENT = 16
"""TFLM's alignment of buffers (``MicroArenaBufferAlignment``)."""

FIXED_BYTES = 704
"""The allocators, the planner, and the tensors and quantization of one input and one output."""

TENSOR_BYTES = 24
OPERATOR_BYTES = 64
"""``TfLiteEvalTensor`` and ``NodeAndRegistration`` with pointers of 64 bits.

A controller of 32 bits needs half.
"""

_OPERATOR_DATA_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), 108),
        "TRANSPOSE_CONV": 128,
        "FULLY_CONNECTED": 112,
        **dict.fromkeys(("ADD", "SUB", "AVERAGE_POOL_2D", "MAX_POOL_2D", "MEAN", "SUM"), 72),
        **dict.fromkeys(("CONCATENATION", "SOFTMAX"), 84),
        **dict.fromkeys(
            ("RELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE", "LEAKY_RELU", "PRELU"), 32
        ),
        **dict.fromkeys(("RELU6", "LOGISTIC", "TANH"), 16),
        "MUL": 56,
        "PAD": 64,
        **dict.fromkeys(("RESHAPE", "PACK"), 40),
        "STRIDED_SLICE": 120,
        "ELU": 256,
        **dict.fromkeys(("SPLIT", "TRANSPOSE", "EXPAND_DIMS", "MAXIMUM", "MINIMUM"), 0),
        **dict.fromkeys(("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"), 0),
    }
)
"""Bytes that the interpreter keeps for an operator: its options, and the data of its kernel. Each
is the difference between files with four and two such operators in the reference kernels of TFLM
0.dev20261023182759.
"""

_OTHER_DATA_BYTES = 64

_BY_CHANNEL = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"})
"""Operators that keep a multiplier and a shift for each channel."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A block of memory, needed from operator ``first`` to operator ``last``, both included."""

    size_bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Return whether both are needed at the same time."""
        return self.first <= other.last and other.first <= self.last


def activation_arena_bytes(model: Model) -> int:
    """Return the bytes of the arena that LiteRT plans for the main graph's activations.

    The plan is that of TensorFlow Lite's ``ArenaPlanner``: inputs, outputs and variables keep
    their place for the whole run, an operator that can work in place shares one block between an
    input that nothing else reads and its output, and blocks are placed greedily by size. Left out,
    because a model file does not tell it: the kernels' own scratch memory. Constants that are
    expanded when the model loads (float16) are weights, not activations, and left out too.
    """
    return plan_arena(list_lifetimes(model.subgraphs[0]))


def list_lifetimes(graph: Subgraph) -> tuple[Lifetime, ...]:
    """Return the lifetimes of a graph's activations, with sizes rounded up to ``ALIGNMENT``."""
    end = len(graph.operators)
    variables = []
    constants = set(graph.expanded)
    for index, tensor in enumerate(graph.tensors):
        if tensor.is_variable:
            variables.append(index)
        if tensor.is_constant:
            constants.add(index)
    owners = _find_block_owners(graph, constants.union(graph.inputs, variables))
    first: dict[int, int] = dict.fromkeys((*graph.inputs, *variables), 0)
    last: dict[int, int] = {}
    for step, operator in enumerate(graph.operators):
        for index in operator.outputs:
            first.setdefault(owners.get(index, index), step)
        for index in operator.inputs:
            last[owners.get(index, index)] = step
    # The caller reads and writes these outside of a run, so nothing else may have their place.
    for index in (*graph.inputs, *variables, *graph.outputs):
        last[owners.get(index, index)] = end
    lifetimes = []
    for index in sorted(first):
        if index not in constants:
            size_bytes = _round_up(graph.tensors[index].size_bytes, ALIGNMENT)
            lifetimes.append(Lifetime(size_bytes, first[index], last.get(index, end)))
    return tuple(lifetimes)


def _find_block_owners(graph: Subgraph, fixed: set[int]) -> dict[int, int]:
    """Return the tensor whose block each tensor reuses, for those that reuse one.

    Blocks of ``fixed`` tensors are not shared.
    """
    read_tensors = list[int]()
    for operator in graph.operators:
        read_tensors += operator.inputs
    uses = Counter(read_tensors)
    uses.update((*graph.inputs, *graph.outputs))
    owners: dict[int, int] = {}
    for operator in graph.operators:
        for place in _IN_PLACE.get(operator.name, ()):
            # Outputs of the graph keep a block to the end, so they share none.
            if (
                place >= len(operator.inputs)
                or not operator.outputs
                or operator.outputs[0] in graph.outputs
            ):
                continue
            index = operator.inputs[place]
            stays = operator.name in _MOVES_NOTHING
            size = graph.tensors[index].size_bytes
            output = graph.tensors[operator.outputs[0]].size_bytes
            # A small tensor gains nothing by sharing,
            # and a second reader would find the output in its place.
            may_share = size == output and (stays or (size > _SCALAR_BYTES and uses[index] <= 1))
            if index >= 0 and index not in fixed and may_share:
                owner = owners.get(index, index)
                if stays or uses[owner] <= 1:
                    owners[operator.outputs[0]] = owner
                break
    return owners


def _round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def plan_arena(blocks: Collection[Lifetime]) -> int:
    """Place ``blocks`` greedily and return the size of the whole.

    Blocks needed all the time go first, then the largest first; each goes into the smallest gap
    that holds it. "Greedy by size for offset calculation" of Pisarchyk and Lee, "Efficient Memory
    Management for Deep Neural Net Inference", 2020 (arXiv:2001.03288), which TensorFlow Lite uses.
    """
    end = max((block.last for block in blocks), default=0)
    # As ArenaPlanner does: what is needed throughout lies at the start and leaves no gaps behind.
    whole = [block for block in blocks if (block.first, block.last) == (0, end)]
    part = [block for block in blocks if (block.first, block.last) != (0, end)]
    by_size = sorted(part, key=lambda block: (-block.size_bytes, block.first))
    return _place_blocks([*whole, *by_size], first_gap=False)


def _place_blocks(blocks: Iterable[Lifetime], first_gap: bool) -> int:
    """Place blocks in their order and return the size of the whole.

    Each goes into the first or the smallest gap between the blocks of its time that holds it,
    or behind them.
    """
    placed: list[tuple[int, Lifetime]] = []
    for block in blocks:
        neighbours = sorted(
            (start, start + other.size_bytes) for start, other in placed if block.overlaps(other)
        )
        gaps = list[tuple[int, int]]()
        end = 0
        for start, stop in neighbours:
            if start - end >= block.size_bytes:
                # Gaps of one size compare by their start, so size 0 for all selects the first.
                gaps.append((0 if first_gap else start - end, end))
            end = max(end, stop)
        _, offset = min(gaps, default=(0, end))
        placed.append((offset, block))
    return max((offset + block.size_bytes for offset, block in placed), default=0)


def indirection_bytes(graph: Subgraph) -> int:
    """Return the bytes of the CPU kernels' indirection buffers.

    They hold a pointer for each pixel under a window: Dukhan, "The Indirect Convolution
    Algorithm", 2019 (arXiv:1907.02129). A pointwise convolution has none. Depthwise windows in one
    row share the pixels that they overlap in.
    """
    pointers = 0
    for operator in graph.operators:
        if operator.name not in ("CONV_2D", "DEPTHWISE_CONV_2D") or len(operator.inputs) < 2:
            continue
        shapes = []
        for index in (*operator.inputs[:2], operator.outputs[0]):
            shapes.append(graph.tensors[index].shape)
        if any(len(shape) != 4 for shape in shapes):
            continue
        (_, source, _, _), (_, height, width, _), (_, rows, columns, _) = shapes
        stride = round(source / max(rows, 1))
        if operator.name == "DEPTHWISE_CONV_2D":
            pointers += rows * height * (width + (columns - 1) * min(stride, width))
        # A pointwise convolution with stride 1 reads the map as it lies.
        elif height * width * stride > 1:
            pointers += rows * columns * height * width
    return pointers * _POINTER_BYTES


@dataclass(frozen=True, slots=True)
class MicroArena:
    """The parts of a tensor arena, in bytes.

    Activations share what the planner gives them. The interpreter keeps the persistent part:
    tensors, operators, multipliers by channel. It needs ``setup`` besides that for a moment,
    before activations are placed.
    """

    activations: int
    persistent: int
    setup: int

    @property
    def total(self) -> int:
        """The whole arena."""
        return self.persistent + max(self.activations, self.setup)


def micro_arena(model: Model) -> MicroArena:
    """Return the arena of the main graph in TFLM's reference kernels, with 64-bit pointers."""
    graph = model.subgraphs[0]
    persistent = sum(
        _OPERATOR_DATA_BYTES.get(operator.name, _OTHER_DATA_BYTES) for operator in graph.operators
    )
    by_channel = []
    for operator in graph.operators:
        if operator.name in _BY_CHANNEL:
            by_channel.append(_count_scales(graph, operator, 1))
    persistent += sum(2 * _round_up(4 * channels, MICRO_ALIGNMENT) for channels in by_channel)
    structs = TENSOR_BYTES * len(graph.tensors) + OPERATOR_BYTES * len(graph.operators)
    blocks = _list_micro_lifetimes(graph)
    planning = 280 + 32 * len(graph.tensors) + 40 * len(blocks)
    preparing = max((_setup_bytes(graph, operator) for operator in graph.operators), default=0)
    # As TFLM's GreedyMemoryPlanner does: the largest goes first, of equal ones the last.
    by_size = sorted(blocks, key=lambda block: block.size_bytes)
    activations = _place_blocks(reversed(by_size), first_gap=True)
    return MicroArena(activations, FIXED_BYTES + structs + persistent, max(planning, preparing))


def _setup_bytes(graph: Subgraph, operator: Operator) -> int:
    """Return what the kernel needs while it reads its tensors' scales;
    a convolution reads its weights' twice.
    """
    if operator.name not in _BY_CHANNEL:
        return 0
    weights = _count_scales(graph, operator, 1)
    bias = _count_scales(graph, operator, 2)
    if operator.name != "FULLY_CONNECTED":
        return 628 + 4 * (2 * weights + bias)
    return 240 + 4 * weights + (136 + 4 * bias if bias else 0)


def _count_scales(graph: Subgraph, operator: Operator, place: int) -> int:
    """Return the number of scales of one of the operator's inputs; 0 if it has no such input."""
    if place >= len(operator.inputs) or operator.inputs[place] < 0:
        return 0
    quantization = graph.tensors[operator.inputs[place]].quantization
    return len(quantization.scales) if quantization else 0


def _list_micro_lifetimes(graph: Subgraph) -> list[Lifetime]:
    """Return the lifetimes of the activations in the order of the tensors.

    Unlike LiteRT, TFLM lets others use the memory of the input once it was read,
    and no operator works in place.
    """
    first: dict[int, int] = dict.fromkeys(graph.inputs, 0)
    last = dict(first)
    for step, operator in enumerate(graph.operators, 1):
        first.update(dict.fromkeys(operator.outputs, step))
        last.update(dict.fromkeys((*operator.inputs, *operator.outputs), step))
    last.update(dict.fromkeys(graph.outputs, len(graph.operators)))
    lifetimes = []
    for index, tensor in enumerate(graph.tensors):
        if index in first and not tensor.is_constant and not tensor.is_variable:
            size_bytes = _round_up(tensor.size_bytes, MICRO_ALIGNMENT)
            lifetimes.append(Lifetime(size_bytes, first[index], last[index]))
    return lifetimes
