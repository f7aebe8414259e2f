"""Check an untrusted ONNX file before a library runs it, and fix its input and its output.

`formats.py` calls :func:`read_checked` and :func:`fix_input` for a user's file, then
`onnx_rewriting.py`. Weights outside of the model's folder, operators of others and quantized
models are refused with what the user can do. A card that was added keeps its file, so a change
here needs no new version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog._user_models.classifier import PROBABILITIES
from advisor.catalog._user_models.keras_models import fix_side
from advisor.core import UsageError, install_extra, message_of, nearest

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

ONNX2TF_VERSION = "2.6.9"
"""Version of onnx2tf."""

MAX_BYTES = 2**31 - 1
"""Largest message of protobuf; a model with more in files does not fit a ``.tflite`` either."""

OLDEST_OPSET = 7
CONVERTED_FROM = 13
"""Oldest operator set that ONNX Runtime runs, and the one that older models are converted to."""

_STANDARD = ("", "ai.onnx")
_AGAIN = "export the model again: torch.onnx.export(model, image, 'NAME.onnx', dynamo=True)"
_QUANTIZED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "ConvInteger",
    "MatMulInteger",
)
_GIVE_FLOAT = (
    "give the float model that it was made from: rounded weights cannot be retrained or compressed"
    " again without losing more"
)
_ONE_IMAGE = "an image classifier has one input, such as (1, 3, 224, 224), and one output"


def read_checked(file: Path) -> ModelProto:
    """Return a file's ``ModelProto`` with its external data and without local functions."""
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise UsageError(f"{file}: the package onnx is missing", install_extra("onnx")) from error
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise UsageError(
            f"{file}: {size} bytes, and an ONNX file has at most {MAX_BYTES}",
            "no .tflite holds as much either: export a smaller model, without the weights of its"
            " training",
        )
    try:
        model = onnx.load_model_from_string(file.read_bytes())
    # protobuf has a class of errors for each of its implementations.
    except Exception as error:
        raise UsageError(
            f"{file} is not a usable ONNX file: {message_of(error)}", _AGAIN
        ) from error
    if not model.graph.node or not model.graph.output:
        raise UsageError(f"{file} is not a usable ONNX file: it has no graph", _AGAIN)
    _check_external(file, model)
    onnx.load_external_data_for_model(model, str(file.parent))
    opset = opset_of(model)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise UsageError(
            f"{file}: it uses operator set {opset}, and {OLDEST_OPSET} to {newest} can be read",
            f"export the model again with an operator set of {CONVERTED_FROM} to {newest}",
        )
    model = onnx.inliner.inline_local_functions(model) if model.functions else model
    for part in _walk_parts(model):
        if isinstance(part, onnx.NodeProto):
            _check_node(file, part)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise UsageError(
            f"{file} is not a usable ONNX file: {message_of(error)}", _AGAIN
        ) from error
    return model


def opset_of(model: ModelProto) -> int:
    """Return the version of ONNX's own operators that a model uses."""
    for entry in model.opset_import:
        if entry.domain in _STANDARD:
            return int(entry.version)
    return 0


def _check_external(file: Path, model: ModelProto) -> None:
    """Refuse weights in files outside the model's folder, or in missing parts of a file."""
    folder = file.parent.resolve()
    total = 0
    for tensor in _walk_tensors(model):
        if not tensor.external_data:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        parts = PurePosixPath(location.replace("\\", "/"))
        path = folder / location
        leads_out = parts.is_absolute() or ".." in parts.parts
        # Resolved too: a link in the folder may lead out of it.
        if not location or leads_out or not path.resolve().is_relative_to(folder):
            raise UsageError(
                f"{file}: the weights '{tensor.name}' are in '{location}', outside the folder of"
                " the model",
                "put the file with the weights into the model's folder, and export the model again"
                " from there",
            )
        if not path.is_file():
            raise UsageError(
                f"{file}: the weights '{tensor.name}' are in '{location}', which is missing",
                f"copy it to {folder}",
            )
        start = int(entries.get("offset") or 0)
        length = int(entries.get("length") or 0)
        size = path.stat().st_size
        total += length or size
        if start < 0 or length < 0 or start + length > size:
            raise UsageError(
                f"{file}: the weights '{tensor.name}' end beyond '{location}'", _AGAIN
            )
        if total > MAX_BYTES:
            raise UsageError(
                f"{file}: more than {MAX_BYTES} bytes of weights, which no .tflite holds", _AGAIN
            )


def _check_node(file: Path, node: NodeProto) -> None:
    """Refuse a node of a quantized model, and one that is none of ONNX's own operators."""
    import onnx

    output = node.output[0] if node.output else ""
    where = f"'{node.name}'" if node.name else f"that makes '{output}'"
    if node.op_type in _QUANTIZED or node.op_type.startswith("QLinear"):
        raise UsageError(
            f"{file}: it is quantized (the layer {where} is a {node.op_type})", _GIVE_FLOAT
        )
    if node.domain not in _STANDARD:
        raise UsageError(
            f"{file}: the layer {where} is a {node.op_type} of the domain '{node.domain}', not one"
            " of ONNX's operators",
            "export the model without this operator",
        )
    if not onnx.defs.has(node.op_type):
        known = set()
        for schema in onnx.defs.get_all_schemas():
            if schema.domain in _STANDARD:
                known.add(schema.name)
        raise UsageError(
            f"{file}: the layer {where} is a {node.op_type}, which is not an operator of ONNX"
            f"{nearest(node.op_type, known)}",
            _AGAIN,
        )


def _walk_parts(model: ModelProto) -> Iterator[GraphProto | NodeProto]:
    """Yield every graph and node, however deep.

    The queue is a list, so that nesting cannot exhaust Python's stack.
    """
    waiting: deque[GraphProto | NodeProto] = deque([model.graph])
    for function in model.functions:
        waiting.extend(function.node)
    while waiting:
        part = waiting.popleft()
        yield part
        waiting.extend(getattr(part, "node", ()))
        for attribute in getattr(part, "attribute", ()):
            for inner in (attribute.g, *attribute.graphs):
                # Reading a field that is not set gives an empty graph.
                if inner.node or inner.initializer:
                    waiting.append(inner)


def _walk_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor of a file: weights, constants in nodes, and parts of sparse ones."""
    for part in _walk_parts(model):
        yield from getattr(part, "initializer", ())
        sparse = list(getattr(part, "sparse_initializer", ()))
        for attribute in getattr(part, "attribute", ()):
            yield from (attribute.t, *attribute.tensors)
            sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
        for sparse_tensor in sparse:
            yield from (sparse_tensor.values, sparse_tensor.indices)


@dataclass(frozen=True)
class ImageInput:
    """The input of a graph: (1, 3, S, S) with ``channels_first``, else (1, S, S, 3).

    ``side`` is S.
    """

    name: str
    channels_first: bool
    side: int


def fix_input(model: ModelProto, size: int | None, file: Path) -> ImageInput:
    """Change a graph to one image, with float32 in place of float16, and return its input.

    ``size`` is the side of the input where the graph leaves it open. The output called
    ``probabilities`` is kept, or the only one.
    """
    _widen_to_float32(model)
    image = _fix_input_shape(_find_input(model, file), size, file)
    outputs = list(model.graph.output)
    chosen = [output for output in outputs if output.name == PROBABILITIES] or outputs
    if len(chosen) != 1:
        named = ", ".join(f"'{output.name}'" for output in outputs[:5])
        raise UsageError(f"{file}: it has {len(outputs)} outputs: {named}", _ONE_IMAGE)
    del model.graph.output[:]
    model.graph.output.extend(chosen)
    # The shapes that the file states are those of an open batch.
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return image


def _find_input(model: ModelProto, file: Path) -> ValueInfoProto:
    """Return the only input of a graph, which takes float32."""
    from onnx import TensorProto

    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    if len(inputs) != 1:
        named = ", ".join(f"'{entry.name}'" for entry in inputs[:5])
        raise UsageError(f"{file}: it has {len(inputs)} inputs: {named}", _ONE_IMAGE)
    (entry,) = inputs
    kind = entry.type.tensor_type.elem_type
    if kind != TensorProto.FLOAT:
        raise UsageError(
            f"{file}: it takes {TensorProto.DataType.Name(kind).lower()}, not float32", _ONE_IMAGE
        )
    return entry


def _fix_input_shape(entry: ValueInfoProto, size: int | None, file: Path) -> ImageInput:
    """Set the shape of an input to that of one image, and return the input."""
    dims = entry.type.tensor_type.shape.dim
    shape = tuple(dim.dim_value or None for dim in dims)
    if len(shape) != 4 or not {3, None} & {shape[1], shape[3]}:
        raise UsageError(
            f"{file}: its input {shape} is not one RGB image",
            "its shape is (batch, 3, height, width), or (batch, height, width, 3)",
        )
    # PyTorch's order where both axes could be the channels.
    channels_first = shape[1] == 3 or shape[3] != 3
    in_nhwc = shape
    if channels_first:
        in_nhwc = (shape[0], *shape[2:], *shape[1:2])
    side, _, _ = fix_side(in_nhwc, size, str(file))
    if shape[0] not in (None, 1):
        raise UsageError(
            f"{file}: its batch is fixed at {shape[0]}",
            "export it with a batch of one, or an open one",
        )
    fixed_shape = (1, 3, side, side) if channels_first else (1, side, side, 3)
    for dim, length in zip(dims, fixed_shape, strict=True):
        dim.dim_value = length
    return ImageInput(entry.name, channels_first, side)


def _widen_to_float32(model: ModelProto) -> None:
    """Make float32 of everything in float16, which changes no weight."""
    from onnx import TensorProto, numpy_helper

    def widen_tensor(tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    for initializer in model.graph.initializer:
        widen_tensor(initializer)
    for entry in (*model.graph.input, *model.graph.output):
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT16:
            entry.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in model.graph.node:
        for attribute in node.attribute:
            widen_tensor(attribute.t)
            is_target = node.op_type == "Cast" and attribute.name == "to"
            if is_target and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT
