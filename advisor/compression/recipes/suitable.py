"""Check that a recipe can start from a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.model import Model, read

HINT = "start from the float file with fixed shapes that the model was converted to first"
_STORED = frozenset({"int8", "uint8", "int16", "int4", "int2", "uint4", "int32", "float16"})
_SELECT_PREFIX = "CUSTOM:Flex"


def require_plain_float(data: bytes, recipe: str) -> None:
    """Check that a file is a float model with one graph, at most one signature, builtin operators and fixed shapes.

    Raises:
        UnsupportedRecipe: it is not; the message says why.
        UsageError: the file is damaged.
    """
    reason = next(_reasons(data, read(data)), "")
    if reason:
        raise UnsupportedRecipe(f"{recipe} does not apply: {reason}", HINT)


def _reasons(data: bytes, model: Model) -> Iterator[str]:
    """Yield why a file is not a plain float model; a later reason expects that the earlier ones do not hold."""
    if len(model.subgraphs) != 1:
        yield f"the model has {len(model.subgraphs)} graphs"
    if len(model.signatures) > 1:
        keys = ", ".join(f"'{signature.key}'" for signature in model.signatures)
        yield f"the model has {len(model.signatures)} signatures ({keys})"
    if len(model.inputs) != 1:
        yield f"the model has {len(model.inputs)} inputs"
    custom = sorted({operator.name for operator in model.operators if operator.name.startswith(("CUSTOM", "DELEGATE"))})
    if custom:
        kind = "select TensorFlow" if all(name.startswith(_SELECT_PREFIX) for name in custom) else "custom"
        yield f"the model has {kind} operators ({', '.join(custom[:3])})"
    quantized = [tensor for tensor in model.tensors if tensor.quantization and tensor.dtype in _STORED]
    if quantized:
        yield f"the model is quantized already ({len(quantized)} tensors, the first is '{quantized[0].name}')"
    if any(tensor.dtype == "float16" and tensor.is_constant for tensor in model.tensors):
        yield "the model's weights are stored as float16 already"
    if model.inputs[0].dtype != "float32":
        yield f"the model takes {model.inputs[0].dtype}, not float32"
    yield from _open_shapes(data)


def _open_shapes(data: bytes) -> Iterator[str]:
    """Find open dimensions: the file stores them beside the shape, and 1 may be open or fixed."""
    from ai_edge_litert import schema_py_generated as schema

    graph = schema.Model.GetRootAs(data, 0).Subgraphs(0)
    for index in range(graph.InputsLength()):
        tensor = graph.Tensors(graph.Inputs(index))
        for shape in (_sides(tensor.ShapeAsNumpy()), _sides(tensor.ShapeSignatureAsNumpy())):
            if any(side < 1 for side in shape):
                yield f"the shape {shape} of input '{tensor.Name().decode('utf-8', 'replace')}' is open"


def _sides(vector: Any) -> tuple[int, ...]:
    return () if isinstance(vector, int) else tuple(int(side) for side in vector)
