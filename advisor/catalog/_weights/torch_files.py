"""Read PyTorch checkpoints (``.pth``, ``.pt``) of both formats, without PyTorch.

:func:`.read_tensors` calls :func:`read_torch` for the format ``torch``. The newer format is a zip
archive. Both are pickles, and a pickle is a program. This reader lets it build nothing but
dictionaries, lists, numbers, strings and tensors: every other name in it is refused before
anything is called. Do not add a name to ``_KNOWN`` that can call code.
"""

import io
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from advisor.catalog._weights.readers import MAX_VALUES, Array, Tensors

# torch.serialization.MAGIC_NUMBER, the first object of the older form.
_MAGIC = 0x1950A86A20F9469CFC6C
_MAX_PICKLE_BYTES = 64 * 2**20
_MAX_MEMO = 10_000_000

# NumPy has no bfloat16: two bytes that are converted at the end.
_BFLOAT16 = "V2"
_STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": _BFLOAT16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}

_KNOWN: Mapping[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": lambda storage, offset, size, stride, *_: _Tensor(
        storage, int(offset), tuple(map(int, size)), tuple(map(int, stride))
    ),
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    **{f"torch.{name}": dtype for name, dtype in _STORAGES.items()},
}
"""Values that the names in a pickle stand for."""


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: str
    key: str
    count: int

    @property
    def size_bytes(self) -> int:
        return self.count * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def read_torch(path: Path) -> Tensors:
    """Return tensors by name (nested dictionaries joined by dots), in PyTorch's layout."""
    tensors, contents = _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
    arrays: Tensors = {}
    for name, tensor in tensors.items():
        arrays[name] = _make_array(tensor, contents[tensor.storage.key])
    return arrays


def _read_zip(path: Path) -> tuple[dict[str, _Tensor], dict[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"{len(pickles)} pickles in the archive, one is expected")
        if archive.getinfo(pickles[0]).file_size > _MAX_PICKLE_BYTES:
            raise ValueError("the pickle is larger than the names of any model")
        tensors = dict(_walk_tensors(_load_pickle(io.BytesIO(archive.read(pickles[0]))), ""))
        # Tensors may share a storage, so each is read once.
        contents: dict[str, bytes] = {}
        for storage in {tensor.storage for tensor in tensors.values()}:
            info = archive.getinfo(f"{pickles[0].removesuffix('data.pkl')}data/{storage.key}")
            if info.file_size != storage.size_bytes:
                raise ValueError(f"the storage {storage.key} has {info.file_size} bytes")
            contents[storage.key] = archive.read(info)
    return tensors, contents


def _read_legacy(path: Path) -> tuple[dict[str, _Tensor], dict[str, bytes]]:
    with path.open("rb") as file:
        if _load_pickle(file) != _MAGIC:
            raise ValueError("neither form of checkpoint")
        # The version of the protocol, and the sizes of the writer's C types.
        for _ in range(2):
            _load_pickle(file)
        tensors = dict(_walk_tensors(_load_pickle(file), ""))
        storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
        return tensors, {
            str(key): _read_storage(file, storages.get(str(key))) for key in _load_pickle(file)
        }


def _read_storage(file: IO[bytes], storage: _Storage | None) -> bytes:
    header = file.read(8)
    if len(header) != 8 or storage is None:
        raise ValueError("a storage is cut off, or belongs to no tensor")
    (count,) = struct.unpack("<q", header)
    if count != storage.count or count > MAX_VALUES:
        raise ValueError(f"a storage of {count} values where {storage.count} are expected")
    data = file.read(storage.size_bytes)
    if len(data) != storage.size_bytes:
        raise ValueError("a storage is cut off")
    return data


def _load_pickle(file: IO[bytes]) -> Any:
    start = file.tell()
    for opcode, argument, position in pickletools.genops(file):
        if (position or 0) - start > _MAX_PICKLE_BYTES:
            raise ValueError("the pickle is larger than the names of any model")
        # The unpickler makes room for the largest memo index at once, whatever it is.
        if "PUT" in opcode.name and isinstance(argument, int) and argument > _MAX_MEMO:
            raise ValueError("the pickle asks for an absurd amount of memory")
    file.seek(start)
    return _TensorUnpickler(file).load()


class _TensorUnpickler(pickle.Unpickler):
    """An unpickler that accepts tensors and rejects every other name."""

    def find_class(self, module: str, name: str) -> Any:
        known_class = _KNOWN.get(f"{module}.{name}")
        if known_class is not None:
            return known_class
        raise ValueError(
            f"the file asks for '{module}.{name}': only tensors are read, nothing is run"
        )

    def persistent_load(self, reference: Any) -> _Storage:
        marker, dtype, key, _, count = reference[:5]
        view = reference[5] if len(reference) > 5 else None
        known = marker == "storage" and dtype in _STORAGES.values()
        if not known or not isinstance(count, int) or view is not None:
            raise ValueError("a reference that is not a tensor's storage")
        return _Storage(dtype, str(key), count)


def _walk_tensors(content: Any, prefix: str) -> Iterator[tuple[str, _Tensor]]:
    if isinstance(content, _Tensor):
        yield prefix, content
    elif isinstance(content, dict):
        for key, value in content.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            yield from _walk_tensors(value, name)


def _make_array(tensor: _Tensor, data: bytes) -> Array:
    flat = np.frombuffer(data, tensor.storage.dtype)
    # bfloat16 is the upper half of a float32.
    if tensor.storage.dtype == _BFLOAT16:
        flat = (flat.view("<u2").astype(np.uint32) << 16).view(np.float32)
    least = min((*tensor.size, *tensor.stride, tensor.offset, 0))
    if len(tensor.size) != len(tensor.stride) or least < 0:
        raise ValueError("a tensor with an impossible shape")
    last = tensor.offset
    for size, step in zip(tensor.size, tensor.stride, strict=True):
        last += (size - 1) * step
    count = prod(tensor.size)
    if count > MAX_VALUES or (count and last >= flat.size):
        raise ValueError("a tensor that reaches past its storage")
    strides = [step * flat.itemsize for step in tensor.stride]
    # Checked above: strides of a foreign file could otherwise read any memory of the process.
    view = np.lib.stride_tricks.as_strided(
        flat[tensor.offset :], tensor.size, strides, writeable=False
    )
    return view.copy()
