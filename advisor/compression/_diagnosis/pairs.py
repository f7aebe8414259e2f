"""Match the operators of the float file with those of the quantized one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from advisor.compression._diagnosis.result import Outlier, find_widest
from advisor.tflite import Model, Tensor, real_values

Factors = NDArray[np.float64]

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

_AXES = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
"""Axis of a kernel's output channels."""

_BIAS_STEPS = 2.0**31

_FLOATS = frozenset({"float32", "float16"})

_FEW_VALUES = 1024
"""A kernel with at most so many different values was clustered, or rounded to common steps."""

_MANY = 4
"""Such a kernel has at least so many weights for each value."""

_INTEGERS = frozenset({"int8", "uint8", "int4", "int2", "int16"})

RESIDUE = 0.05
"""Largest share of the power that a factor may leave unexplained."""

CHANGED = 0.1
CHANGED_SHARE = 0.2
"""A tensor counts as equalized if ``CHANGED_SHARE`` of its channels changed
by more than ``CHANGED``.
"""

NOTHING = 1e-6
"""Power of a channel's weights over the median channel's; below it only its bias counts."""

_PASSING = frozenset(
    {"ADD", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "RELU", "RELU6", "RESHAPE"}
)


@dataclass(frozen=True)
class OperatorPair:
    """The indices of one operator in both files, and its output tensors."""

    quantized: int
    reference: int
    output: int
    reference_output: int


def pair_operators(quantized: Model, reference: Model) -> tuple[OperatorPair, ...]:
    """Return the operators that both files have, matched by output names, else by kind and
    order.
    """
    ours = working_operators(quantized)
    theirs = working_operators(reference)
    by_output = _index_outputs(reference, theirs)
    partners = dict[int, int]()
    for key, index in _index_outputs(quantized, ours).items():
        other = by_output.get(key)
        if (
            other is not None
            and quantized.operators[index].name == reference.operators[other].name
        ):
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


def working_operators(model: Model) -> list[int]:
    """Return the indices of the operators that do more than change how values are stored."""
    operators = enumerate(model.operators)
    placed = []
    for index, operator in operators:
        if operator.name not in CONVERTING and operator.outputs:
            placed.append(index)
    return placed


def short_name(name: str) -> str:
    """Return a short name of a layer: ``block_3_depthwise`` of
    ``functional_1/block_3_depthwise_relu_1/Relu6;...``.

    The result is empty for a name that only says that it belongs to a model.
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


def kernel_of(model: Model, index: int) -> Tensor | None:
    """Return an operator's kernel as stored in the file, before an operator that expands it;
    None if it has none.
    """
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 2:
        return None
    stored = operator.inputs[1]
    if not model.tensors[stored].is_constant:
        producers = (operator for operator in model.operators if stored in operator.outputs)
        stored = next((producer.inputs[0] for producer in producers if producer.inputs), stored)
    tensor = model.tensors[stored]
    return tensor if tensor.is_constant else None


def bias_of(model: Model, index: int) -> Tensor | None:
    """Return an operator's bias; None if it has none."""
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    tensor = model.tensors[operator.inputs[2]]
    return tensor if tensor.is_constant else None


def values_of(constant: Tensor | None) -> NDArray[np.float64] | None:
    """Return the real values of a constant; None if there is none, or one of 4 bits."""
    return None if constant is None else real_values(constant)


def widest_kernel(reference: Model, index: int) -> Outlier | None:
    """Return the output channel of a float operator's kernel with the greatest weight,
    against the median channel.
    """
    kernel = kernel_of(reference, index)
    if kernel is None or kernel.dtype != "float32":
        return None
    values = np.frombuffer(kernel.buffer, dtype="<f4").reshape(kernel.shape)
    output_axis = _AXES[reference.operators[index].name] % values.ndim
    other_axes = tuple(axis for axis in range(values.ndim) if axis != output_axis)
    return find_widest(np.abs(values).max(axis=other_axes))


def has_scale_a_channel(ours: Tensor | None) -> bool | None:
    """Return whether a kernel has one scale for each channel;
    None if it is not stored in integers.
    """
    if ours is None or ours.dtype not in _INTEGERS or ours.quantization is None:
        return None
    return len(ours.quantization.scales) > 1


def describe_storage(ours: Tensor | None, theirs: Tensor | None) -> tuple[str, float, int | None]:
    """Return how a kernel is stored; zeros and values are counted if it is stored in floats.

    Returns:
        the type, empty if there is no kernel; the share of its weights that are 0 and were not;
        how many values stand for all weights but the zeros, where each stands for several, else
        None.
    """
    stored = ours.dtype if ours else ""
    values = values_of(ours)
    floats = values_of(theirs)
    if stored not in _FLOATS or values is None or floats is None or values.shape != floats.shape:
        return stored, 0.0, None
    # A weight that is 0 in the float file too was not taken out.
    zero_share = float(((values == 0) & (floats != 0)).mean())
    weights = values[values != 0]
    count = len(np.unique(weights))
    few = None
    if count <= _FEW_VALUES and weights.size > _MANY * count:
        few = count
    return stored, zero_share, few


def find_lost_biases(ours: Tensor | None, theirs: Tensor | None) -> tuple[int, ...]:
    """Return the output channels whose float bias is more than 2^31 steps
    of the quantized file's bias.

    The step of a bias is (input step x weight step),
    which is too small if the channel's weights are near zero.
    """
    if ours is None or theirs is None or theirs.dtype != "float32" or ours.quantization is None:
        return ()
    steps = np.asarray(ours.quantization.scales)
    values = np.frombuffer(theirs.buffer, dtype="<f4")
    if len(steps) not in (1, len(values)):
        return ()
    is_lost = np.abs(values) > _BIAS_STEPS * np.abs(steps)
    return tuple(np.flatnonzero(is_lost).tolist())


def find_factors(
    quantized: Model, reference: Model, operator_pairs: Sequence[OperatorPair]
) -> dict[int, Factors]:
    """Return the factors of the channels of the float file's equalized tensors, by tensor index.

    Equalization changes tensors but not the answer. An output channel is multiplied by s and its
    readers are divided by s, so that weak channels use the range. Compared with the float file,
    such a layer would look like noise. The kernels show the factors: a kernel of the quantized
    file is that of the float file, times s of its outputs, over s of its inputs.
    """
    known: dict[int, Factors] = {}
    for pair in operator_pairs:
        operator = reference.operators[pair.reference]
        # These operators take each channel by itself, so its factor passes through them.
        if operator.name in _PASSING:
            factor = next((known[index] for index in operator.inputs if index in known), None)
        else:
            source = None
            if operator.inputs:
                source = known.get(operator.inputs[0])
            factor = _find_factors_of_output(quantized, reference, pair, source)
        if factor is not None:
            known[pair.reference_output] = factor
    return known


def _find_factors_of_output(
    quantized: Model, reference: Model, pair: OperatorPair, source: Factors | None
) -> Factors | None:
    """Return the factors of a layer's output; None if it has no kernel or was not equalized."""
    ours = values_of(kernel_of(quantized, pair.quantized))
    theirs = values_of(kernel_of(reference, pair.reference))
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return None
    depthwise = reference.operators[pair.reference].name == "DEPTHWISE_CONV_2D"
    if source is not None and source.shape[0] == theirs.shape[-1]:
        theirs = theirs / source
    bias = values_of(bias_of(quantized, pair.quantized))
    float_bias = values_of(bias_of(reference, pair.reference))
    output_axis = theirs.ndim - 1 if depthwise else 0
    return fit_factors(theirs, ours, output_axis, bias, float_bias)


def fit_factors(
    floats: Factors,
    stored: Factors,
    axis: int,
    bias: Factors | None = None,
    float_bias: Factors | None = None,
) -> Factors | None:
    """Return the factor of each output channel (``axis``) of a stored kernel over the float one;
    None if not equalized.

    For channels with weights near zero the biases give the factor.
    Channels that are no multiple have the factor 1.
    """
    # A row of weights for each output channel.
    float_rows = np.moveaxis(floats, axis, 0).reshape(floats.shape[axis], -1)
    stored_rows = np.moveaxis(stored, axis, 0).reshape(stored.shape[axis], -1)
    power = np.maximum((float_rows**2).sum(axis=1), 1e-30)
    factor = (float_rows * stored_rows).sum(axis=1) / power
    residue = ((stored_rows - factor[:, None] * float_rows) ** 2).sum(axis=1)
    # Equalization multiplies by positive numbers; anything else is retraining or noise.
    good = (factor > 0) & (residue <= RESIDUE * factor**2 * power)
    factor = np.where(good, factor, 1.0)
    if (
        bias is not None
        and float_bias is not None
        and bias.shape == float_bias.shape == factor.shape
    ):
        by_bias = (power < NOTHING * np.median(power)) & (float_bias * bias > 0)
        # Other channels are divided by 1, as their bias may be 0.
        factor = np.where(by_bias, bias / np.where(by_bias, float_bias, 1.0), factor)
        good |= by_bias
    changed = np.abs(factor - 1) > CHANGED
    if changed.sum() >= CHANGED_SHARE * max(1, good.sum()):
        return factor
    return None
