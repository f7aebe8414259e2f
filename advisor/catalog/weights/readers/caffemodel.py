"""Read Caffe's ``.caffemodel`` (caffe.proto: NetParameter.layer or .layers, each with BlobProtos), without Caffe."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from advisor.catalog.weights.arrays import Array, Tensors
from advisor.catalog.weights.readers.wire import fields, part, signed, text, varints

# (NetParameter's field, the layer's field of its name, of its blobs): the current message and the old V1 one.
_LAYERS = {100: (1, 7), 2: (4, 6)}
_OLD_DIMENSIONS = (1, 2, 3, 4)  # BlobProto.num, channels, height, width
_DATA, _SHAPE = 5, 7


def read(path: Path) -> Tensors:
    """Return blobs by ``<layer>/<index>``: 0 the kernel (output, input, height, width), 1 the bias."""
    tensors: Tensors = {}
    for number, value in fields(memoryview(path.read_bytes())):
        if number in _LAYERS and not isinstance(value, int):
            tensors |= _layer(value, *_LAYERS[number])
    return tensors


def _layer(message: memoryview, name_field: int, blob_field: int) -> Tensors:
    name, blobs = "", []
    for number, value in fields(message):
        if number == name_field:
            name = text(value)
        elif number == blob_field:
            blobs.append(_blob(part(value)))
    return {f"{name}/{index}": blob for index, blob in enumerate(blobs)}


def _blob(message: memoryview) -> Array:
    old: dict[int, int] = {}
    shape: list[int] = []
    data: list[Array] = []
    for number, value in fields(message):
        if number == _DATA:
            data.append(np.frombuffer(part(value), "<f4"))
        elif number == _SHAPE:
            shape = _dimensions(part(value))
        elif number in _OLD_DIMENSIONS and isinstance(value, int):
            old[number] = value
    dimensions = shape or [old.get(number, 1) for number in _OLD_DIMENSIONS]
    return np.concatenate(data).reshape([signed(size) for size in dimensions])


def _dimensions(message: memoryview) -> list[int]:
    sizes: list[int] = []
    for number, value in fields(message):
        if number == 1:
            sizes += [value] if isinstance(value, int) else varints(value)
    return sizes
