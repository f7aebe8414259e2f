"""Quantize values as a runtime describes a tensor, and convert them back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def quantize(values: NDArray[np.float32], detail: dict[str, Any]) -> NDArray[Any]:
    """Return ``values`` in the type of a tensor, quantized with its scale and zero point if it is an integer type."""
    kind = np.dtype(detail["dtype"])
    scale, zero_point = detail["quantization"]
    if kind.kind not in "iu":
        return values.astype(kind)
    span = np.iinfo(kind)
    steps = np.rint(values / scale) + zero_point if scale else np.rint(values)
    return np.clip(steps, span.min, span.max).astype(kind)


def dequantize(values: NDArray[Any], detail: dict[str, Any]) -> NDArray[np.float32]:
    """Return a tensor's values as float32."""
    scale, zero_point = detail["quantization"]
    if values.dtype.kind not in "iu" or not scale:
        return values.astype(np.float32)
    return ((values.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)).astype(np.float32)
