"""Prepare a checked ONNX graph for conversion, and run it in its own runtime as the user gave it."""

from __future__ import annotations

import copy
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.user_models.classifier import PROBABILITIES
from advisor.catalog.user_models.comparison import OriginalLayer
from advisor.catalog.user_models.keras_archive import fixed_side
from advisor.catalog.user_models.onnx_files.checks import CONVERTED_FROM, opset_of
from advisor.catalog.weights.readers import Array
from advisor.core.errors import UsageError, message_of
from advisor.store.cache import Packages

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


_ONE_IMAGE = "an image classifier has one input, such as (1, 3, 224, 224), and one output"
_HARD_SWISH_SINCE = 14
"""Operator set of HardSwish. Up to there, the operators of a classifier changed by new types and defaults only."""


@dataclass(frozen=True)
class Image:
    """The input of a graph.

    Attributes:
        name: of the input.
        channels_first: True for (1, 3, S, S), False for (1, S, S, 3).
        side: S.
    """

    name: str
    channels_first: bool
    side: int


def fixed(model: ModelProto, size: int | None, file: Path) -> Image:
    """Fix a graph at one image, with float32 in place of float16, and return its input.

    Args:
        model: the graph, which is changed.
        size: side of the input where the graph leaves it open.
        file: for errors.

    Raises:
        UsageError: more than one input or output, or an input that is not one square RGB image of floats.
    """
    _widen(model)
    image = _input(model, size, file)
    _require_one_output(model, file)
    del model.graph.value_info[:]  # shapes of the open batch
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return image


def prepared(model: ModelProto, file: Path) -> ModelProto:
    """Return a fixed graph with constants folded, batch normalisation in the convolutions, and hard-swish in one piece.

    Raises:
        UsageError: an old operator set that cannot be converted, or ONNX Runtime cannot read the graph.
    """
    import onnx

    if opset_of(model) < CONVERTED_FROM:
        try:
            model = onnx.version_converter.convert_version(model, CONVERTED_FROM)
        except Exception as error:  # the converter raises what it likes
            raise UsageError(
                f"{file}: its operator set {opset_of(model)} cannot be converted to {CONVERTED_FROM}: "
                f"{message_of(error)}",
                f"export the model again with an operator set of {CONVERTED_FROM} or later",
            ) from error
    model = _simplified(model)
    _restore_hard_swish(model)
    return model


def _input(model: ModelProto, size: int | None, file: Path) -> Image:
    from onnx import TensorProto

    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    if len(inputs) != 1:
        named = ", ".join(f"'{entry.name}'" for entry in inputs[:5])
        raise UsageError(f"{file}: it has {len(inputs)} inputs: {named}", _ONE_IMAGE)
    (entry,) = inputs
    kind, dims = entry.type.tensor_type.elem_type, entry.type.tensor_type.shape.dim
    if kind != TensorProto.FLOAT:
        raise UsageError(f"{file}: it takes {TensorProto.DataType.Name(kind).lower()}, not float32", _ONE_IMAGE)
    shape = tuple(dim.dim_value or None for dim in dims)
    if len(shape) != 4 or not {3, None} & {shape[1], shape[3]}:
        raise UsageError(
            f"{file}: its input {shape} is not one RGB image",
            "its shape is (batch, 3, height, width), or (batch, height, width, 3)",
        )
    channels_first = shape[1] == 3 or shape[3] != 3
    in_nhwc = (shape[0], *shape[2:], *shape[1:2]) if channels_first else shape
    side, _, _ = fixed_side(in_nhwc, size, str(file))
    if shape[0] not in (None, 1):
        raise UsageError(f"{file}: its batch is fixed at {shape[0]}", "export it with a batch of one, or an open one")
    for dim, value in zip(dims, (1, 3, side, side) if channels_first else (1, side, side, 3), strict=True):
        dim.dim_value = value
    return Image(entry.name, channels_first, side)


def _require_one_output(model: ModelProto, file: Path) -> None:
    """Keep the output called ``probabilities``, or the only one."""
    outputs = list(model.graph.output)
    kept = [entry for entry in outputs if entry.name == PROBABILITIES] or outputs
    if len(kept) != 1:
        named = ", ".join(f"'{entry.name}'" for entry in outputs[:5])
        raise UsageError(f"{file}: it has {len(outputs)} outputs: {named}", _ONE_IMAGE)
    del model.graph.output[:]
    model.graph.output.extend(kept)


def _widen(model: ModelProto) -> None:
    """Make float32 of everything in float16, which changes no weight."""
    from onnx import TensorProto, numpy_helper

    def tensor(given: TensorProto) -> None:
        if given.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(given).astype(np.float32)
            given.CopyFrom(numpy_helper.from_array(values, given.name))

    for given in model.graph.initializer:
        tensor(given)
    for entry in (*model.graph.input, *model.graph.output):
        if entry.type.tensor_type.elem_type == TensorProto.FLOAT16:
            entry.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in model.graph.node:
        for attribute in node.attribute:
            tensor(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT


def _simplified(model: ModelProto) -> ModelProto:
    """Return the graph as ONNX Runtime simplifies it with rules that keep to ONNX's own operators."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        simplified = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(simplified)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(simplified)


def _restore_hard_swish(model: ModelProto) -> None:
    """Make HardSwish of ``x * HardSigmoid(x)``, and ReLU6 of any other HardSigmoid: ``ReLU6(6 a x + 6 b) / 6``.

    Runtimes compute both in one piece. LiteRT's own operator for a range of 0 to 1 is unknown to most other tools.
    """
    from onnx import helper

    graph = model.graph
    readers = Counter(name for node in graph.node for name in node.input)
    makers = {name: node for node in graph.node for name in node.output}
    nodes: list[NodeProto] = []
    for node in graph.node:
        pair = [makers.get(name) for name in node.input] if node.op_type == "Mul" else []
        sigmoid = next((one for one in pair if one is not None and _is_hard_sigmoid(one)), None)
        if sigmoid is not None and sigmoid.input[0] in node.input and readers[sigmoid.output[0]] == 1:
            nodes.remove(sigmoid)
            nodes.append(helper.make_node("HardSwish", sigmoid.input, node.output, name=node.name))
        else:
            nodes.append(node)
    del graph.node[:]
    for node in nodes:
        graph.node.extend(_as_relu6(graph, node) if node.op_type == "HardSigmoid" else [node])
    for entry in model.opset_import:
        if entry.domain == "":
            entry.version = max(entry.version, _HARD_SWISH_SINCE)


def _is_hard_sigmoid(node: NodeProto) -> bool:
    """Return whether a node is the HardSigmoid of HardSwish, ``clip(x / 6 + 1 / 2, 0, 1)``."""
    alpha, beta = _slope(node)
    return node.op_type == "HardSigmoid" and abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6


def _slope(node: NodeProto) -> tuple[float, float]:
    """Return alpha and beta of a HardSigmoid."""
    stated = {attribute.name: attribute.f for attribute in node.attribute}
    return stated.get("alpha", 0.2), stated.get("beta", 0.5)


def _as_relu6(graph: GraphProto, node: NodeProto) -> list[NodeProto]:
    from onnx import helper, numpy_helper

    made, (alpha, beta) = [], _slope(node)
    value, name = node.input[0], node.output[0]
    steps = [("Mul", [6 * alpha]), ("Add", [6 * beta]), ("Clip", [0.0, 6.0]), ("Mul", [1 / 6])]
    for place, (operator, constants) in enumerate(steps):
        names = [f"{name}/{place}/{index}" for index in range(len(constants))]
        for constant, number in zip(names, constants, strict=True):
            graph.initializer.append(numpy_helper.from_array(np.asarray(number, np.float32), constant))
        target = name if place == len(steps) - 1 else f"{name}/{place}"
        if operator == "Mul" and abs(constants[0] - 1.0) < 1e-6:
            continue
        made.append(helper.make_node(operator, [value, *names], [target], name=f"{node.name}/{place}"))
        value = target
    return made


VERSION = "2.6.9"
PACKAGES = Packages(
    "onnx2tf",
    (
        f"onnx2tf=={VERSION} --hash=sha256:98515924d59b22d530eb2e958fe660c5b2beef1863ef20b073ba385e78667be4",
        "sng4onnx==2.0.1 --hash=sha256:3bcbdaf79c8c4f107a340802f9562620ac5b3c83b3b8e8d08a553276d754168f",
    ),
    # It pins other versions of packages that we have, and Python 3.12, which the part that is used here does not need.
    ("--no-deps", "--ignore-requires-python"),
)


def converted(model: ModelProto, image: Image) -> bytes:
    """Return the ``.tflite`` of a prepared graph, its input in NHWC."""
    import onnx

    depth = sys.getrecursionlimit()
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "model.onnx"
        onnx.save(model, given)
        try:
            import onnx2tf

            onnx2tf.convert(
                input_onnx_file_path=str(given),
                output_folder_path=folder,
                not_use_onnxsim=True,
                keep_nwc_or_nhwc_or_ndhwc_input_names=None if image.channels_first else [image.name],
                non_verbose=True,
            )
        finally:
            sys.setrecursionlimit(depth)  # onnx2tf lifts it, and deep nesting would then end the process
        return (Path(folder) / "model_float32.tflite").read_bytes()


class OnnxOriginal:
    """A fixed graph in ONNX Runtime, as the user gave it.

    Args:
        model: the graph.
        image: its input.
    """

    converter = f"onnx2tf {VERSION}"

    def __init__(self, model: ModelProto, image: Image) -> None:
        self._model, self._image = model, image

    @property
    def runtime(self) -> str:
        """The runtime and its version."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        session = _session(self._model)
        return np.stack([session.run(None, self._fed(image[None]))[0].reshape(-1) for image in images])

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return every node with a float output for one image (1, S, S, 3)."""
        import onnx

        nodes = list(self._model.graph.node)
        shown = copy.deepcopy(self._model)
        stated = {entry.name for entry in shown.graph.output}
        names = dict.fromkeys(name for node in nodes for name in node.output if name)
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in stated)
        session = _session(shown)
        outputs = [entry.name for entry in session.get_outputs()]
        values = dict(zip(outputs, session.run(outputs, self._fed(image)), strict=True))
        made = {name: node.name or node.output[0] for node in nodes for name in node.output}
        return [
            OriginalLayer(
                made[node.output[0]], node.op_type, tuple(made[name] for name in node.input if name in made), value
            )
            for node in nodes
            if isinstance(value := values.get(node.output[0]), np.ndarray) and value.dtype == np.float32
        ]

    def _fed(self, image: Array) -> dict[str, Array]:
        return {self._image.name: image.transpose(0, 3, 1, 2) if self._image.channels_first else image}


def _session(model: ModelProto) -> Any:
    """Return a session without rewriting of the graph: it is the reference."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
