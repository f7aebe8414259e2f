"""Find the factors by which a quantized file's channels were multiplied (equalization).

`diagnose.py` multiplies the float file's values by them before it compares, because equalization
changes tensors but not the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.compression._diagnosis.kernels import find_bias, find_kernel, read_real_values
from advisor.compression._diagnosis.pairs import OperatorPair
from advisor.tflite import Model

Factors = NDArray[np.float64]

RESIDUE = 0.05
"""Largest share of the power that a factor may leave unexplained."""

CHANGED = 0.1
CHANGED_SHARE = 0.2
"""A tensor counts as equalized if as many channels changed by more than ``CHANGED`` as this share
of those whose factor is known.
"""

NOTHING = 1e-6
"""Power of a channel's weights over the median channel's; below it only its bias counts."""

_PASSING = frozenset(
    {"ADD", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "RELU", "RELU6", "RESHAPE"}
)


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
            factor = _first_factors(operator.inputs, known)
        else:
            source = None
            if operator.inputs:
                source = known.get(operator.inputs[0])
            factor = _find_factors_of_output(quantized, reference, pair, source)
        if factor is not None:
            known[pair.reference_output] = factor
    return known


def _first_factors(inputs: Sequence[int], known: Mapping[int, Factors]) -> Factors | None:
    """Return the factors of the first input that has some."""
    for index in inputs:
        if index in known:
            return known[index]
    return None


def _find_factors_of_output(
    quantized: Model, reference: Model, pair: OperatorPair, source: Factors | None
) -> Factors | None:
    """Return the factors of a layer's output; None if it has no kernel or was not equalized."""
    ours = read_real_values(find_kernel(quantized, pair.quantized))
    theirs = read_real_values(find_kernel(reference, pair.reference))
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return None
    depthwise = reference.operators[pair.reference].name == "DEPTHWISE_CONV_2D"
    if source is not None and source.shape[0] == theirs.shape[-1]:
        theirs = theirs / source
    bias = read_real_values(find_bias(quantized, pair.quantized))
    float_bias = read_real_values(find_bias(reference, pair.reference))
    output_axis = theirs.ndim - 1 if depthwise else 0
    return fit_factors(theirs, ours, output_axis, bias, float_bias)


def fit_factors(
    floats: Factors,
    stored: Factors,
    axis: int,
    bias: Factors | None = None,
    float_bias: Factors | None = None,
) -> Factors | None:
    """Return the factor of each output channel of a stored kernel over the float one.

    ``axis`` is that of the output channels. For channels with weights near zero the biases give
    the factor. Channels that are no multiple have the factor 1. None if not equalized.
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
