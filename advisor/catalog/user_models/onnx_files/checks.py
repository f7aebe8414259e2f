"""Check an untrusted ONNX file before a library runs or converts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError, install_extra, message_of, nearest

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

MAX_BYTES = 2**31 - 1
"""Largest message of protobuf. A model with as much in files beside it does not fit a ``.tflite`` either."""

OLDEST_OPSET = 7
"""Oldest operator set that ONNX Runtime runs; what is older than :data:`CONVERTED_FROM` is converted to that."""
CONVERTED_FROM = 13

_STANDARD = ("", "ai.onnx")
_AGAIN = "export the model again: torch.onnx.export(model, image, 'NAME.onnx', dynamo=True)"
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger")
_GIVE_FLOAT = (
    "give the float model that it was made from: rounded weights cannot be retrained or compressed again without "
    "losing more"
)


def checked(file: Path) -> ModelProto:
    """Return a file's ``ModelProto`` with its external data and without local functions.

    Raises:
        UsageError: too large, damaged, with external data elsewhere, of an operator set that is too old or too new,
            with operators that are not ONNX's own, or quantized.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise UsageError(f"{file}: the package onnx is missing", install_extra("onnx")) from error
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise UsageError(
            f"{file}: {size} bytes, and an ONNX file has at most {MAX_BYTES}",
            "no .tflite holds as much either: export a smaller model, without the weights of its training",
        )
    try:
        model = onnx.load_model_from_string(file.read_bytes())
    except Exception as error:  # protobuf has a class of errors for each of its implementations
        raise UsageError(f"{file} is not a usable ONNX file: {message_of(error)}", _AGAIN) from error
    if not model.graph.node or not model.graph.output:
        raise UsageError(f"{file} is not a usable ONNX file: it has no graph", _AGAIN)
    _check_external(file, model)
    onnx.load_external_data_for_model(model, str(file.parent))
    _check_opset(file, model)
    model = onnx.inliner.inline_local_functions(model) if model.functions else model
    for node in _nodes(model.graph):
        _check_node(file, node)
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise UsageError(f"{file} is not a usable ONNX file: {message_of(error)}", _AGAIN) from error
    return model


def opset_of(model: ModelProto) -> int:
    """Return the version of ONNX's own operators that a model uses."""
    return int(next((entry.version for entry in model.opset_import if entry.domain in _STANDARD), 0))


def _check_external(file: Path, model: ModelProto) -> None:
    """Refuse weights in files outside the model's folder, or in parts of a file that are not there."""
    folder, total = file.parent.resolve(), 0
    for tensor in _tensors(model):
        if not tensor.external_data:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        parts = PurePosixPath(location.replace("\\", "/"))
        held = folder / location
        if not location or parts.is_absolute() or ".." in parts.parts or not held.resolve().is_relative_to(folder):
            raise UsageError(
                f"{file}: the weights '{tensor.name}' are in '{location}', outside the folder of the model",
                "put the file with the weights into the model's folder, and export the model again from there",
            )
        if not held.is_file():
            raise UsageError(
                f"{file}: the weights '{tensor.name}' are in '{location}', which is missing", f"copy it to {folder}"
            )
        start, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
        total += length or held.stat().st_size
        if start < 0 or length < 0 or start + length > held.stat().st_size:
            raise UsageError(f"{file}: the weights '{tensor.name}' end beyond '{location}'", _AGAIN)
        if total > MAX_BYTES:
            raise UsageError(f"{file}: more than {MAX_BYTES} bytes of weights, which no .tflite holds", _AGAIN)


def _check_opset(file: Path, model: ModelProto) -> None:
    import onnx

    opset, newest = opset_of(model), onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise UsageError(
            f"{file}: it uses operator set {opset}, and {OLDEST_OPSET} to {newest} can be read",
            f"export the model again with an operator set of {CONVERTED_FROM} to {newest}",
        )


def _check_node(file: Path, node: NodeProto) -> None:
    import onnx

    where = f"'{node.name}'" if node.name else f"that makes '{node.output[0] if node.output else ''}'"
    if node.op_type in _QUANTIZED or node.op_type.startswith("QLinear"):
        raise UsageError(f"{file}: it is quantized (the layer {where} is a {node.op_type})", _GIVE_FLOAT)
    if node.domain not in _STANDARD:
        raise UsageError(
            f"{file}: the layer {where} is a {node.op_type} of the domain '{node.domain}', not one of ONNX's operators",
            "export the model without this operator",
        )
    if not onnx.defs.has(node.op_type):
        known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in _STANDARD}
        raise UsageError(
            f"{file}: the layer {where} is a {node.op_type}, which is not an operator of ONNX"
            f"{nearest(node.op_type, known)}",
            _AGAIN,
        )


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield every node, however deep: the stack is ours, so that nesting cannot exhaust Python's."""
    left = list(graph.node)
    while left:
        node = left.pop(0)
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                left += inner.node


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            graphs += [inner for inner in (attribute.g, *attribute.graphs) if inner.node or inner.initializer]
