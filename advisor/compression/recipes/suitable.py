"""Check that a recipe can start from a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.model import Model, read

FLOAT_FILE = "start from the float file that it was made from"
BUILTIN = "export it again with builtin operators only"
ONE_GRAPH = "export one graph with one signature"
FIXED = "fix the shape of this input when you convert the model"
_STORED = frozenset({"int8", "uint8", "int16", "int4", "int2", "uint4", "int32", "float16"})
_SELECT_PREFIX = "CUSTOM:Flex"

INPUT_TYPES = ("float32", "int32", "int64", "bool")
"""Types that the inputs of a float model may have; integers are indices, such as tokens."""


def require_plain_float(data: bytes, recipe: str) -> None:
    """Check that a file is a float model with one graph, at most one signature, builtin operators and fixed shapes.

    Raises:
        UnsupportedRecipe: it is not; the message says why.
        UsageError: the file is damaged.
    """
    for reason, hint in _reasons(data, read(data)):
        raise UnsupportedRecipe(f"{recipe} does not apply: {reason}", hint)


def _reasons(data: bytes, model: Model) -> Iterator[tuple[str, str]]:
    """Yield why a file is not a plain float model and what to do; a later reason expects that no earlier one holds."""
    if len(model.subgraphs) != 1:
        yield f"the model has {len(model.subgraphs)} graphs", ONE_GRAPH
    if len(model.signatures) > 1:
        keys = ", ".join(f"'{signature.key}'" for signature in model.signatures)
        yield f"the model has {len(model.signatures)} signatures ({keys})", ONE_GRAPH
    custom = sorted({operator.name for operator in model.operators if operator.name.startswith(("CUSTOM", "DELEGATE"))})
    if custom:
        kind = "select TensorFlow" if all(name.startswith(_SELECT_PREFIX) for name in custom) else "custom"
        yield f"the model has {kind} operators ({', '.join(custom[:3])})", BUILTIN
    quantized = [tensor for tensor in model.tensors if tensor.quantization and tensor.dtype in _STORED]
    if quantized:
        first = f"{len(quantized)} tensors, the first is '{quantized[0].name}'"
        yield f"the model is quantized already ({first})", FLOAT_FILE
    if any(tensor.is_sparse for tensor in model.tensors):
        yield "the model's weights are sparse", "export it again with dense weights"
    if any(tensor.dtype == "float16" and tensor.is_constant for tensor in model.tensors):
        yield "the model's weights are stored as float16 already", FLOAT_FILE
    for tensor in model.inputs:
        if tensor.dtype not in INPUT_TYPES:
            yield f"the model takes {tensor.dtype}, not {' or '.join(INPUT_TYPES)}", FLOAT_FILE
    yield from _open_shapes(data)


def _open_shapes(data: bytes) -> Iterator[tuple[str, str]]:
    """Find open dimensions: the file stores them beside the shape, and 1 may be open or fixed."""
    from ai_edge_litert import schema_py_generated as schema

    graph = schema.Model.GetRootAs(data, 0).Subgraphs(0)
    for index in range(graph.InputsLength()):
        tensor = graph.Tensors(graph.Inputs(index))
        for shape in (_sides(tensor.ShapeAsNumpy()), _sides(tensor.ShapeSignatureAsNumpy())):
            if any(side < 1 for side in shape):
                yield f"the shape {shape} of input '{tensor.Name().decode('utf-8', 'replace')}' is open", FIXED


def _sides(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(int(side) for side in vector)
