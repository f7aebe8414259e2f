"""Read the features that latency depends on from a ``.tflite`` file: operators, MACs, bytes and precision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from advisor.core.file_features import FileFeatures
from advisor.devices.latency.features import FeatureTable, ModelFeatures, traits_of_operators
from advisor.tflite.arena import activation_arena_bytes
from advisor.tflite.arithmetic import expanded_constants, form_of
from advisor.tflite.macs import count
from advisor.tflite.micro_arena import micro_arena
from advisor.tflite.model import Model, Operator, Subgraph, read

CONVERTS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that convert between forms. They depend on the compression, so they do not count as layers."""

SAME_NETWORK = 0.15
"""Largest difference (natural logarithm) between the MACs of a file and of the model of the same name. Another head
changes them by a few percent, another input size by much more."""


def model_features(file: FileFeatures, name: str, family: str, table: FeatureTable) -> ModelFeatures | None:
    """Return the features for the predictor; None for a file without MACs, weights, image input or layers.

    Known latencies of ``name`` are used only if the file has about as many MACs as that model.

    Args:
        file: features of the file.
        name: name of the model card.
        family: family of the model card.
        table: features of the measured models.
    """
    if min(file.macs, file.parameters, file.input_size, file.layers) <= 0:
        return None
    listed, architecture = table.models.get(name), table.architecture(name) or table.architecture(family)
    other = listed is not None and abs(math.log(file.macs / listed.macs)) > SAME_NETWORK
    return ModelFeatures(
        name=f"{name} with other layers" if other else name,
        family=architecture.family if architecture else family,
        macs=float(file.macs),
        params=float(file.parameters),
        input_size=file.input_size,
        layers=float(file.layers),
        traits=file.traits,
    )


def read_features(source: Path | bytes) -> FileFeatures:
    """Return the features of a ``.tflite`` file.

    Raises:
        UsageError: it is missing or damaged.
    """
    return features_of(read(source))


def features_of(model: Model) -> FileFeatures:
    """Return the features of a parsed file."""
    graph, cost = model.subgraphs[0], count(model)
    kinds = Counter(_kind(graph, operator) for operator in graph.operators)
    shape = model.inputs[0].shape if model.inputs else ()
    form, constants = form_of(model, cost), expanded_constants(graph)
    weights = sum(len(tensor.buffer) for tensor in graph.tensors)
    return FileFeatures(
        macs=cost.macs,
        parameters=cost.parameters,
        input_size=shape[1] if len(shape) == 4 else 0,
        layers=sum(number for kind, number in kinds.items() if kind not in CONVERTS),
        form=form,
        arena_bytes=activation_arena_bytes(model),
        operators=dict(Counter(operator.name for operator in graph.operators).most_common()),
        traits=traits_of_operators(kinds),
        weight_bytes=weights,
        held_bytes=_held(graph, form, constants) or weights,
        micro_arena_bytes=micro_arena(model).total,
    )


def _held(graph: Subgraph, form: str, constants: Sequence[Operator]) -> int:
    """Return the bytes of the constants that operators expand; kernels pack expanded 8-bit ones once more."""
    widened = sum(graph.tensors[operator.outputs[0]].size_bytes for operator in constants)
    return 2 * widened if form == "weight_int8" else widened


def _kind(graph: Subgraph, operator: Operator) -> str:
    """Return the operator's name; the depth of the kernel shows whether a convolution is grouped."""
    if operator.name != "CONV_2D" or len(operator.inputs) < 2:
        return operator.name
    source, kernel = (graph.tensors[index].shape for index in operator.inputs[:2])
    return "GROUPED_CONV_2D" if source and kernel and source[-1] != kernel[-1] else operator.name
