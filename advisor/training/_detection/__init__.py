"""Build the networks of heads for boxes and for centres, on the maps of a backbone.

`boxes.py` and `centres.py` add loss and targets, `anchors.py` the anchors, and `whole.py`
goes on with the head of a published detector. The tasks ``detection`` and ``counting`` train
them through `_on_maps/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.training._on_maps import add_last, build_pyramid, convolve_separably

if TYPE_CHECKING:
    import keras

# Channels of the maps of a head for boxes.
WIDTH = 96
# Places that its convolutions see, each way; see decision 0113.
BOX_SIDE = 5
# Channels of the maps of a head for centres, and its separable convolutions.
CENTRE_WIDTH = 64
CENTRE_DEPTH = 2

FIRST_LOGIT = -math.log(99)
"""Logit of every place before training, a score of 0.01: nearly all places have no object, which
would drive the first steps (T.-Y. Lin et al., "Focal Loss for Dense Object Detection", 2017,
section 3.3).
"""


def make_head(shapes: Sequence[tuple[int, int, int]], classes: int) -> keras.Model:
    """Return a new head for boxes, with logits (n, N, C) and encodings (n, N, 4).

    On each map, the finest first, separable convolutions lead to the logits of the classes and to
    the boxes, for the one anchor of each place.
    """
    import keras

    inputs = list(map(keras.Input, shapes))
    logits = []
    encodings = []
    for level in build_pyramid(inputs, WIDTH):
        seen = convolve_separably(convolve_separably(level, BOX_SIDE), BOX_SIDE)
        logits.append(keras.layers.Reshape((-1, classes))(add_last(seen, classes, FIRST_LOGIT)))
        encodings.append(keras.layers.Reshape((-1, 4))(add_last(seen, 4)))
    outputs = [join_levels(logits), join_levels(encodings)]
    return keras.Model(inputs, outputs, name="head")


def list_class_weights(model: keras.Model) -> list[keras.Variable]:
    """Return the weights of the convolutions that give the logits of a head for boxes."""
    import keras

    weights = []
    tensors = [model.outputs[0]]
    while tensors:
        layer = tensors.pop()._keras_history.operation
        if isinstance(layer, keras.layers.Conv2D):
            weights += layer.weights
        else:
            # The logits of all levels are reshaped and joined behind these layers.
            tensors += layer.input if isinstance(layer.input, list) else [layer.input]
    return weights


def join_levels(parts: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    """Return the outputs of all levels one after another."""
    import keras

    return parts[0] if len(parts) == 1 else keras.layers.Concatenate(axis=1)(parts)


def make_centre_head(shapes: Sequence[tuple[int, int, int]], classes: int) -> keras.Model:
    """Return a new head for centres, with logits (n, rows, columns, C) of the finest map."""
    import keras

    inputs = list(map(keras.Input, shapes))
    seen = build_pyramid(inputs, CENTRE_WIDTH)[0]
    for _ in range(CENTRE_DEPTH):
        seen = convolve_separably(seen)
    return keras.Model(inputs, add_last(seen, classes, FIRST_LOGIT), name="head")
