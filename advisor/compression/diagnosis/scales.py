"""Find channels that equalization multiplied; it changes tensors but not the answer.

An output channel is multiplied by s and its readers are divided by s, so that weak channels use the range. Compared
with the float file, such a layer would look like noise. The kernels show the factors: a kernel of the quantized file is
that of the float file, times s of its outputs, over s of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.compression.diagnosis.kernels import bias, kernel, values_of
from advisor.compression.diagnosis.pairs import Pair
from advisor.tflite.model import Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Factors = NDArray[np.float64]

RESIDUE = 0.05
"""Largest share of the power that a factor may leave unexplained."""

CHANGED, CHANGED_SHARE = 0.1, 0.2
"""A tensor counts as equalized if ``CHANGED_SHARE`` of its channels changed by more than ``CHANGED``."""

NOTHING = 1e-6
"""Power of a channel's weights over the median channel's; below it only its bias counts."""

_PASSING = frozenset({"ADD", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "RELU", "RELU6", "RESHAPE"})


def factors(quantized: Model, reference: Model, found: Sequence[Pair]) -> dict[int, Factors]:
    """Return the factors of the channels of the float file's equalized tensors."""
    known: dict[int, Factors] = {}
    for pair in found:
        operator = reference.operators[pair.reference]
        if operator.name in _PASSING:
            factor = next((known[index] for index in operator.inputs if index in known), None)
        else:
            source = known.get(operator.inputs[0]) if operator.inputs else None
            factor = _made(quantized, reference, pair, source)
        if factor is not None:
            known[pair.reference_output] = factor
    return known


def _made(quantized: Model, reference: Model, pair: Pair, source: Factors | None) -> Factors | None:
    """Return the factors of a layer's output; None if it has no kernel or was not equalized."""
    ours, theirs = values_of(kernel(quantized, pair.quantized)), values_of(kernel(reference, pair.reference))
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return None
    depthwise = reference.operators[pair.reference].name == "DEPTHWISE_CONV_2D"
    if source is not None and source.shape[0] == theirs.shape[-1]:
        theirs = theirs / source
    biases = values_of(bias(quantized, pair.quantized)), values_of(bias(reference, pair.reference))
    return fitted(theirs, ours, theirs.ndim - 1 if depthwise else 0, *biases)


def fitted(
    floats: Factors, stored: Factors, axis: int, bias: Factors | None = None, float_bias: Factors | None = None
) -> Factors | None:
    """Return the factor of each output channel of a kernel; None if the kernel was not equalized.

    For channels with weights near zero the biases give the factor. Channels that are no multiple have the factor 1.

    Args:
        floats: the float kernel, its inputs as they were scaled.
        stored: the quantized file's kernel.
        axis: of the output channels.
        bias: the quantized file's.
        float_bias: the float file's.
    """
    import numpy as np

    first, second = (np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1) for values in (floats, stored))
    power = np.maximum((first**2).sum(axis=1), 1e-30)
    factor = (first * second).sum(axis=1) / power
    residue = ((second - factor[:, None] * first) ** 2).sum(axis=1)
    good = (factor > 0) & (residue <= RESIDUE * factor**2 * power)
    factor = np.where(good, factor, 1.0)
    if bias is not None and float_bias is not None and bias.shape == float_bias.shape == factor.shape:
        by_bias = (power < NOTHING * np.median(power)) & (float_bias * bias > 0)
        factor = np.where(by_bias, bias / np.where(by_bias, float_bias, 1.0), factor)
        good |= by_bias
    changed = np.abs(factor - 1) > CHANGED
    return factor if changed.sum() >= CHANGED_SHARE * max(1, good.sum()) else None
