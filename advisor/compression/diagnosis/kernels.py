"""A layer's kernel: which channel has the widest weights, and whether each channel has a scale of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.compression.diagnosis.signals import widest
from advisor.compression.diagnosis.values import Outlier
from advisor.tflite.model import Model, Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AXES = {"CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0, "DEPTHWISE_CONV_2D": 3}
"""Axis of a kernel's output channels."""

_INTEGERS = frozenset({"int8", "uint8", "int4", "int2", "int16"})


def widest_kernel(reference: Model, index: int) -> Outlier | None:
    """Return the output channel of a float operator's kernel with the greatest weight, against the median channel."""
    found = _kernel(reference, index)
    if found is None or found.dtype != "float32":
        return None
    return widest(_channel_sizes(found, _AXES[reference.operators[index].name]))


def has_scale_a_channel(quantized: Model, index: int) -> bool | None:
    """Tell whether an operator's kernel has one scale a channel; None where it is not stored in integers."""
    found = _kernel(quantized, index)
    if found is None or found.dtype not in _INTEGERS or found.quantization is None:
        return None
    return len(found.quantization.scales) > 1


def _kernel(model: Model, index: int) -> Tensor | None:
    """Return the kernel as the file stores it, behind the operator that expands it where there is one."""
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
