"""Read the initializers of ONNX models (onnx.proto: ModelProto.graph.initializer), without ONNX."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.arrays import Array, Tensors
from advisor.catalog.weights.readers import MAX_VALUES
from advisor.catalog.weights.readers.wire import fields, part, signed, text, varints

_GRAPH = 7
_INITIALIZER = 5
_DIMENSIONS, _TYPE, _FLOATS, _NAME, _RAW, _DOUBLES, _LOCATION = 1, 2, 4, 8, 9, 10, 14
_FLOAT, _DOUBLE = 1, 11
# TensorProto.DataType of the values that weights are made of; the rest (shapes, axes) is passed over.
_TYPES: dict[int, np.dtype[Any]] = {_FLOAT: np.dtype("<f4"), 10: np.dtype("<f2"), _DOUBLE: np.dtype("<f8")}
# The field that holds a type's values one by one, where they are not written as raw bytes.
_TYPED = {_FLOAT: _FLOATS, _DOUBLE: _DOUBLES}


def read(path: Path) -> Tensors:
    """Return initializers of real numbers by name, in ONNX' layout (kernels output-first).

    Raises:
        ValueError: values kept in another file, of another count than the shape has, or a message that is damaged.
    """
    tensors: Tensors = {}
    for number, graph in fields(memoryview(path.read_bytes())):
        if number == _GRAPH:
            for entry, value in fields(part(graph)):
                if entry == _INITIALIZER:
                    tensors |= _initializer(part(value))
    return tensors


def _initializer(message: memoryview) -> Tensors:
    name, kind, sizes = "", 0, []
    data: dict[int, list[memoryview]] = {_RAW: [], _FLOATS: [], _DOUBLES: []}
    for number, value in fields(message):
        if number == _NAME:
            name = text(value)
        elif number == _DIMENSIONS:
            sizes += [value] if isinstance(value, int) else varints(value)
        elif number == _TYPE and isinstance(value, int):
            kind = value
        elif number in data:
            data[number].append(part(value))
        elif number == _LOCATION and value != 0:
            raise ValueError(f"'{name}' keeps its values in another file")
    if kind not in _TYPES:
        return {}
    shape = [signed(size) for size in sizes]
    return {name: _array(name, kind, shape, b"".join(data[_RAW] or data.get(_TYPED.get(kind, _RAW), [])))}


def _array(name: str, kind: int, shape: list[int], values: bytes) -> Array:
    count = prod(shape)
    if min(shape, default=0) < 0 or count > MAX_VALUES or count * _TYPES[kind].itemsize != len(values):
        raise ValueError(f"'{name}' of shape {shape} has {len(values)} bytes")
    return np.frombuffer(values, _TYPES[kind]).reshape(shape)
