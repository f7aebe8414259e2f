"""Rewrite a checked ONNX graph for its conversion: folded constants, hard-swish, patches.

`formats.py` calls :func:`prepare_graph` before onnx2tf. What the graph computes stays the same. A
card that was added keeps its file, so a change here needs no new version.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog._user_models.onnx_files import CONVERTED_FROM, opset_of
from advisor.core import UsageError, message_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_HARD_SWISH_SINCE = 14
"""Operator set of HardSwish; until then, operators changed by new types and defaults only."""

_PATCHES = [0, 1, 3, 5, 2, 4]
"""Order of axes by which a graph brings the pixels of each patch of an image together."""


def prepare_graph(model: ModelProto, file: Path) -> ModelProto:
    """Return a fixed graph that onnx2tf converts into few operators.

    Constants are folded, batch normalisation is in the convolutions, and hard-swish is one node.
    """
    import onnx

    if opset_of(model) < CONVERTED_FROM:
        try:
            model = onnx.version_converter.convert_version(model, CONVERTED_FROM)
        # The converter raises errors of any class.
        except Exception as error:
            raise UsageError(
                f"{file}: its operator set {opset_of(model)} cannot be converted to"
                f" {CONVERTED_FROM}: {message_of(error)}",
                f"export the model again with an operator set of {CONVERTED_FROM} or later",
            ) from error
    model = _simplify_graph(model)
    _restore_hard_swish(model)
    _divide_patches(model)
    return model


def _simplify_graph(model: ModelProto) -> ModelProto:
    """Return the graph as ONNX Runtime simplifies it, by rules that keep ONNX's operators."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        simplified = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(simplified)
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return onnx.load(simplified)


def _restore_hard_swish(model: ModelProto) -> None:
    """Make HardSwish of ``x * HardSigmoid(x)``, and ReLU6 of any other HardSigmoid.

    The latter is ``ReLU6(6 a x + 6 b) / 6``. Runtimes compute both in one piece. LiteRT's own
    operator for a range of 0 to 1 is unknown to most other tools.
    """
    from onnx import helper

    graph = model.graph
    readers = Counter[str]()
    makers: dict[str, NodeProto] = {}
    for node in graph.node:
        readers.update(node.input)
        makers.update(dict.fromkeys(node.output, node))
    nodes: list[NodeProto] = []
    for node in graph.node:
        factors = []
        if node.op_type == "Mul":
            factors = [makers[name] for name in node.input if name in makers]
        sigmoid = next(filter(_is_of_hard_swish, factors), None)
        # Another reader of the sigmoid still needs it.
        is_swish = sigmoid is not None and sigmoid.input[0] in node.input
        if sigmoid is not None and is_swish and readers[sigmoid.output[0]] == 1:
            nodes.remove(sigmoid)
            nodes.append(helper.make_node("HardSwish", sigmoid.input, node.output, name=node.name))
        else:
            nodes.append(node)
    del graph.node[:]
    for node in nodes:
        replacement = _as_relu6(graph, node) if node.op_type == "HardSigmoid" else [node]
        graph.node.extend(replacement)
    # An older operator set does not have HardSwish.
    for entry in model.opset_import:
        if entry.domain == "":
            entry.version = max(entry.version, _HARD_SWISH_SINCE)


def _is_of_hard_swish(node: NodeProto) -> bool:
    """Return whether a node is the sigmoid of a hard-swish: ``clip(x / 6 + 1 / 2, 0, 1)``."""
    alpha, beta = _read_slope(node)
    return node.op_type == "HardSigmoid" and abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6


def _divide_patches(model: ModelProto) -> None:
    """Reshape patches of an image to (N, C, P, M) in two steps.

    onnx2tf takes one step for SpaceToDepth and fails.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = {initializer.name: initializer for initializer in graph.initializer}
    patches = set()
    for node in graph.node:
        orders = [list(attribute.ints) for attribute in node.attribute]
        if node.op_type == "Transpose" and orders == [_PATCHES]:
            patches.add(node.output[0])
    nodes: list[NodeProto] = []
    for node in graph.node:
        stated_shape = None
        if node.op_type == "Reshape" and node.input[0] in patches:
            stated_shape = constants.get(node.input[1])
        shape = np.empty(0) if stated_shape is None else numpy_helper.to_array(stated_shape)
        # A 0 or -1 in a shape stands for a size that is not written here.
        if stated_shape is not None and 0 not in shape and min(shape[:2]) > 0:
            flat = f"{node.output[0]}/flat"
            flat_shape = np.array([*shape[:2], -1], np.int64)
            graph.initializer.append(numpy_helper.from_array(flat_shape, f"{flat}/shape"))
            inputs = [node.input[0], f"{flat}/shape"]
            nodes.append(helper.make_node("Reshape", inputs, [flat], name=flat))
            node.input[0] = flat
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _read_slope(node: NodeProto) -> tuple[float, float]:
    """Return alpha and beta of a HardSigmoid."""
    stated = {attribute.name: attribute.f for attribute in node.attribute}
    return stated.get("alpha", 0.2), stated.get("beta", 0.5)


def _as_relu6(graph: GraphProto, node: NodeProto) -> list[NodeProto]:
    """Return the nodes ``ReLU6(6 a x + 6 b) / 6`` for a HardSigmoid.

    Their constants are added to the graph.
    """
    from onnx import helper, numpy_helper

    relu6_nodes = []
    alpha, beta = _read_slope(node)
    value = node.input[0]
    name = node.output[0]
    steps = [("Mul", [6 * alpha]), ("Add", [6 * beta]), ("Clip", [0.0, 6.0]), ("Mul", [1 / 6])]
    for place, (operator, constants) in enumerate(steps):
        names = [f"{name}/{place}/{index}" for index in range(len(constants))]
        for constant, number in zip(names, constants, strict=True):
            graph.initializer.append(
                numpy_helper.from_array(np.asarray(number, np.float32), constant)
            )
        target = name
        if place != len(steps) - 1:
            target = f"{name}/{place}"
        # With a slope of 1/6, as PyTorch has it, the first product changes nothing.
        if operator == "Mul" and abs(constants[0] - 1.0) < 1e-6:
            continue
        relu6_nodes.append(
            helper.make_node(operator, [value, *names], [target], name=f"{node.name}/{place}")
        )
        value = target
    return relu6_nodes
