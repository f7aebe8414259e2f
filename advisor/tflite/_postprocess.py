"""Cut off and append TensorFlow Lite's post-processing of detectors.

The operator decodes boxes and drops those that overlap (non-maximum suppression). No compression
recipe can handle it, so a detector is cut before the recipes and put together after them; a search
appends it to detectors that it trains. Names of outputs, order and scales are what clients such as
MediaPipe read: they stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from advisor.core import StageError, UsageError
from advisor.tflite._model import Model, guard_reader, open_model, read
from advisor.tflite._quantization import take_floats
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables, index_makers
from advisor.tflite._values import Operator

OPERATOR = "TFLite_Detection_PostProcess"
_OPERATOR_NAME = f"CUSTOM:{OPERATOR}"
ENCODINGS = "encodings"
SCORES = "scores"
"""The outputs of a detector before post-processing."""

CENTRES = "centres"
"""The output of a network that marks centres: scores (1, rows, columns, C), a channel a class."""

CENTRE_DISTANCE = 2
"""Distance in places, down and across, within which only a class's best centre counts."""

CENTRE_SCALE = 10.0
SIDE_SCALE = 5.0
"""A centre is encoded as ten times its distance from the anchor's in sides of the anchor, a side
as five times the logarithm of its ratio: W. Liu et al., "SSD: Single Shot MultiBox Detector"
(2016) and its published implementation.
"""

MOST = 10_000
"""Largest number of boxes of an image in an undamaged file; published detectors give 10 to 100."""

ENDS = (
    f"a detector ends in one {OPERATOR}, as TensorFlow's Object Detection API and Model Maker"
    " export it"
)

DETECTIONS: tuple[str, ...] = ("boxes", "classes", "scores", "count")
"""The outputs of a detector after it, in the operator's order."""


@dataclass(frozen=True)
class Suppression:
    """Rules that select the boxes to keep.

    An image has at most ``most`` of them, with at least the ``score`` (0-1). Of two boxes that
    overlap by more than ``overlap`` (intersection over union), also of two classes, the one with
    the lower score is dropped.
    """

    most: int = 100
    score: float = 0.05
    overlap: float = 0.5

    def append_to(self, data: bytes, anchors: NDArray[np.float32]) -> bytes:
        """Append the operator to a detector.

        The model has the outputs ``encodings`` (1, N, 4) and ``scores`` (1, N, C), see
        :data:`CENTRE_SCALE`, float or quantized per tensor. Quantized inputs and outputs become
        float. The anchors are those of :class:`PostProcess`. The outputs become ``boxes`` (1, M,
        4) as top, left, bottom and right in shares of the image, ``classes`` (1, M), ``scores``
        (1, M) from the highest on, and ``count`` (1).
        """
        model = read(data)
        outputs = {}
        for signature in model.signatures:
            for name, index in signature.outputs:
                outputs[name] = index
        _, scores = _raw_outputs(outputs)
        classes = model.tensors[scores].shape[-1]
        return put_back(
            data,
            PostProcess(anchors, _encode_options(self, classes), self.most, classes, classes),
        )


@dataclass(frozen=True, eq=False)
class PostProcess:
    """The post-processing of one detector, which gives at most ``most`` boxes of an image.

    The anchors are float32 (N, 4): centre y and x, height and width, as shares of the image. The
    options are the operator's flexbuffer. The scores have a column a class, after one for the
    background where a detector has one.
    """

    anchors: NDArray[np.float32]
    options: bytes
    most: int
    classes: int
    columns: int

    def put_back(self, data: bytes) -> bytes:
        """Append the operator to a model that it was cut from, see :func:`put_back`."""
        return put_back(data, self)


def has_postprocess(model: Model) -> bool:
    """Return whether a file decodes boxes and drops those that overlap."""
    return any(operator.name == _OPERATOR_NAME for operator in model.operators)


def cut_postprocess(data: bytes, name: str = "the model") -> tuple[bytes, PostProcess]:
    """Cut the operator off a detector; :func:`put_back` gives a file with the same boxes.

    Its four outputs may come in any order, and it needs no signature. The returned
    file has the outputs ``scores`` (1, N, C) and ``encodings`` (1, N, 4), and no
    description (labels, normalization).

    Raises:
        UsageError: the file is damaged, has no such operator or several, or does not end in it.
    """
    tables, model = open_model(data, name)
    return _cut_tables(tables, model, name)


def _cut_tables(tables: Tables, model: Model, name: str) -> tuple[bytes, PostProcess]:
    operator = post_processing(model, name)
    graph = tables.make_editable().subgraphs[0]
    options = graph.operators[model.operators.index(operator)].customOptions
    content = b"" if options is None else bytes(options)
    process = _read_process(model, operator, content, name)
    encodings, scores, _ = operator.inputs
    tables.replace_signature(graph, "image", {SCORES: scores, ENCODINGS: encodings})
    tables.prune_tensors(graph)
    return tables.pack(), process


def split_postprocess(data: bytes, name: str = "the model") -> tuple[bytes, PostProcess | None]:
    """Return the result of :func:`cut_postprocess`; the file and None if it has no such part."""
    tables, model = open_model(data, name)
    if has_postprocess(model):
        return _cut_tables(tables, model, name)
    return data, None


def with_named_outputs(data: bytes, name: str = "the model") -> bytes:
    """Return a detector whose outputs are named and ordered as in :data:`DETECTIONS`.

    Its description is dropped.
    """
    tables, model = open_model(data, name)
    operator = post_processing(model, name)
    graph = tables.make_editable().subgraphs[0]
    for tensor in graph.tensors:
        # The batch may be open in it; the shape itself says one.
        tensor.shapeSignature = None
    tables.replace_signature(graph, "image", dict(zip(DETECTIONS, operator.outputs, strict=True)))
    return tables.pack()


def put_back(data: bytes, process: PostProcess) -> bytes:
    """Append post-processing to a model with the outputs ``encodings`` and ``scores``.

    The new file has the outputs :data:`DETECTIONS`.
    """
    model = unpack(data)
    take_floats(model)
    graph, signature = model.find_single_graph()
    places = {}
    for entry in signature.outputs or []:
        places[(entry.name or b"").decode()] = int(entry.tensorIndex)
    encodings, scores = _raw_outputs(places)
    shape = list(map(int, graph.tensors[scores].shape))
    if process.anchors.shape != (shape[1], 4):
        raise StageError(f"anchors of shape {process.anchors.shape} for {shape[1]} places")
    float32 = schema.TensorType.FLOAT32
    content = np.ascontiguousarray(process.anchors, dtype="<f4").tobytes()
    reference = model.add_tensor(graph, "anchors", process.anchors.shape, float32, content)
    boxes = (1, process.most)
    shapes = ((*boxes, 4), boxes, boxes, (1,))
    outputs = []
    for name, size in zip(DETECTIONS, shapes, strict=True):
        outputs.append(model.add_tensor(graph, name, size, float32))
    custom = schema.BuiltinOperator.CUSTOM
    code = schema.OperatorCodeT(
        builtinCode=custom, deprecatedBuiltinCode=custom, customCode=OPERATOR.encode()
    )
    code.version = 1
    model.operatorCodes.append(code)
    operator = schema.OperatorT(inputs=[encodings, scores, reference], outputs=outputs)
    operator.opcodeIndex = len(model.operatorCodes) - 1
    operator.customOptions = list(process.options)
    graph.operators.append(operator)
    image = next(iter(signature.inputs)).name.decode()
    model.replace_signature(graph, image, dict(zip(DETECTIONS, outputs, strict=True)))
    return model.pack()


def with_calibrated_scores(
    data: bytes, slope: float, offset: float, name: str = "the model"
) -> bytes:
    """Return a float detector whose logits are ``slope`` times as large, plus ``offset``.

    The detector is one of :meth:`Suppression.append_to`. Kernels and biases of the layers that
    give the logits change; no operator does. The same boxes are kept: the least score moves with
    them. StageError: the scores are no logistic function of float convolutions.
    """
    raw, process = cut_postprocess(data, name)
    model = unpack(raw, name)
    _scale_scores(model, slope, offset, name)
    model.drop_unused_buffers()
    options = flexbuffers.GetRoot(bytearray(process.options)).AsMap
    least_score = options["nms_score_threshold"].AsFloat
    overlap = options["nms_iou_threshold"].AsFloat
    # The least score moves with the others: the same boxes stay.
    logit = math.log(least_score / (1 - least_score))
    least_score = 1 / (1 + math.exp(-slope * logit - offset))
    suppression = Suppression(process.most, least_score, overlap)
    return put_back(
        model.pack(), replace(process, options=_encode_options(suppression, process.classes))
    )


def _scale_scores(model: Tables, slope: float, offset: float, name: str) -> None:
    """Scale the convolutions that give the logits of the output ``scores``."""
    graph, signature = model.find_single_graph()
    makers = index_makers(graph)
    waiting = []
    for entry in signature.outputs:
        if entry.name == SCORES.encode():
            waiting.append(int(entry.tensorIndex))
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is None:
            raise StageError(
                f"{name}: its scores come from its input, and not from a float convolution"
            )
        kind = model.name_operator(maker)
        # A sigmoid and a change of shape keep the order of the values,
        # so the search goes on behind them.
        if kind in ("LOGISTIC", "RESHAPE"):
            waiting.append(int(maker.inputs[0]))
        elif kind == "CONCATENATION":
            waiting += map(int, maker.inputs)
        elif kind == "CONV_2D" and not maker.builtinOptions.fusedActivationFunction:
            kernel, bias = (graph.tensors[index] for index in maker.inputs[1:3])
            _scale_constant(model, kernel, slope, 0.0)
            _scale_constant(model, bias, slope, offset)
        else:
            raise StageError(
                f"{name}: its scores come from {kind}, and not from a float convolution"
            )


def _scale_constant(model: Tables, tensor: schema.TensorT, slope: float, offset: float) -> None:
    values = np.frombuffer(model.read_content(tensor).tobytes(), "<f4")
    tensor.buffer = model.add_buffer((values * slope + offset).astype("<f4").tobytes())


def _raw_outputs(places: Mapping[str, int]) -> tuple[int, int]:
    """Return the tensors of encodings and scores, given the tensor of each output by its name."""
    if set(places) != {ENCODINGS, SCORES}:
        raise StageError(
            f"the outputs {', '.join(sorted(places))} are not '{ENCODINGS}' and '{SCORES}'"
        )
    return places[ENCODINGS], places[SCORES]


def post_processing(model: Model, name: str = "the model") -> Operator:
    """Return the post-processing operator that a detector ends in.

    UsageError is raised if it ends in none, or has several.
    """
    operators = [operator for operator in model.operators if operator.name == _OPERATOR_NAME]
    if len(operators) != 1:
        raise UsageError(
            f"{name} has {len(operators)} operators {OPERATOR}, and a detector has 1", ENDS
        )
    operator = operators[0]
    graph = model.subgraphs[0]
    graphs = len(model.subgraphs)
    inputs = len(model.inputs)
    if graphs > 1 or inputs != 1:
        raise UsageError(f"{name} has {graphs} graphs and {inputs} inputs, not 1 of each", ENDS)
    for reader in model.operators:
        if set(reader.inputs) & set(operator.outputs):
            raise UsageError(
                f"{name} does not end in {OPERATOR}: {reader.name} reads its output", ENDS
            )
    if sorted(graph.outputs) != sorted(operator.outputs) or len(graph.outputs) != len(DETECTIONS):
        names = ", ".join(tensor.name for tensor in model.outputs)
        raise UsageError(
            f"{name} has the outputs {names}, not the {len(DETECTIONS)} of {OPERATOR}", ENDS
        )
    return operator


def _read_process(model: Model, operator: Operator, options: bytes, name: str) -> PostProcess:
    """Return the post-processing that an operator and its options describe.

    UsageError is raised for one that is not a detector's.
    """
    shapes = [model.tensors[index].shape for index in operator.inputs]
    if list(map(len, shapes)) != [3, 3, 2]:
        raise UsageError(f"{name}: {OPERATOR} reads {shapes}, not boxes, scores and anchors", ENDS)
    # In a float16 file, the anchors are expanded before the operator.
    source = model.subgraphs[0].expanded.get(operator.inputs[2], operator.inputs[2])
    anchors = None
    if model.tensors[source].is_constant:
        anchors = model.tensors[source].real_values()
    if anchors is None or anchors.shape != (shapes[1][1], 4):
        stated = "no constants"
        if anchors is not None:
            stated = f"of shape {anchors.shape}"
        raise UsageError(
            f"{name}: its anchors are {stated}, and it has {shapes[1][1]} places", ENDS
        )
    with guard_reader(f"{name} (options of {OPERATOR})"):
        table = flexbuffers.GetRoot(bytearray(options)).AsMap
        most = table["max_detections"].AsInt * table["max_classes_per_detection"].AsInt
        classes = table["num_classes"].AsInt
    columns = shapes[1][2]
    # Some detectors have a column for the background before their classes.
    if not (1 <= most <= MOST and classes >= 1 and columns - classes in (0, 1)):
        raise UsageError(
            f"{name}: {OPERATOR} gives {most} boxes of {classes} classes by {columns} scores", ENDS
        )
    return PostProcess(anchors.astype(np.float32), options, most, classes, columns)


def _encode_options(suppression: Suppression, classes: int) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("max_detections", suppression.most)
        builder.Int("max_classes_per_detection", 1)
        # The other kind loses a class: docs/decisions/0071.
        builder.Bool("use_regular_nms", False)
        builder.Float("nms_score_threshold", suppression.score)
        builder.Float("nms_iou_threshold", suppression.overlap)
        builder.Int("num_classes", classes)
        for name, scale in (
            ("y", CENTRE_SCALE),
            ("x", CENTRE_SCALE),
            ("h", SIDE_SCALE),
            ("w", SIDE_SCALE),
        ):
            builder.Float(f"{name}_scale", scale)
    return bytes(builder.Finish())
