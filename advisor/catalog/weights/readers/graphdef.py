"""Read the constants of TensorFlow's frozen ``GraphDef`` (graph.proto), without TensorFlow."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.arrays import Array, Tensors
from advisor.catalog.weights.readers.wire import fields, part, signed, text

# types.proto's DataType of the constants that weights are made of.
_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("<f8"),
    3: np.dtype("<i4"),
    9: np.dtype("<i8"),
    19: np.dtype("<f2"),
}
_NODE = 1
_NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 5
_ATTRIBUTE_TENSOR = 8
_TENSOR_TYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = 1, 2, 4


def read(path: Path) -> Tensors:
    """Return constants by the name of their node, in TensorFlow's layout, without scalars and other types."""
    tensors: Tensors = {}
    for number, value in fields(memoryview(path.read_bytes())):
        if number == _NODE:
            name, tensor = _constant(part(value))
            if tensor is not None:
                tensors[name] = tensor
    return tensors


def _constant(node: memoryview) -> tuple[str, Array | None]:
    name = operator = ""
    attributes: dict[str, memoryview] = {}
    for number, value in fields(node):
        if number == _NODE_NAME:
            name = text(value)
        elif number == _NODE_OP:
            operator = text(value)
        elif number == _NODE_ATTRIBUTE:
            entry = dict(fields(part(value)))
            attributes[text(entry[1])] = part(entry[2])
    if operator != "Const" or "value" not in attributes:
        return name, None
    attribute = dict(fields(attributes["value"]))
    return name, _tensor(part(attribute[_ATTRIBUTE_TENSOR])) if _ATTRIBUTE_TENSOR in attribute else None


def _tensor(message: memoryview) -> Array | None:
    values = dict(fields(message))
    dtype = _TYPES.get(int(str(values.get(_TENSOR_TYPE, 0))))
    content = values.get(_TENSOR_CONTENT)
    if dtype is None or content is None:
        return None  # small constants are written value by value; no weight of a network is
    shape = _shape(part(values[_TENSOR_SHAPE])) if _TENSOR_SHAPE in values else []
    data = np.frombuffer(part(content), dtype)
    if prod(shape) != data.size:
        raise ValueError(f"a constant of shape {shape} with {data.size} values")
    return data.reshape(shape)


def _shape(message: memoryview) -> list[int]:
    sizes = []
    for number, value in fields(message):
        if number == 2:
            size = dict(fields(part(value))).get(1, 0)
            sizes.append(signed(int(str(size))))
    return sizes
