"""Read the weights of TensorFlow's files: checkpoints, TensorFlow.js and ``.tflite``; no graph is loaded or run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.weights.readers import MAX_VALUES, Tensors, shaped
from advisor.tflite.model import read
from advisor.tflite.values import real_values

_TFJS_TYPES = {"float32": "<f4", "int32": "<i4", "float16": "<f2"}
# The types of the constants that weights are made of.
_TFLITE_TYPES = ("float32", "float16", "int32", "uint8", "int8")
# trackable_object_graph.proto: what the object graph says of each variable.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_checkpoint(path: Path) -> Tensors:
    """Return variables by their names in the model, in its order.

    ``path`` is the ``.index`` file with the data beside it, as in a SavedModel's ``variables`` folder, or a checkpoint
    of the first form, which is one file. Values that are not real numbers (seeds, counters) are left out.

    Raises:
        ValueError: two different variables of one name, or sizes that the files cannot hold.
    """
    import tensorflow as tf

    indexed = path.suffix == ".index"
    checkpoint = tf.train.load_checkpoint(str(path.with_suffix("") if indexed else path))
    shapes = checkpoint.get_variable_to_shape_map()
    types = checkpoint.get_variable_to_dtype_map()
    files = path.parent.glob(f"{path.stem}.data-*") if indexed else [path]
    size_bytes = sum(file.stat().st_size for file in files)
    tensors: Tensors = {}
    for name, key in _names(checkpoint, shapes):
        if key not in shapes or not types[key].is_floating:
            continue
        count = prod(shapes[key])
        if count > MAX_VALUES or count * types[key].size > size_bytes:
            raise ValueError(f"'{name}' of shape {shapes[key]} is larger than the files")
        values = np.asarray(checkpoint.get_tensor(key), np.float32)
        # A model may list one variable in two of its parts: the file then has it twice.
        if name in tensors and not np.array_equal(tensors[name], values):
            raise ValueError(f"two variables are called '{name}'")
        tensors.setdefault(name, values)
    return tensors


def _names(checkpoint: Any, shapes: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
    """Yield (name of the variable in its model, key in the file)."""
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    if _OBJECTS not in shapes:
        yield from ((key, key) for key in sorted(shapes))
        return
    for node in TrackableObjectGraph.FromString(checkpoint.get_tensor(_OBJECTS)).nodes:
        for attribute in node.attributes:
            yield attribute.full_name or attribute.checkpoint_key, attribute.checkpoint_key


def read_tfjs(path: Path) -> Tensors:
    """Return the tensors of a ``model.json`` by name, in TensorFlow's layout; the shards are in the folder of ``path``.

    Raises:
        ValueError: a shard that is not beside the model, quantized shards, or sizes that do not fit.
    """
    tensors: Tensors = {}
    for group in json.loads(path.read_text(encoding="utf-8"))["weightsManifest"]:
        data = b"".join(_shard(path, name) for name in group["paths"])
        start = 0
        for entry in group["weights"]:
            name, shape = entry["name"], [int(size) for size in entry["shape"]]
            if "quantization" in entry or entry["dtype"] not in _TFJS_TYPES:
                raise ValueError(f"'{name}' is stored as {entry['dtype']}, quantized or unknown")
            dtype = np.dtype(_TFJS_TYPES[entry["dtype"]])
            end = start + prod(shape) * dtype.itemsize
            tensors[name] = shaped(name, np.frombuffer(data[start:end], dtype), shape)
            start = end
    return tensors


def _shard(path: Path, name: str) -> bytes:
    if name in (".", "..") or "/" in name or "\\" in name:
        raise ValueError(f"the shard '{name}' is not beside the model")
    return (path.parent / name).read_bytes()


def read_tflite(path: Path) -> Tensors:
    """Return the constants of the first graph by name, as float32, in the runtime's layout (kernels output-first)."""
    tensors: Tensors = {}
    for tensor in read(path).tensors:
        values = real_values(tensor) if tensor.is_constant and tensor.dtype in _TFLITE_TYPES else None
        if values is not None:
            tensors[tensor.name] = values.astype(np.float32)
    return tensors
