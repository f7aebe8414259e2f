"""Read the constants of a ``.tflite``, with quantized ones converted to real values."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.arrays import Array, Tensors

# schema.fbs TensorType of the constants that weights are made of.
_TYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f2"),
    2: np.dtype("<i4"),
    3: np.dtype("u1"),
    9: np.dtype("i1"),
}
_IDENTIFIER = b"TFL3"


def read(path: Path) -> Tensors:
    """Return the constants of the first graph by name, as float32, in the runtime's layout (kernels output-first).

    A quantized value q stands for ``scale * (q - zero point)``, per tensor or per channel.

    Raises:
        ValueError: not a ``.tflite``, or a buffer that does not fit its tensor.
    """
    from ai_edge_litert.schema_py_generated import Model

    data = path.read_bytes()
    if data[4:8] != _IDENTIFIER:
        raise ValueError("its first bytes are not those of a .tflite")
    model: Any = Model.GetRootAs(data, 0)
    graph = model.Subgraphs(0)
    tensors: Tensors = {}
    for index in range(graph.TensorsLength()):
        tensor = graph.Tensors(index)
        values = _values(model, tensor)
        if values is not None:
            tensors[tensor.Name().decode()] = _dequantized(values, tensor.Quantization())
    return tensors


def _values(model: Any, tensor: Any) -> Array | None:
    if not 0 < tensor.Buffer() < model.BuffersLength() or tensor.Type() not in _TYPES:
        return None
    buffer = model.Buffers(tensor.Buffer())
    if buffer.DataLength() == 0:
        return None
    shape = [] if tensor.ShapeIsNone() else tensor.ShapeAsNumpy().tolist()
    values = np.frombuffer(buffer.DataAsNumpy().tobytes(), _TYPES[tensor.Type()])
    if prod(shape) != values.size:
        raise ValueError(f"{tensor.Name().decode()} of shape {shape} has {values.size} values")
    return values.reshape(shape)


def _dequantized(values: Array, quantization: Any) -> Array:
    if quantization is None or quantization.ScaleLength() == 0:
        return values.astype(np.float32)
    scale = quantization.ScaleAsNumpy().astype(np.float64)
    zero = np.zeros_like(scale)
    if quantization.ZeroPointLength():
        zero = quantization.ZeroPointAsNumpy().astype(np.float64)
    shape = [1] * values.ndim
    if scale.size > 1:
        shape[quantization.QuantizedDimension()] = scale.size
    return np.asarray(scale.reshape(shape) * (values - zero.reshape(shape)), dtype=np.float32)
