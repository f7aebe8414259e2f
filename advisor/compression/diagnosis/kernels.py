"""Examine a layer's weights: how they are stored, the widest channel, and biases that are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def kernel(model: Model, index: int) -> Tensor | None:
    """Return an operator's kernel as stored in the file, before an operator that expands it; None if it has none."""
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 2:
        return None
    place = operator.inputs[1]
    if not model.tensors[place].is_constant:
        place = next((one.inputs[0] for one in model.operators if place in one.outputs and one.inputs), place)
    tensor = model.tensors[place]
    return tensor if tensor.is_constant else None


def bias(model: Model, index: int) -> Tensor | None:
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
    """Return the output channel of a float operator's kernel with the greatest weight, against the median channel."""
    import numpy as np

    found = kernel(reference, index)
    if found is None or found.dtype != "float32":
        return None
    values = np.frombuffer(found.buffer, dtype="<f4").reshape(found.shape)
    axis = _AXES[reference.operators[index].name] % values.ndim
    return widest(np.abs(values).max(axis=tuple(other for other in range(values.ndim) if other != axis)))


def has_scale_a_channel(ours: Tensor | None) -> bool | None:
    """Return whether a kernel has one scale for each channel; None if it is not stored in integers."""
    if ours is None or ours.dtype not in _INTEGERS or ours.quantization is None:
        return None
    return len(ours.quantization.scales) > 1


def storage(ours: Tensor | None, theirs: Tensor | None) -> tuple[str, float, int | None]:
    """Return how a kernel is stored; zeros and values are counted if it is stored in floats.

    Args:
        ours: the kernel of the quantized file.
        theirs: that of the float file.

    Returns:
        the type, empty if there is no kernel; the share of its weights that are 0 and were not; how many values stand
        for all weights but the zeros, where each stands for several, else None.
    """
    import numpy as np

    stored = ours.dtype if ours else ""
    values, floats = values_of(ours), values_of(theirs)
    if stored not in _FLOATS or values is None or floats is None or values.shape != floats.shape:
        return stored, 0.0, None
    weights = values[values != 0]
    count = len(np.unique(weights))
    few = count if count <= _FEW_VALUES and weights.size > _MANY * count else None
    return stored, float(((values == 0) & (floats != 0)).mean()), few


def lost_biases(ours: Tensor | None, theirs: Tensor | None) -> tuple[int, ...]:
    """Return the output channels whose float bias is more than 2^31 steps of the quantized file's bias.

    The step of a bias is (input step x weight step), which is too small if the channel's weights are near zero.
    """
    import numpy as np

    if ours is None or theirs is None or theirs.dtype != "float32" or ours.quantization is None:
        return ()
    steps, values = np.asarray(ours.quantization.scales), np.frombuffer(theirs.buffer, dtype="<f4")
    if len(steps) not in (1, len(values)):
        return ()
    return tuple(int(channel) for channel in np.flatnonzero(np.abs(values) > _BIAS_STEPS * np.abs(steps)))
