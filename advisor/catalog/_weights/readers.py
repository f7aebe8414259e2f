"""Read files of weights as named tensors, without executing anything in them.

`_convert.py` and `_graph_file.py` get their tensors from :func:`read_tensors`. Files are
untrusted: no graph is loaded or run, and sizes are checked before memory is taken. A new format is
one function ``read_<format>(path) -> dict[str, ndarray]`` and its name in ``FORMATS``, which cards
name. Protocol buffers (Caffe, GraphDef and ONNX) are read without the frameworks that define them.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import WeightsError
from advisor.store import Schema, message_type
from advisor.tflite import model as tflite

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
"""Arrays by the names that a file gives them."""

MAX_VALUES = 2**29
"""No model of this catalogue comes near; a header that claims more is damaged or hostile."""

FORMATS = (
    "caffemodel",
    "checkpoint",
    "graphdef",
    "keras_h5",
    "onnx",
    "safetensors",
    "tfjs",
    "tflite",
    "torch",
)

_TFJS_TYPES = {"float32": "<f4", "int32": "<i4", "float16": "<f2"}
_SAFETENSORS_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "BOOL": "?",
}
_MAX_SAFETENSORS_HEADER = 100_000_000  # as in the format's own library
# The types of the constants that weights are made of.
_TFLITE_TYPES = ("float32", "float16", "int32", "uint8", "int8")
# Formats with a module of their own.
_MODULES = {
    "torch": "advisor.catalog._weights.torch_files",
    "checkpoint": "advisor.catalog._weights.checkpoints",
}

# caffe.proto: the current form of a layer, and the old one.
_CAFFE = {
    "Net": ("2 layers OldLayer*", "100 layer Layer*"),
    "Layer": ("1 name string", "7 blobs Blob*"),
    "OldLayer": ("4 name string", "6 blobs Blob*"),
    "Blob": (
        "1 num int32",
        "2 channels int32",
        "3 height int32",
        "4 width int32",
        "5 data float*",
        "7 shape Shape",
    ),
    "Shape": ("1 dim int64*",),
}
# graph.proto
_GRAPHDEF = {
    "Graph": ("1 node Node*",),
    "Node": ("1 name string", "2 op string", "5 attr Attribute*"),
    "Attribute": ("1 key string", "2 value Value"),
    "Value": ("8 tensor Tensor",),
    "Tensor": ("1 dtype int32", "2 tensor_shape Shape", "4 tensor_content bytes"),
    "Shape": ("2 dim Dimension*",),
    "Dimension": ("1 size int64",),
}
# onnx.proto
_ONNX = {
    "Model": ("7 graph Graph",),
    "Graph": ("5 initializer Tensor*",),
    "Tensor": (
        "1 dims int64*",
        "2 data_type int32",
        "4 float_data float*",
        "8 name string",
        "9 raw_data bytes",
        "10 double_data double*",
        "14 data_location int32",
    ),
}
# The types that weights are made of; the rest (shapes, axes) is left out.
_GRAPHDEF_TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
_ONNX_TYPES = {1: "<f4", 10: "<f2", 11: "<f8"}


def read_tensors(format_name: str, path: Path) -> Tensors:
    """Read the tensors of ``path``, by their names in the file, in their framework's layout.

    Raises:
        WeightsError: an unknown format, or a file that is damaged or holds anything
            but plain tensors.
    """
    if format_name not in FORMATS:
        raise WeightsError(f"no reader is called '{format_name}' (there are {', '.join(FORMATS)})")
    module = import_module(_MODULES.get(format_name, __name__))
    try:
        tensors: Tensors = getattr(module, f"read_{format_name}")(path)
    except WeightsError:
        raise
    # A damaged file can fail a parser in any way.
    except Exception as error:
        raise WeightsError(f"{path.name} cannot be read as {format_name}: {error}") from error
    if not tensors:
        raise WeightsError(f"{path.name} holds no tensors that can be read as {format_name}")
    return tensors


def read_safetensors(path: Path) -> Tensors:
    """Return the tensors of a safetensors file in PyTorch's layout, 16-bit floats as float32."""
    data = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    # The shortest header is `{}`.
    if not 2 <= length <= min(len(data) - 8, _MAX_SAFETENSORS_HEADER):
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(data[8 : 8 + length].tobytes())
    start = 8 + length
    tensors = Tensors()
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        kind = entry["dtype"]
        shape = entry["shape"]
        if not 0 <= first <= last <= len(data) - start or prod(shape) > MAX_VALUES:
            raise ValueError(f"'{name}' is outside the file")
        content = data[start + first : start + last].tobytes()
        if kind == "BF16":
            # The upper half of a float32.
            values = (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(content, _SAFETENSORS_TYPES[kind])
        if kind == "F16":
            values = values.astype(np.float32)
        tensors[name] = _shape_values(name, values, shape)
    return tensors


def _shape_values(name: str, values: Array, shape: Sequence[int]) -> Array:
    if min(shape, default=0) < 0 or prod(shape) != values.size:
        raise ValueError(f"'{name}' of shape {list(shape)} has {values.size} values")
    return values.reshape(shape)


def read_tfjs(path: Path) -> Tensors:
    """Return the tensors of a ``model.json`` by name, in TensorFlow's layout.

    The shards are beside the file.
    """
    tensors: Tensors = {}
    for group in json.loads(path.read_text(encoding="utf-8"))["weightsManifest"]:
        for name in group["paths"]:
            if name in (".", "..") or "/" in name or "\\" in name:
                raise ValueError(f"the shard '{name}' is not beside the model")
        data = b"".join((path.parent / name).read_bytes() for name in group["paths"])
        start = 0
        for entry in group["weights"]:
            name = entry["name"]
            shape = list(map(int, entry["shape"]))
            if "quantization" in entry or entry["dtype"] not in _TFJS_TYPES:
                raise ValueError(f"'{name}' is stored as {entry['dtype']}, quantized or unknown")
            dtype = np.dtype(_TFJS_TYPES[entry["dtype"]])
            end = start + prod(shape) * dtype.itemsize
            tensors[name] = _shape_values(name, np.frombuffer(data[start:end], dtype), shape)
            start = end
    return tensors


def read_tflite(path: Path) -> Tensors:
    """Return the constants of the first graph by name, as float32, in the runtime's layout.

    Kernels are output-first.
    """
    tensors: Tensors = {}
    for tensor in tflite.read(path).tensors:
        values = None
        if tensor.is_constant and tensor.dtype in _TFLITE_TYPES:
            values = tensor.real_values()
        if values is not None:
            tensors[tensor.name] = values.astype(np.float32)
    return tensors


def read_keras_h5(path: Path) -> Tensors:
    """Return weights by ``<layer>/<weight>`` in the order of the file, in Keras' layout.

    A slash in a layer's own name (``Conv/BatchNorm`` in the files of MobileNet V3) becomes a dot,
    so that what stands before the first slash tells the layers apart. A layer that keeps integers
    (the count of ``Normalization``) is preprocessing and left out: here the card's own does that.
    """
    import h5py

    tensors: Tensors = {}
    with h5py.File(path, "r") as file:
        root = file
        if file.id.links.exists(b"model_weights"):
            root = _find_inside(file, "model_weights")
        for layer in map(_decode_text, root.attrs["layer_names"]):
            group = _find_inside(root, layer)
            names = map(_decode_text, group.attrs["weight_names"])
            datasets = {name: _find_dataset(group, name) for name in names}
            if any(dataset.dtype.kind != "f" for dataset in datasets.values()):
                continue
            prefix = layer.replace("/", ".")
            for name, dataset in datasets.items():
                tensors[f"{prefix}/{name}"] = np.asarray(dataset[()], np.float32)
    return tensors


def _decode_text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _find_inside(group: Any, name: str) -> Any:
    """Return the entry ``name`` (steps joined by slashes) under ``group``; follow no link."""
    import h5py

    for step in name.split("/"):
        if group.id.links.get_info(step.encode()).type != h5py.h5l.TYPE_HARD:
            raise ValueError(f"'{name}' is a link out of the file")
        group = group[step]
    return group


def _find_dataset(group: Any, name: str) -> Any:
    """Return the dataset ``name`` (steps joined by slashes) under ``group``.

    Links, and data out of the file, are refused.
    """
    import h5py

    dataset = _find_inside(group, name)
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise ValueError(f"'{name}' keeps its values outside the file")
    if dataset.size is None or dataset.size > MAX_VALUES or dataset.dtype.kind not in "fiu":
        raise ValueError(f"'{name}' is not a tensor of numbers that a model could hold")
    return dataset


def read_caffemodel(path: Path) -> Tensors:
    """Return blobs by ``<layer>/<index>``: 0 is the kernel, 1 the bias.

    A kernel is (output, input, height, width).
    """
    net = _parse_file(path, "Net", _CAFFE)
    tensors: Tensors = {}
    for layer in (*net.layers, *net.layer):
        for index, blob in enumerate(layer.blobs):
            shape = list(blob.shape.dim) or [
                blob.num or 1,
                blob.channels or 1,
                blob.height or 1,
                blob.width or 1,
            ]
            name = f"{layer.name}/{index}"
            tensors[name] = _shape_values(name, np.array(blob.data, "<f4"), shape)
    return tensors


def read_graphdef(path: Path) -> Tensors:
    """Return the constants of a frozen graph by the name of their node, in TensorFlow's layout.

    Scalars and other types are left out.
    """
    tensors: Tensors = {}
    for node in _parse_file(path, "Graph", _GRAPHDEF).node:
        value = None
        for attribute in node.attr:
            if attribute.key == "value":
                value = attribute.value
                break
        if node.op != "Const" or value is None:
            continue
        tensor = value.tensor
        # Small constants are written value by value; no weight of a network is.
        if tensor.dtype in _GRAPHDEF_TYPES and tensor.HasField("tensor_content"):
            shape = [dimension.size for dimension in tensor.tensor_shape.dim]
            values = np.frombuffer(tensor.tensor_content, _GRAPHDEF_TYPES[tensor.dtype])
            tensors[node.name] = _shape_values(node.name, values, shape)
    return tensors


def read_onnx(path: Path) -> Tensors:
    """Return initializers of real numbers by name, in ONNX' layout (kernels output-first)."""
    tensors: Tensors = {}
    for tensor in _parse_file(path, "Model", _ONNX).graph.initializer:
        if tensor.data_location != 0:
            raise ValueError(f"'{tensor.name}' keeps its values in another file")
        if tensor.data_type in _ONNX_TYPES:
            dtype = _ONNX_TYPES[tensor.data_type]
            # A writer chooses: raw bytes, or numbers in the field of their type.
            if tensor.raw_data:
                values = np.frombuffer(tensor.raw_data, dtype)
            else:
                stored = tensor.double_data if dtype == "<f8" else tensor.float_data
                values = np.array(stored, dtype)
            tensors[tensor.name] = _shape_values(tensor.name, values, list(tensor.dims))
    return tensors


def _parse_file(path: Path, root: str, schema: Schema) -> Any:
    """Return the file as a message of the type ``root``."""
    return message_type(root, schema).FromString(path.read_bytes())
