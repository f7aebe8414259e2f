"""Write the signature of a classifier's file: the names of its input and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from advisor.core.errors import StageError

KEY = b"serving_default"
"""The converter's name for a single signature."""


def sign(model: schema.ModelT, graph: schema.SubGraphT, input_name: str, outputs: Mapping[str, int]) -> None:
    """Replace the signatures of an unpacked ``model`` by one; ``outputs`` become the outputs of ``graph``.

    Args:
        model: tables of a file, as :func:`advisor.tflite.rewrite.unpack` gives them.
        graph: its only subgraph.
        input_name: what to call the only input.
        outputs: tensor of each output by its name.

    Raises:
        StageError: the graph has more or fewer inputs than one.
    """
    if len(graph.inputs) != 1:
        raise StageError(f"the model has {len(graph.inputs)} inputs")
    signature = schema.SignatureDefT()
    signature.signatureKey = KEY
    signature.subgraphIndex = 0
    signature.inputs = [_entry(input_name, int(graph.inputs[0]))]
    signature.outputs = [_entry(name, index) for name, index in outputs.items()]
    model.signatureDefs = [signature]
    graph.outputs = list(outputs.values())


def _entry(name: str, index: int) -> Any:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), index
    return entry
