"""Read weights from protocol buffers without the frameworks that define them: Caffe, GraphDef and ONNX.

The tables below name the fields that are read: number, name and type of each, ``*`` for a repeated one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from advisor.catalog.weights.readers import Tensors, shaped

# caffe.proto: the current form of a layer, and the old one.
_CAFFE = {
    "Net": ("2 layers OldLayer*", "100 layer Layer*"),
    "Layer": ("1 name string", "7 blobs Blob*"),
    "OldLayer": ("4 name string", "6 blobs Blob*"),
    "Blob": ("1 num int32", "2 channels int32", "3 height int32", "4 width int32", "5 data float*", "7 shape Shape"),
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


def read_caffemodel(path: Path) -> Tensors:
    """Return blobs by ``<layer>/<index>``: 0 the kernel (output, input, height, width), 1 the bias."""
    net = _parsed(path, "Net", _CAFFE)
    tensors: Tensors = {}
    for layer in (*net.layers, *net.layer):
        for index, blob in enumerate(layer.blobs):
            shape = list(blob.shape.dim) or [blob.num or 1, blob.channels or 1, blob.height or 1, blob.width or 1]
            name = f"{layer.name}/{index}"
            tensors[name] = shaped(name, np.array(blob.data, "<f4"), shape)
    return tensors


def read_graphdef(path: Path) -> Tensors:
    """Return the constants of a frozen graph by the name of their node, in TensorFlow's layout.

    Scalars and other types are left out.
    """
    tensors: Tensors = {}
    for node in _parsed(path, "Graph", _GRAPHDEF).node:
        value = next((attribute.value for attribute in node.attr if attribute.key == "value"), None)
        if node.op != "Const" or value is None:
            continue
        tensor = value.tensor
        # Small constants are written value by value; no weight of a network is.
        if tensor.dtype in _GRAPHDEF_TYPES and tensor.HasField("tensor_content"):
            shape = [dimension.size for dimension in tensor.tensor_shape.dim]
            values = np.frombuffer(tensor.tensor_content, _GRAPHDEF_TYPES[tensor.dtype])
            tensors[node.name] = shaped(node.name, values, shape)
    return tensors


def read_onnx(path: Path) -> Tensors:
    """Return initializers of real numbers by name, in ONNX' layout (kernels output-first).

    Raises:
        ValueError: values kept in another file.
    """
    tensors: Tensors = {}
    for tensor in _parsed(path, "Model", _ONNX).graph.initializer:
        if tensor.data_location != 0:
            raise ValueError(f"'{tensor.name}' keeps its values in another file")
        if tensor.data_type in _ONNX_TYPES:
            dtype = _ONNX_TYPES[tensor.data_type]
            typed = np.array(tensor.double_data if dtype == "<f8" else tensor.float_data, dtype)
            values = np.frombuffer(tensor.raw_data, dtype) if tensor.raw_data else typed
            tensors[tensor.name] = shaped(tensor.name, values, list(tensor.dims))
    return tensors


def _parsed(path: Path, root: str, schema: Mapping[str, Sequence[str]]) -> Any:
    """Return the file as a message of the type ``root``.

    Raises:
        google.protobuf.message.DecodeError: the file is damaged.
    """
    file = descriptor_pb2.FileDescriptorProto(name="weights.proto")
    for name, fields in schema.items():
        message = file.message_type.add(name=name)
        for entry in fields:
            number, field, kind = entry.split()
            label = "LABEL_REPEATED" if kind.endswith("*") else "LABEL_OPTIONAL"
            kind = kind.rstrip("*")
            described = message.field.add(name=field, number=int(number), label=label)
            if kind in schema:
                described.type_name = f".{kind}"
            else:
                described.type = f"TYPE_{kind.upper()}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(root)).FromString(path.read_bytes())
