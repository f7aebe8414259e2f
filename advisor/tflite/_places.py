"""Add a score of the place that tells most about a label to the features of a backbone.

A label is often told by one small place of an image, such as a platelet between blood cells, and
the mean over all places hides it. A linear kernel scores each place of a map, and the largest score
of each label is a feature more. Taggers alone use it: :func:`select_place_maps` gives the maps that
kernels learn from (`training/_places.py`), and :func:`with_places` joins them with the backbone.

If equal backbones give other maps after a change, raise ``PLACES_VERSION``: it is a part of the
keys of cached stages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError
from advisor.tflite._levels import JOINED, Level, find_levels
from advisor.tflite._rewrite import unpack
from advisor.tflite._tables import Tables, index_makers

Floats = npt.NDArray[np.float32]

PLACES_VERSION = 1
"""Raised when an equal backbone gives other maps."""

SIDES = (6.0, 24.0)
"""Ratios of the image's side to that of a map, exclusive: maps of strides 8 and 16.

Finer maps hold edges, and one place of a coarser one sees a large part of the image.
"""

_OPERATOR = schema.BuiltinOperator
_FLOAT32 = schema.TensorType.FLOAT32


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
    :func:`.with_levels`. StageError is raised if it has no such map.
    """
    model = unpack(data)
    graph, signature = model.find_single_graph()
    maps = [level.tensor for level in _find_place_maps(model, graph)]
    if not maps:
        raise StageError("the backbone has no map of stride 8 or 16")
    image = signature.inputs[0].name.decode()
    model.replace_signature(graph, image, {f"map{n}": tensor for n, tensor in enumerate(maps)})
    model.prune_tensors(graph)
    return model.pack()


def with_places(data: bytes, kernels: Sequence[PlaceKernel]) -> bytes:
    """Append the largest score over the places of each map to the output ``features``, (1, F).

    The file comes from :func:`.with_levels`, and the kernels belong to the maps that
    :func:`select_place_maps` gives, in their order. The scores are computed where the map is made,
    so that no map lives longer than before. StageError is raised if the kernels do not fit.
    """
    model = unpack(data)
    graph, signature = model.find_single_graph()
    levels = _find_place_maps(model, graph)
    widths = [level.channels for level in levels]
    if widths != [len(kernel.weights) for kernel in kernels]:
        raise StageError(f"kernels of places do not fit maps of {widths} channels")
    largest = []
    for number, (level, kernel) in enumerate(zip(levels, kernels, strict=True)):
        largest.append(_add_largest(model, graph, level, kernel, f"places/{number}"))
    features = int(graph.outputs[0])
    parts = [features]
    maker = index_makers(graph).get(features)
    if maker is not None and graph.tensors[features].name == JOINED.encode():
        parts = list(map(int, maker.inputs))
    parts += largest
    width = sum(int(graph.tensors[part].shape[1]) for part in parts)
    options = schema.ConcatenationOptionsT(axis=1)
    code = _OPERATOR.CONCATENATION
    output = model.append_operator(graph, code, parts, JOINED, (1, width), options)
    graph.outputs = [output]
    signature.outputs[0].tensorIndex = output
    model.prune_tensors(graph)
    return model.pack()


def _find_place_maps(model: Tables, graph: schema.SubGraphT) -> list[Level]:
    image_side = max(map(int, graph.tensors[graph.inputs[0]].shape[1:3]))
    low, high = SIDES
    return [level for level in find_levels(model, graph) if low < image_side / level.side < high]


def _add_largest(
    model: Tables, graph: schema.SubGraphT, level: Level, kernel: PlaceKernel, name: str
) -> int:
    """Add the largest score over the places of a map, after its operator; return it, (1, C)."""
    height, width = map(int, graph.tensors[level.tensor].shape[1:3])
    classes = len(kernel.bias)
    weights = np.ascontiguousarray(kernel.weights.T, "<f4").reshape(classes, 1, 1, -1)
    bias = np.ascontiguousarray(kernel.bias, "<f4")
    constants = [
        model.add_tensor(graph, f"{name}/weights", weights.shape, _FLOAT32, weights.tobytes()),
        model.add_tensor(graph, f"{name}/bias", bias.shape, _FLOAT32, bias.tobytes()),
        model.add_tensor(graph, f"{name}/shape", (2,), schema.TensorType.INT32, _shape(classes)),
    ]
    scores = model.add_tensor(graph, f"{name}/scores", (1, height, width, classes), _FLOAT32)
    pooled = model.add_tensor(graph, f"{name}/pooled", (1, 1, 1, classes), _FLOAT32)
    largest = model.add_tensor(graph, f"{name}/largest", (1, classes), _FLOAT32)
    convolve = schema.Conv2DOptionsT(
        padding=schema.Padding.VALID,
        strideW=1,
        strideH=1,
        # Scores below 0 would widen the range of 8 bits, and no largest score is there.
        fusedActivationFunction=schema.ActivationFunctionType.RELU,
        dilationWFactor=1,
        dilationHFactor=1,
    )
    pool = schema.Pool2DOptionsT(
        padding=schema.Padding.VALID,
        strideW=width,
        strideH=height,
        filterWidth=width,
        filterHeight=height,
    )
    reshape = schema.ReshapeOptionsT(newShape=[1, classes])
    inputs = [level.tensor, *constants[:2]]
    added = [
        model.make_operator(_OPERATOR.CONV_2D, inputs, scores, convolve),
        model.make_operator(_OPERATOR.MAX_POOL_2D, [scores], pooled, pool),
        model.make_operator(_OPERATOR.RESHAPE, [pooled, constants[2]], largest, reshape),
    ]
    operators = list(graph.operators)
    makers = index_makers(graph)
    place = operators.index(makers[level.tensor]) + 1
    graph.operators = [*operators[:place], *added, *operators[place:]]
    return largest


def _shape(classes: int) -> bytes:
    return np.array([1, classes], "<i4").tobytes()
