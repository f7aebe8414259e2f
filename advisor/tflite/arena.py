"""Compute the memory of a model's activations from their lifetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from advisor.tflite.values import Model, Operator, Subgraph

ALIGNMENT = 64
"""The runtime's alignment of tensors (``kDefaultTensorAlignment`` in TensorFlow Lite's util.h)."""

_SCALAR_BYTES = 4
"""Tensors of at most this size do not share a block."""

_IN_PLACE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), (0, 1)),
        **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST", "SOFTMAX", "DYNAMIC_UPDATE_SLICE"), (0,)),
    }
)
"""Inputs whose block an operator's first output may reuse (the kernels' ``inplace_operator`` flags)."""

_MOVES_NOTHING = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"})
"""Operators whose output has the same bytes as their input, so that other readers of the input are not disturbed."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A block of ``size_bytes`` that is needed from operator ``first`` to operator ``last``, both included."""

    size_bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Return whether both are needed at the same time."""
        return self.first <= other.last and other.first <= self.last


def activation_arena_bytes(model: Model) -> int:
    """Return the size of the arena that the runtime plans for the main graph's activations, in bytes.

    The plan is that of TensorFlow Lite's ``ArenaPlanner``: inputs, outputs and variables keep their place for the
    whole run, an operator that can work in place shares one block between an input that nothing else reads and its
    output, and blocks are placed greedily by size. Left out, because a model file does not tell it: the kernels' own
    scratch memory. Constants that are expanded when the model loads (float16) are weights, not activations, and left
    out too.
    """
    return plan(lifetimes(model.subgraphs[0]))


def lifetimes(graph: Subgraph) -> tuple[Lifetime, ...]:
    """Return the lifetimes of the graph's activation blocks, with sizes rounded up to ``ALIGNMENT``."""
    end = len(graph.operators)
    variables = [index for index, tensor in enumerate(graph.tensors) if tensor.is_variable]
    constants = _constants(graph)
    owners = _owners(graph, constants)
    first: dict[int, int] = dict.fromkeys((*graph.inputs, *variables), 0)
    last: dict[int, int] = {}
    for step, operator in enumerate(graph.operators):
        for index in operator.outputs:
            first.setdefault(owners.get(index, index), step)
        for index in operator.inputs:
            last[owners.get(index, index)] = step
    kept = (*graph.inputs, *variables, *graph.outputs)
    last.update(dict.fromkeys((owners.get(index, index) for index in kept), end))
    return tuple(
        Lifetime(-(-graph.tensors[index].size_bytes // ALIGNMENT) * ALIGNMENT, first[index], last.get(index, end))
        for index in sorted(first)
        if index not in constants
    )


def _owners(graph: Subgraph, constants: set[int]) -> dict[int, int]:
    """Return the owner of the block of each tensor that reuses another tensor's block."""
    uses = Counter(index for operator in graph.operators for index in operator.inputs)
    uses.update((*graph.inputs, *graph.outputs))
    fixed = constants.union(graph.inputs, (i for i, tensor in enumerate(graph.tensors) if tensor.is_variable))
    owners: dict[int, int] = {}
    for operator in graph.operators:
        for place in _IN_PLACE.get(operator.name, ()):
            if place >= len(operator.inputs) or not operator.outputs or operator.outputs[0] in graph.outputs:
                continue
            index = operator.inputs[place]
            if index >= 0 and index not in fixed and _can_share(graph, operator, index, uses):
                owner = owners.get(index, index)
                if operator.name in _MOVES_NOTHING or uses[owner] <= 1:
                    owners[operator.outputs[0]] = owner
                break
    return owners


def _can_share(graph: Subgraph, operator: Operator, index: int, uses: Counter[int]) -> bool:
    size, output = graph.tensors[index].size_bytes, graph.tensors[operator.outputs[0]].size_bytes
    if operator.name in _MOVES_NOTHING:
        return size == output
    return size == output and size > _SCALAR_BYTES and uses[index] <= 1


def _constants(graph: Subgraph) -> set[int]:
    """Return the tensors whose content does not depend on the input: stored ones and those expanded from them."""
    stored = {index for index, tensor in enumerate(graph.tensors) if tensor.is_constant}
    expanded = (
        operator.outputs
        for operator in graph.operators
        if operator.name == "DEQUANTIZE" and stored.issuperset(operator.inputs)
    )
    return stored.union(*expanded)


def plan(blocks: Iterable[Lifetime]) -> int:
    """Place ``blocks`` greedily and return the size of the whole.

    Blocks needed all the time go first, then the largest first; each goes into the smallest gap that holds it.
    "Greedy by size for offset calculation" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020 (arXiv:2001.03288), which TensorFlow Lite uses.
    """
    placed: list[tuple[int, Lifetime]] = []
    for block in _by_size(blocks):
        placed.append((_offset(block, placed), block))
    return max((offset + block.size_bytes for offset, block in placed), default=0)


def _by_size(blocks: Iterable[Lifetime]) -> list[Lifetime]:
    known = list(blocks)
    end = max((block.last for block in known), default=0)
    whole = [block for block in known if (block.first, block.last) == (0, end)]
    part = [block for block in known if (block.first, block.last) != (0, end)]
    return whole + sorted(part, key=lambda block: (-block.size_bytes, block.first))


def _offset(block: Lifetime, placed: Iterable[tuple[int, Lifetime]]) -> int:
    """Return the offset of ``block``: the smallest sufficient gap between overlapping blocks, or behind them."""
    neighbours = sorted((offset, offset + other.size_bytes) for offset, other in placed if block.overlaps(other))
    best, best_gap, end = None, 0, 0
    for start, stop in neighbours:
        gap = start - end
        if gap >= block.size_bytes and (best is None or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return end if best is None else best
