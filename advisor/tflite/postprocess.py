"""Append TensorFlow Lite's post-processing of detectors: decoding of boxes and non-maximum suppression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.tflite.interface import to_float_io
from advisor.tflite.rewrite import add_tensor, pack, sign, single_graph, unpack

OPERATOR = "TFLite_Detection_PostProcess"
ENCODINGS, SCORES = "encodings", "scores"
"""The outputs of a detector before post-processing."""

CENTRE_SCALE, SIDE_SCALE = 10.0, 5.0
"""A centre is encoded as ten times its distance from the anchor's in sides of the anchor, a side as five times the
logarithm of its ratio: W. Liu et al., "SSD: Single Shot MultiBox Detector" (2016) and its published implementation."""

DETECTIONS = ("boxes", "classes", "scores", "count")
"""The outputs of a detector after it, in the operator's order."""


@dataclass(frozen=True)
class Suppression:
    """Which boxes are kept.

    Attributes:
        most: boxes of an image, at most.
        score: least score (0-1).
        overlap: of two boxes of one class that overlap by more (intersection over union), the one with the lower score
            is dropped.
    """

    most: int = 100
    score: float = 0.05
    overlap: float = 0.5


def append_postprocess(data: bytes, anchors: NDArray[np.float32], kept: Suppression) -> bytes:
    """Append the operator to a detector.

    Args:
        data: a model with the outputs ``encodings`` (1, N, 4) and ``scores`` (1, N, C), see :data:`CENTRE_SCALE`, float
            or quantized per tensor. Quantized inputs and outputs become float.
        anchors: (N, 4): centre y and x, height and width, as shares of the image.
        kept: which boxes are kept.

    Returns:
        The model with four float outputs: ``boxes`` (1, M, 4) as top, left, bottom and right in shares of the image,
        ``classes`` (1, M), ``scores`` (1, M) from the highest on, and ``count`` (1).

    Raises:
        UsageError: the file is damaged.
        StageError: the model has no such outputs, or the anchors do not fit them.
    """
    model = unpack(to_float_io(data))
    graph, signature = single_graph(model)
    places = {(entry.name or b"").decode(): int(entry.tensorIndex) for entry in signature.outputs or []}
    if set(places) != {ENCODINGS, SCORES}:
        raise StageError(f"the outputs {', '.join(sorted(places))} are not '{ENCODINGS}' and '{SCORES}'")
    shape = [int(side) for side in graph.tensors[places[SCORES]].shape]
    if anchors.shape != (shape[1], 4):
        raise StageError(f"anchors of shape {anchors.shape} for {shape[1]} places")
    float32 = schema.TensorType.FLOAT32
    content = np.ascontiguousarray(anchors, dtype="<f4").tobytes()
    reference = add_tensor(model, graph, "anchors", anchors.shape, float32, content)
    sizes = ((1, kept.most, 4), (1, kept.most), (1, kept.most), (1,))
    outputs = [add_tensor(model, graph, name, size, float32) for name, size in zip(DETECTIONS, sizes, strict=True)]
    operator = schema.OperatorT()
    operator.opcodeIndex = _code(model)
    operator.inputs = [places[ENCODINGS], places[SCORES], reference]
    operator.outputs = outputs
    operator.customOptions = list(_options(kept, shape[2]))
    graph.operators.append(operator)
    image = next(iter(signature.inputs)).name.decode()
    sign(model, graph, image, dict(zip(DETECTIONS, outputs, strict=True)))
    return pack(model)


def _code(model: schema.ModelT) -> int:
    code = schema.OperatorCodeT()
    code.builtinCode = schema.BuiltinOperator.CUSTOM
    code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode, code.version = OPERATOR.encode(), 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _options(kept: Suppression, classes: int) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("max_detections", kept.most)
        builder.Int("max_classes_per_detection", 1)
        builder.Int("detections_per_class", kept.most)
        builder.Bool("use_regular_nms", True)
        builder.Float("nms_score_threshold", kept.score)
        builder.Float("nms_iou_threshold", kept.overlap)
        builder.Int("num_classes", classes)
        for name, scale in (("y", CENTRE_SCALE), ("x", CENTRE_SCALE), ("h", SIDE_SCALE), ("w", SIDE_SCALE)):
            builder.Float(f"{name}_scale", scale)
    return bytes(builder.Finish())
