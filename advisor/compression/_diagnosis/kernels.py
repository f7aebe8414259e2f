"""Read how both files store an operator's kernel and bias, and what is lost there.

`diagnose.py` calls it for each pair of operators. Kernels are read as stored, before an operator
that expands them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.compression._diagnosis.figures import find_widest
from advisor.core import Outlier
from advisor.tflite import Model, Tensor

_AXES = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
"""Axis of a kernel's output channels."""

_BIAS_STEPS = 2.0**31

_FLOATS = frozenset({"float32", "float16"})

_FEW_VALUES = 1024
"""A kernel with at most so many different values was clustered, or rounded to common steps."""

_MANY = 4
"""Such a kernel has at least so many weights for each value."""

_INTEGERS = frozenset({"int8", "uint8", "int4", "int2", "int16"})


def find_kernel(model: Model, index: int) -> Tensor | None:
    """Return an operator's kernel as stored, before an operator that expands it; None for none."""
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 2:
        return None
    stored = operator.inputs[1]
    if not model.tensors[stored].is_constant:
        for producer in model.operators:
            if stored in producer.outputs and producer.inputs:
                stored = producer.inputs[0]
                break
    tensor = model.tensors[stored]
    return tensor if tensor.is_constant else None


def find_bias(model: Model, index: int) -> Tensor | None:
    """Return an operator's bias; None if it has none."""
    operator = model.operators[index]
    if operator.name not in _AXES or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    tensor = model.tensors[operator.inputs[2]]
    return tensor if tensor.is_constant else None


def read_real_values(constant: Tensor | None) -> NDArray[np.float64] | None:
    """Return the real values of a constant; None if there is none, or one of 4 bits."""
    return None if constant is None else constant.real_values()


def find_widest_kernel(reference: Model, index: int) -> Outlier | None:
    """Return the output channel of a float kernel with the greatest weight, against the median."""
    kernel = find_kernel(reference, index)
    if kernel is None or kernel.dtype != "float32":
        return None
    values = np.frombuffer(kernel.buffer, dtype="<f4").reshape(kernel.shape)
    output_axis = _AXES[reference.operators[index].name] % values.ndim
    other_axes = tuple(axis for axis in range(values.ndim) if axis != output_axis)
    return find_widest(np.abs(values).max(axis=other_axes))


def has_scale_a_channel(ours: Tensor | None) -> bool | None:
    """Return whether a kernel has a scale for each channel; None if it is not in integers."""
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
    values = read_real_values(ours)
    floats = read_real_values(theirs)
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
    """Return the output channels whose float bias exceeds 2^31 steps of the quantized bias.

    The step of a bias is (input step x weight step), which is too small if the channel's weights
    are near zero.
    """
    if ours is None or theirs is None or theirs.dtype != "float32" or ours.quantization is None:
        return ()
    steps = np.asarray(ours.quantization.scales)
    values = np.frombuffer(theirs.buffer, dtype="<f4")
    if len(steps) not in (1, len(values)):
        return ()
    is_lost = np.abs(values) > _BIAS_STEPS * np.abs(steps)
    return tuple(np.flatnonzero(is_lost).tolist())
