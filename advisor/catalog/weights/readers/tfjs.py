"""Read TensorFlow.js models: a ``model.json`` with a manifest, and shards in the same folder."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.arrays import Tensors
from advisor.catalog.weights.readers import MAX_VALUES

_TYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "int32": np.dtype("<i4"), "float16": np.dtype("<f2")}


def read(path: Path) -> Tensors:
    """Return tensors by name, in TensorFlow's layout; the shards are in the folder of ``path``.

    Raises:
        ValueError: a shard that is not beside the model, quantized shards, or sizes that do not fit.
    """
    tensors: Tensors = {}
    for group in json.loads(path.read_text(encoding="utf-8"))["weightsManifest"]:
        data = b"".join(_shard(path, name) for name in group["paths"])
        tensors |= _unpacked(data, group["weights"])
    return tensors


def _shard(path: Path, name: str) -> bytes:
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"the shard '{name}' is not beside the model")
    return (path.parent / name).read_bytes()


def _unpacked(data: bytes, entries: list[dict[str, Any]]) -> Tensors:
    tensors: Tensors = {}
    at = 0
    for entry in entries:
        if "quantization" in entry or entry["dtype"] not in _TYPES:
            raise ValueError(f"'{entry['name']}' is stored as {entry['dtype']}, quantized or unknown")
        dtype, shape = _TYPES[entry["dtype"]], [int(size) for size in entry["shape"]]
        count = prod(shape)
        if any(size < 0 for size in shape) or count > MAX_VALUES or at + count * dtype.itemsize > len(data):
            raise ValueError(f"'{entry['name']}' of shape {shape} reaches past its shards")
        tensors[entry["name"]] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return tensors
