"""Examine a layer's kernel: the channel with the widest weights, and whether scales are per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.compression.diagnosis.pairs import Pair
from advisor.compression.diagnosis.signals import widest
from advisor.compression.diagnosis.values import Outlier
from advisor.tflite.model import Model, Tensor
from advisor.tflite.values import real_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AXES = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
"""Axis of a kernel's output channels."""

_BIAS_STEPS = 2.0**31

_FLOATS = frozenset({"float32", "float16"})

_FEW_VALUES = 1024
"""A kernel with at most so many different values was clustered, or rounded to common steps."""

_MANY = 4
"""Such a kernel has at least so many weights for each value."""

_INTEGERS = frozenset({"int8", "uint8", "int4", "int2", "int16"})


def widest_kernel(reference: Model, index: int) -> Outlier | None:
    """Return the output channel of a float operator's kernel with the greatest weight, against the median channel."""
    found = _kernel(reference, index)
    if found is None or found.dtype != "float32":
        return None
    return widest(_channel_sizes(found, _AXES[reference.operators[index].name]))


def kernel_values(model: Model, index: int) -> NDArray[np.float64] | None:
    """Return the real values of an operator's kernel; None if it has none, or one of 4 bits."""
    found = _kernel(model, index)
    return None if found is None else real_values(found)


def bias_values(model: Model, index: int) -> NDArray[np.float64] | None:
    """Return the real values of an operator's bias; None if it has none."""
    found = _bias(model, index)
    return None if found is None else real_values(found)


def has_scale_a_channel(quantized: Model, index: int) -> bool | None:
    """Return whether an operator's kernel has one scale for each channel; None if it is not stored in integers."""
    found = _kernel(quantized, index)
    if found is None or found.dtype not in _INTEGERS or found.quantization is None:
        return None
    return len(found.quantization.scales) > 1


@dataclass(frozen=True)
class Kept:
    """How a float kernel is stored.

    Attributes:
        stored: the type that it is stored as; empty if there is none.
        zeros: part of its weights that are 0 and were not, 0-1.
        few: how many values stand for all weights but the zeros, where each stands for several; else None.
    """

    stored: str = ""
    zeros: float = 0.0
    few: int | None = None


def kept(quantized: Model, reference: Model, pair: Pair) -> Kept:
    """Return how an operator's kernel is stored; zeros and values are counted if it is stored in floats."""
    import numpy as np

    found = _kernel(quantized, pair.quantized)
    if found is None or found.dtype not in _FLOATS:
        return Kept(found.dtype if found else "")
    ours, theirs = real_values(found), kernel_values(reference, pair.reference)
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return Kept(found.dtype)
    weights = ours[ours != 0]
    count = len(np.unique(weights))
    few = count if count <= _FEW_VALUES and weights.size > _MANY * count else None
    return Kept(found.dtype, float(((ours == 0) & (theirs != 0)).mean()), few)


def lost_biases(quantized: Model, reference: Model, pair: Pair) -> tuple[int, ...]:
    """Return the output channels whose float bias is more than 2^31 steps of the quantized file's bias.

    The step of a bias is (input step x weight step), which is too small if the channel's weights are near zero.
    """
    import numpy as np

    ours, theirs = _bias(quantized, pair.quantized), _bias(reference, pair.reference)
    if ours is None or theirs is None or theirs.dtype != "float32" or ours.quantization is None:
        return ()
    steps, values = np.asarray(ours.quantization.scales), np.frombuffer(theirs.buffer, dtype="<f4")
    if len(steps) not in (1, len(values)):
        return ()
    return tuple(int(channel) for channel in np.flatnonzero(np.abs(values) > _BIAS_STEPS * np.abs(steps)))


def _bias(model: Model, index: int) -> Tensor | None:
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    tensor = model.tensors[operator.inputs[2]]
    return tensor if tensor.is_constant else None


def _kernel(model: Model, index: int) -> Tensor | None:
    """Return the kernel as stored in the file, before an operator that expands it."""
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 2:
        return None
    place = operator.inputs[1]
    if not model.tensors[place].is_constant:
        place = next((one.inputs[0] for one in model.operators if place in one.outputs and one.inputs), place)
    tensor = model.tensors[place]
    return tensor if tensor.is_constant else None


def _channel_sizes(kernel: Tensor, axis: int) -> NDArray[np.float32]:
    import numpy as np

    values = np.frombuffer(kernel.buffer, dtype="<f4").reshape(kernel.shape)
    others = tuple(other for other in range(values.ndim) if other != axis % values.ndim)
    sizes: NDArray[np.float32] = np.abs(values).max(axis=others)
    return sizes
