"""Match the operators of the float file with those of the quantized one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from advisor.tflite.model import Model

CONVERTING = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that only change how values are stored."""

_WRAPPER = re.compile(r"^(functional|model|sequential|StatefulPartitionedCall|PartitionedCall)(_\d+)?(:\d+)?$")
_WORK = re.compile(
    r"^(add|mul|sub|batchnorm|batch_normalization|BiasAdd|Relu6?|Conv2D|convolution|depthwise|MatMul|Mean|Softmax|"
    r"FusedBatchNormV3|hard_swish)(_\d+)?(:\d+)?$",
    re.IGNORECASE,
)
"""Names that converters give to the operations inside a layer."""

_ENDINGS = re.compile(r"((_relu6?|_re_lu|_bn|_batchnorm)?(_\d+)?(:\d+)?)$", re.IGNORECASE)


@dataclass(frozen=True)
class OperatorPair:
    """The indices of one operator in both files, and its output tensors."""

    quantized: int
    reference: int
    output: int
    reference_output: int


def pairs(quantized: Model, reference: Model) -> tuple[OperatorPair, ...]:
    """Return the operators that both files have, matched by output names, else by kind and order."""
    ours, theirs = working_operators(quantized), working_operators(reference)
    found = _by_name(quantized, ours, reference, theirs)
    taken = set(found.values())
    left = [index for index in ours if index not in found]
    rest = [index for index in theirs if index not in taken]
    blocks = SequenceMatcher(None, _kinds(quantized, left), _kinds(reference, rest), autojunk=False)
    for first, second, size in blocks.get_matching_blocks():
        found.update(zip(left[first : first + size], rest[second : second + size], strict=True))
    return tuple(
        OperatorPair(
            index, found[index], quantized.operators[index].outputs[0], reference.operators[found[index]].outputs[0]
        )
        for index in ours
        if index in found
    )


def working_operators(model: Model) -> list[int]:
    """Return the indices of the operators that do more than change how values are stored."""
    return [index for index, one in enumerate(model.operators) if one.name not in CONVERTING and one.outputs]


def short_name(name: str) -> str:
    """Return a short name of a layer: ``block_3_depthwise`` of ``functional_1/block_3_depthwise_relu_1/Relu6;...``.

    The result is empty for a name that only says that it belongs to a model.
    """
    parts = [part for part in name.split(";")[0].split("/") if not _WRAPPER.match(part)]
    while len(parts) > 1 and _WORK.match(parts[-1]):
        parts.pop()
    short = "/".join(parts)
    return _ENDINGS.sub("", short, count=1) or short


def _by_name(quantized: Model, ours: Sequence[int], reference: Model, theirs: Sequence[int]) -> dict[int, int]:
    known = _outputs(reference, theirs)
    named = _outputs(quantized, ours)
    return {
        index: known[key]
        for key, index in named.items()
        if key in known and quantized.operators[index].name == reference.operators[known[key]].name
    }


def _outputs(model: Model, indices: Sequence[int]) -> dict[tuple[str, tuple[int, ...]], int]:
    """Return the operators by name and shape of their first outputs, if these are unique."""
    keys = {index: _key(model, index) for index in indices}
    counts = Counter(keys.values())
    return {key: index for index, key in keys.items() if counts[key] == 1 and key[0]}


def _key(model: Model, index: int) -> tuple[str, tuple[int, ...]]:
    tensor = model.tensors[model.operators[index].outputs[0]]
    return tensor.name, tensor.shape


def _kinds(model: Model, indices: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    return [(model.operators[index].name, _key(model, index)[1]) for index in indices]
