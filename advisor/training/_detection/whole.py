"""A detector that learnt other objects: its neck and its head go on, with new layers for the classes of the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.tflite import CENTRE_SCALE, SIDE_SCALE
from advisor.training._detection import FIRST_LOGIT
from advisor.training._detection.boxes import Anchors, learn_boxes
from advisor.training._on_maps import add_last
from advisor.training._on_maps.fit import TrainableHead
from advisor.training._on_maps.kept import Floats

if TYPE_CHECKING:
    import keras

    from advisor.catalog import BoxCode, Card, WholeDetector
    from advisor.downloads import WeightsFile

OURS = (CENTRE_SCALE, CENTRE_SCALE, SIDE_SCALE, SIDE_SCALE)
"""What the encodings of y, x, height and width are multiplied by in our files."""


def begin_detector(card: Card, weights: WeightsFile | None, classes: int) -> tuple[keras.Model, TrainableHead]:
    """Return the backbone of a whole detector, and its neck and head, which keep what they learnt.

    The layers that tell classes are new. Those that move boxes have their weights, in our order and scale.
    """
    from advisor.catalog import build_detector

    detector = build_detector(card, weights)
    return detector.maps, learn_boxes(with_classes(detector, classes), place_anchors(detector.code))


def with_classes(detector: WholeDetector, classes: int) -> keras.Model:
    """Return neck and head from the maps to logits (n, N, C) of new classes, and to encodings (n, N, 4)."""
    import keras

    logits = []
    encodings = []
    for level, old, moving in zip(detector.code.levels, detector.logits, detector.encodings, strict=True):
        scores = add_last(old.input, len(level.sides) * classes, FIRST_LOGIT)
        logits.append(keras.layers.Reshape((-1, classes))(scores))
        encodings.append(keras.layers.Reshape((-1, 4))(_move_boxes(moving, detector.code)))
    outputs = [
        parts[0] if len(parts) == 1 else keras.layers.Concatenate(axis=1)(parts) for parts in (logits, encodings)
    ]
    return keras.Model(detector.maps.outputs, outputs, name="head")


def _move_boxes(trained: keras.layers.Conv2D, code: BoxCode) -> keras.KerasTensor:
    """Return the encodings of a level, by a layer with the weights of the trained one, in our order and scale."""
    import keras

    layer = keras.layers.Conv2D(trained.filters, trained.kernel_size, padding=trained.padding)
    moved = layer(trained.input)
    layer.set_weights([reorder_encodings(values, code) for values in trained.get_weights()])
    return moved


def reorder_encodings(weights: Floats, code: BoxCode) -> Floats:
    """Return weights (..., 4 A) of a layer that gives the encodings of A anchors a place, in our order and scale."""
    rows = weights.reshape(*weights.shape[:-1], -1, 4)
    factors = [ours / code.scales[place] for ours, place in zip(OURS, code.order, strict=True)]
    moved = rows[..., list(code.order)] * np.asarray(factors, np.float32)
    return np.asarray(moved.reshape(weights.shape), np.float32)


def place_anchors(code: BoxCode) -> Anchors:
    """Return the anchors of all levels: place by place, row by row, each in the middle of its cell."""
    parts: list[Floats] = []
    for level in code.levels:
        rows, columns = level.cells
        y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
        centres = np.stack([y, x], axis=-1).reshape(-1, 1, 2)
        parts.append(_around(centres, level.sides))
    of_place = max(len(level.sides) for level in code.levels)
    return Anchors(np.concatenate(parts), tuple(map(len, parts)), of_place)


def _around(centres: Floats, sides: Sequence[Sequence[float]]) -> Floats:
    table = np.asarray(sides, np.float32)[None]
    shape = (len(centres), table.shape[1], 2)
    whole = np.concatenate([np.broadcast_to(centres, shape), np.broadcast_to(table, shape)], axis=-1)
    return whole.reshape(-1, 4).astype(np.float32)
