"""A whole detector as a Keras graph:
its backbone, and its neck and head with the layers that a training replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog._cards import Card
from advisor.catalog._convert import fill_graph_file
from advisor.catalog._graph_file import AnchorLevel, BoxCode, graph_of
from advisor.catalog._weights.readers import Array
from advisor.core import StageError
from advisor.tflite import Model, read

if TYPE_CHECKING:
    import keras

    from advisor.core import WeightsFile

LOGITS = "logits"
ENCODINGS = "encodings"
MAP = "map"
"""Outputs of a detector's graph file: (1, N, C) before scores are made of them, the encodings of
the boxes, and the maps that its neck reads, ``map0`` and so on, the finest first.
"""


@dataclass(frozen=True, eq=False)
class WholeDetector:
    """A detector with the weights that it learnt on other images."""

    maps: keras.Model  # from an image to the maps that the neck reads, the finest first
    # The last convolution of each level, which gives the logits of the classes.
    logits: tuple[keras.layers.Layer, ...]
    encodings: tuple[keras.layers.Layer, ...]  # the same for the boxes
    code: BoxCode

    @property
    def anchors(self) -> list[Array]:
        """The anchors of each level, float32 (N, 4):
        centre y and x, height and width in shares of the image.

        They stand place by place, row by row, each in the middle of its cell.
        """
        return list(map(place_anchors, self.code.levels))

    @property
    def anchors_of_place(self) -> int:
        """The number of anchors of a place."""
        return len(self.code.levels[0].sides)

    def encoding_weights(self, level: int, scales: Sequence[float]) -> list[Array]:
        """Return kernel and bias of the layer that moves the boxes of a level.

        They are for encodings of y, x, height and width that are multiplied by ``scales``.
        """
        return [
            reorder_encodings(values, self.code, scales)
            for values in self.encodings[level].get_weights()
        ]


def place_anchors(level: AnchorLevel) -> Array:
    """Return the anchors of a level, see :attr:`WholeDetector.anchors`."""
    rows, columns = level.cells
    y, x = np.meshgrid(
        (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij"
    )
    centres = np.stack([y, x], axis=-1).reshape(-1, 1, 2)
    sides = np.asarray(level.sides)[None]
    shape = (len(centres), sides.shape[1], 2)
    whole = np.concatenate(
        [np.broadcast_to(centres, shape), np.broadcast_to(sides, shape)], axis=-1
    )
    return whole.reshape(-1, 4).astype(np.float32)


def reorder_encodings(weights: Array, code: BoxCode, scales: Sequence[float]) -> Array:
    """Return weights (..., 4 A) of a layer that moves the boxes of A anchors a place,
    in another order and scale.
    """
    rows = weights.reshape(*weights.shape[:-1], -1, 4)
    factors = []
    for scale, place in zip(scales, code.order, strict=True):
        factors.append(scale / code.scales[place])
    moved = rows[..., list(code.order)] * np.asarray(factors)
    return np.asarray(moved.reshape(weights.shape), np.float32)


def build_detector(card: Card, weights: WeightsFile | None) -> WholeDetector:
    """Return the detector of a card; without weights they are random, with a fixed seed.

    StageError: the logits or the encodings come from something else
    than a convolution of each level.
    """
    import keras

    from advisor.catalog._keras_graph import keras_graph

    data = fill_graph_file(card, weights)
    model = keras_graph(data, card.name)
    code = graph_of(card).boxes
    assert code is not None, "the graph file of a whole detector states its anchors"
    file = read(data, card.name)
    parts = {}
    for output in (LOGITS, ENCODINGS):
        layers = tuple(map(model.get_layer, _list_last_layers(file, output)))
        parts[output] = layers
        if len(layers) != len(code.levels):
            raise StageError(
                f"{card.name}: {len(layers)} layers give its {output}, and it has"
                f" {len(code.levels)} levels"
            )
    maps = []
    for name in sorted(model.output):
        if name.startswith(MAP):
            maps.append(model.output[name])
    return WholeDetector(keras.Model(model.inputs[0], maps), parts[LOGITS], parts[ENCODINGS], code)


def _list_last_layers(model: Model, output: str) -> Iterator[str]:
    """Yield the names that :func:`keras_graph` gives to the convolutions
    that an output is joined from, in order.
    """
    number_of_maker = {}
    for number, operator in enumerate(model.operators):
        number_of_maker[operator.outputs[0]] = number
    outputs = dict(model.signatures[0].outputs)
    # From the output upwards, depth first:
    # so the levels come in the order in which they are joined.
    tensors_to_visit = [outputs[output]]
    while tensors_to_visit:
        tensor = tensors_to_visit.pop(0)
        number = number_of_maker[tensor]
        operator = model.operators[number]
        if operator.name == "CONCATENATION":
            tensors_to_visit = [*operator.inputs, *tensors_to_visit]
        elif operator.name == "RESHAPE":
            # Its second input is the shape.
            tensors_to_visit = [operator.inputs[0], *tensors_to_visit]
        elif operator.name == "CONV_2D":
            yield f"conv_2d.{number}"
        else:
            raise StageError(
                f"the {output} of a detector come from {operator.name}, and not from a convolution"
            )
