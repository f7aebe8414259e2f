"""Read TensorFlow's checkpoints of both forms, without TensorFlow.

:func:`.read_tensors` calls :func:`read_checkpoint` for the format ``checkpoint``.

An index is a sorted table of LevelDB (google/leveldb doc/table_format.md): blocks of keys and
values, the keys with the beginning that they share with the one before left out. In the first form
the values are the tensors; in the second one (tensorflow/core/util/tensor_bundle) they say where
each tensor is in the files of data beside the index. TensorFlow compresses no block of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog._weights.readers import MAX_VALUES, Array, Tensors
from advisor.store import message_type

_OBJECTS = b"_CHECKPOINTABLE_OBJECT_GRAPH"
"""The entry that says which variable of its model each tensor is."""

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
# Bytes: of two places and the magic number; of the kind of compression and a checksum.
_FOOTER = 48
_TRAILER = 5
_CHECKSUM = 4  # Bytes after the lengths of strings

_SHAPE = {"Shape": ("2 dim Dimension*",), "Dimension": ("1 size int64",)}
# tensor_bundle.proto
_BUNDLE = {
    "Header": ("1 shards int32", "2 endianness int32"),
    "Entry": (
        "1 dtype int32",
        "2 shape Shape",
        "3 shard int32",
        "4 offset int64",
        "5 size int64",
        "7 slices Slice*",
    ),
    "Slice": (),
    **_SHAPE,
}
# saved_tensor_slice.proto, and what tensor.proto has of real numbers
_FIRST_FORM = {
    "Header": ("1 meta Meta",),
    "Meta": ("1 tensor About*",),
    "About": ("1 name string", "2 shape Shape", "3 dtype int32"),
    "Value": ("2 data Data",),
    "Data": ("1 name string", "2 slice Slice", "3 tensor Tensor"),
    "Slice": ("1 extent Extent*",),
    "Extent": ("1 start int64", "2 length int64"),
    "Tensor": ("5 floats float*", "6 doubles double*"),
    **_SHAPE,
}
# trackable_object_graph.proto
_OBJECT_GRAPH = {
    "Objects": ("1 nodes Node*",),
    "Node": ("2 attributes Attribute*",),
    "Attribute": ("2 full_name string", "3 key string"),
}
_TYPES = {1: "<f4", 2: "<f8", 19: "<f2"}
_BFLOAT16 = 14
_REAL = (1, 2)


def read_checkpoint(path: Path) -> Tensors:
    """Return variables by their names in the model, in its order.

    ``path`` is the ``.index`` file with the data beside it, as in a SavedModel's ``variables``
    folder, or a checkpoint of the first form, which is one file. Values that are not real numbers
    (seeds, counters) are left out.
    """
    table = dict(_read_entries(path.read_bytes()))
    if path.suffix == ".index":
        return _read_bundle(path, table)
    return _read_first_form(table)


def _read_bundle(path: Path, table: dict[bytes, bytes]) -> Tensors:
    header = message_type("Header", _BUNDLE).FromString(table.pop(b""))
    if header.endianness:
        raise ValueError("its numbers are big-endian")
    entry_type = message_type("Entry", _BUNDLE)
    entries = {key: entry_type.FromString(value) for key, value in table.items()}
    shards = header.shards
    data = []
    for shard in range(shards):
        file = path.with_suffix(f".data-{shard:05}-of-{shards:05}")
        # Mapped, not read: only some of the tensors of a large file are wanted.
        data.append(np.memmap(file, np.uint8, "r"))

    def content(entry: Any) -> bytes:
        shard = data[entry.shard]
        if not 0 <= entry.offset <= entry.offset + entry.size <= len(shard):
            raise ValueError("a tensor is outside the files")
        return bytes(shard[entry.offset : entry.offset + entry.size])

    keys = [(key.decode(), key) for key in sorted(entries)]
    if _OBJECTS in entries:
        keys = [*_list_variables(content(entries[_OBJECTS]))]
    tensors: Tensors = {}
    for name, key in keys:
        entry = entries.get(key)
        if entry is None or entry.dtype not in (*_TYPES, _BFLOAT16):
            continue
        if entry.slices:
            raise ValueError(f"'{name}' is stored in parts")
        values = _shape_values(name, _read_floats(content(entry), entry.dtype), entry.shape)
        # A model may list one variable in two of its parts: the file then has it twice.
        if name in tensors and not np.array_equal(tensors[name], values):
            raise ValueError(f"two variables are called '{name}'")
        tensors.setdefault(name, values)
    return tensors


def _list_variables(stored: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (name of the variable in its model, key in the file).

    ``stored`` is one string with its length before.
    """
    length, start = _read_varint(stored, 0)
    start += _CHECKSUM
    content = stored[start : start + length]
    for node in message_type("Objects", _OBJECT_GRAPH).FromString(content).nodes:
        for attribute in node.attributes:
            yield attribute.full_name or attribute.key, attribute.key.encode()


def _read_first_form(table: dict[bytes, bytes]) -> Tensors:
    header = message_type("Header", _FIRST_FORM).FromString(table.pop(b""))
    about = {tensor.name: tensor for tensor in header.meta.tensor}
    value_type = message_type("Value", _FIRST_FORM)
    tensors: Tensors = {}
    for stored in table.values():
        data = value_type.FromString(stored).data
        values = data.tensor.doubles or data.tensor.floats
        if about[data.name].dtype not in _REAL:
            continue
        if any(extent.length for extent in data.slice.extent):
            raise ValueError(f"'{data.name}' is stored in parts")
        tensors[data.name] = _shape_values(
            data.name, np.array(values, np.float32), about[data.name].shape
        )
    return {name: tensors[name] for name in sorted(tensors)}


def _read_floats(content: bytes, dtype: int) -> Array:
    # bfloat16 is the upper half of a float32.
    if dtype == _BFLOAT16:
        return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, _TYPES[dtype]).astype(np.float32)


def _shape_values(name: str, values: Array, shape: Any) -> Array:
    sides = [dimension.size for dimension in shape.dim]
    # The product first against a limit: a file may state any sizes.
    if min(sides, default=0) < 0 or prod(sides) > MAX_VALUES or prod(sides) != values.size:
        raise ValueError(f"'{name}' of shape {sides} has {values.size} values")
    return values.reshape(sides)


def _read_entries(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table."""
    if len(file) < _FOOTER or not file.endswith(_MAGIC):
        raise ValueError("it is no table of a checkpoint")
    footer = file[-_FOOTER:]
    place = 0
    # Two numbers: the place of a block about the file, which is not read.
    for _ in range(2):
        _, place = _read_varint(footer, place)
    for _, handle in _read_block(file, footer[place:]):
        yield from _read_block(file, handle)


def _read_block(file: bytes, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of the block at a place, which is two numbers: offset and size."""
    start, place = _read_varint(handle, 0)
    size, _ = _read_varint(handle, place)
    end = start + size
    if end + _TRAILER > len(file):
        raise ValueError("a block is outside the file")
    if file[end]:
        raise ValueError("a block is compressed")
    # At the end stand places for a binary search, of four bytes each, and their number.
    restarts = int.from_bytes(file[end - 4 : end], "little")
    end -= 4 * (restarts + 1)
    key = b""
    while start < end:
        shared, start = _read_varint(file, start)
        added, start = _read_varint(file, start)
        length, start = _read_varint(file, start)
        key = key[:shared] + file[start : start + added]
        start += added
        yield key, file[start : start + length]
        start += length


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it.

    It has seven bits to a byte, the lowest first.
    """
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        shift += 7
        if byte < 0x80:
            return value, place
