"""Match the operators of a quantized file with those of its float file.

Converters rename and merge operators, so names are compared first, then kinds and shapes in their
order. `diagnose.py` compares the outputs of each pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from advisor.tflite import Model

CONVERTING = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that only change how values are stored."""

_WRAPPER = re.compile(
    r"^(functional|model|sequential|StatefulPartitionedCall|PartitionedCall)(_\d+)?(:\d+)?$"
)
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


def pair_operators(quantized: Model, reference: Model) -> tuple[OperatorPair, ...]:
    """Return the operators that both files have, by their outputs' names, else kind and order."""
    ours = list_working_operators(quantized)
    theirs = list_working_operators(reference)
    by_output = _index_outputs(reference, theirs)
    partners = dict[int, int]()
    for key, index in _index_outputs(quantized, ours).items():
        other = by_output.get(key)
        if other is None:
            continue
        if quantized.operators[index].name == reference.operators[other].name:
            partners[index] = other
    matched = set(partners.values())
    ours_left = [index for index in ours if index not in partners]
    theirs_left = [index for index in theirs if index not in matched]
    # What has no unique name is matched by the sequence of kinds and shapes,
    # as a diff matches lines.
    blocks = SequenceMatcher(
        None, _kinds_of(quantized, ours_left), _kinds_of(reference, theirs_left), autojunk=False
    )
    for first, second, size in blocks.get_matching_blocks():
        partners.update(
            zip(ours_left[first : first + size], theirs_left[second : second + size], strict=True)
        )
    operator_pairs = []
    for index in ours:
        if index in partners:
            output = quantized.operators[index].outputs[0]
            reference_output = reference.operators[partners[index]].outputs[0]
            operator_pairs.append(OperatorPair(index, partners[index], output, reference_output))
    return tuple(operator_pairs)


def list_working_operators(model: Model) -> list[int]:
    """Return the indices of the operators that do more than change how values are stored."""
    working = []
    for index, operator in enumerate(model.operators):
        if operator.name not in CONVERTING and operator.outputs:
            working.append(index)
    return working


def shorten_name(name: str) -> str:
    """Return a short name of a layer, given the name of its output.

    An example is ``block_3_depthwise`` of ``functional_1/block_3_depthwise_relu_1/Relu6;...``. The
    result is empty for a name that only says that it belongs to a model.
    """
    first_name = name.partition(";")[0]
    parts = []
    for part in first_name.split("/"):
        if not _WRAPPER.match(part):
            parts.append(part)
    while len(parts) > 1 and _WORK.match(parts[-1]):
        parts.pop()
    short = "/".join(parts)
    return _ENDINGS.sub("", short, count=1) or short


def _index_outputs(model: Model, indices: Sequence[int]) -> dict[tuple[str, tuple[int, ...]], int]:
    """Return the operators by name and shape of their first outputs, if these are unique."""
    keys = {index: _key_of(model, index) for index in indices}
    counts = Counter(keys.values())
    unique = {}
    for index, key in keys.items():
        if counts[key] == 1 and key[0]:
            unique[key] = index
    return unique


def _key_of(model: Model, index: int) -> tuple[str, tuple[int, ...]]:
    tensor = model.tensors[model.operators[index].outputs[0]]
    return tensor.name, tensor.shape


def _kinds_of(model: Model, indices: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    return [(model.operators[index].name, _key_of(model, index)[1]) for index in indices]
