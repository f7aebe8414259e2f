"""Cut a backbone at its maps of places, and add the largest score of the places to its features.

A label is often told by one small place of an image, such as a platelet between blood cells, and
the mean over all places hides it. A linear kernel scores each place of a map, and the largest
score of each label is a feature more. Taggers alone use it: `_places.py` runs what
:func:`select_place_maps` returns, and :func:`with_places` joins the kernels with the backbone.

If equal backbones give other maps after a change, raise ``VERSION`` of `tasks/tagging/_places.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.tflite import Tables, unpack

Floats = NDArray[np.float32]

SIDES = (6.0, 24.0)
"""Ratios of the image's side to that of a map, exclusive: maps of strides 8 and 16.

Finer maps hold edges, and one place of a coarser one sees a large part of the image.
"""

# What :func:`advisor.tflite.with_levels` calls the mean of each map.
_LEVEL = b"levels/"
_JOINED = "places/features"
_OPERATOR = schema.BuiltinOperator
_FLOAT32 = schema.TensorType.FLOAT32
_INT32 = schema.TensorType.INT32


@dataclass(frozen=True, eq=False)
class PlaceKernel:
    """Weights (F, C) and bias (C,) of the score of each place of a map for each label.

    The feature of a label is the largest score, or 0 if that is below 0.
    """

    weights: Floats
    bias: Floats


def select_place_maps(data: bytes) -> bytes:
    """Return the part of a backbone that makes the maps of places, float32 (1, H, W, F).

    Its outputs are ``map0``, ``map1`` and so on, the coarsest first. The file comes from
    :func:`advisor.tflite.with_levels`. StageError is raised if it has no such map.
    """
    model = unpack(data)
    graph, signature = model.find_single_graph()
    maps = _find_maps(graph)
    if not maps:
        raise StageError("the backbone has no map of stride 8 or 16")
    image = signature.inputs[0].name.decode()
    outputs = {f"map{number}": tensor for number, tensor in enumerate(maps)}
    model.replace_signature(graph, image, outputs)
    model.prune_tensors(graph)
    return model.pack()


def with_places(data: bytes, kernels: Sequence[PlaceKernel]) -> bytes:
    """Append the largest score over the places of each map to the output ``features``, (1, F).

    The file comes from :func:`advisor.tflite.with_levels`, and the kernels belong to the maps that
    :func:`select_place_maps` gives, in their order. StageError is raised if they do not fit. The
    scores are computed where the map is made, so that no map lives longer than before.
    """
    model = unpack(data)
    graph, signature = model.find_single_graph()
    maps = _find_maps(graph)
    widths = [int(graph.tensors[tensor].shape[3]) for tensor in maps]
    if widths != [len(kernel.weights) for kernel in kernels]:
        raise StageError(f"kernels of places do not fit maps of {widths} channels")
    # A head has a layer for each part that is concatenated, so the parts join those of the levels.
    parts = _list_parts(graph)
    for number, (tensor, kernel) in enumerate(zip(maps, kernels, strict=True)):
        parts.append(_add_largest(model, graph, tensor, kernel, f"places/{number}"))
    width = 0
    for part in parts:
        width += int(graph.tensors[part].shape[1])
    options = schema.ConcatenationOptionsT(axis=1)
    code = _OPERATOR.CONCATENATION
    output = model.append_operator(graph, code, parts, _JOINED, (1, width), options)
    graph.outputs = [output]
    signature.outputs[0].tensorIndex = output
    model.prune_tensors(graph)
    return model.pack()


def _find_maps(graph: schema.SubGraphT) -> list[int]:
    """Return the tensors of the maps whose means are levels, of strides 8 and 16."""
    image = graph.tensors[graph.inputs[0]]
    image_side = max(map(int, image.shape[1:3]))
    low, high = SIDES
    by_number = {}
    for operator in graph.operators:
        output = int(operator.outputs[0])
        name = graph.tensors[output].name or b""
        if not name.startswith(_LEVEL):
            continue
        number = name.removeprefix(_LEVEL)
        if not number.isdigit():
            continue
        tensor = int(operator.inputs[0])
        shape = graph.tensors[tensor].shape
        side = max(map(int, shape[1:3]))
        stride = image_side / side
        if low < stride < high:
            by_number[int(number)] = tensor
    maps = []
    for number in sorted(by_number):
        maps.append(by_number[number])
    return maps


def _list_parts(graph: schema.SubGraphT) -> list[int]:
    """Return the vectors that the levels' features concatenate, those of the last layer first."""
    output = int(graph.outputs[0])
    for operator in graph.operators:
        if output in operator.outputs:
            return list(map(int, operator.inputs))
    raise StageError("the backbone makes no features")


def _add_largest(
    model: Tables, graph: schema.SubGraphT, tensor: int, kernel: PlaceKernel, name: str
) -> int:
    """Add the largest score over the places of a map, after its operator; return it, (1, C)."""
    height, width = map(int, graph.tensors[tensor].shape[1:3])
    classes = len(kernel.bias)
    # As a convolution and a pooling, both of which XNNPACK takes in 8 bits.
    by_label = np.ascontiguousarray(kernel.weights.T, "<f4")
    weights = by_label.reshape(classes, 1, 1, -1)
    bias = np.ascontiguousarray(kernel.bias, "<f4")
    content = weights.tobytes()
    weights_index = model.add_tensor(graph, f"{name}/weights", weights.shape, _FLOAT32, content)
    content = bias.tobytes()
    bias_index = model.add_tensor(graph, f"{name}/bias", bias.shape, _FLOAT32, content)
    content = np.array([1, classes], "<i4").tobytes()
    shape = model.add_tensor(graph, f"{name}/shape", (2,), _INT32, content)
    scores = model.add_tensor(graph, f"{name}/scores", (1, height, width, classes), _FLOAT32)
    pooled = model.add_tensor(graph, f"{name}/pooled", (1, 1, 1, classes), _FLOAT32)
    largest = model.add_tensor(graph, f"{name}/largest", (1, classes), _FLOAT32)
    convolution = schema.Conv2DOptionsT(padding=schema.Padding.VALID)
    convolution.strideW = 1
    convolution.strideH = 1
    convolution.dilationWFactor = 1
    convolution.dilationHFactor = 1
    # Scores below 0 would widen the range of 8 bits, and no largest score is there.
    convolution.fusedActivationFunction = schema.ActivationFunctionType.RELU
    pooling = schema.Pool2DOptionsT(padding=schema.Padding.VALID)
    pooling.strideW = width
    pooling.strideH = height
    pooling.filterWidth = width
    pooling.filterHeight = height
    reshaping = schema.ReshapeOptionsT(newShape=[1, classes])
    inputs = [tensor, weights_index, bias_index]
    added = [
        model.make_operator(_OPERATOR.CONV_2D, inputs, scores, convolution),
        model.make_operator(_OPERATOR.MAX_POOL_2D, [scores], pooled, pooling),
        model.make_operator(_OPERATOR.RESHAPE, [pooled, shape], largest, reshaping),
    ]
    operators = []
    for operator in graph.operators:
        operators.append(operator)
        if tensor in operator.outputs:
            operators += added
    graph.operators = operators
    return largest
