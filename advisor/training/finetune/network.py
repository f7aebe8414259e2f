"""Build the network for fine-tuning from a card's backbone and a trained head: images 0..255 in, logits out.

The head reads every level of the backbone, as in training without fine-tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.training.finetune.levels import with_levels

if TYPE_CHECKING:
    import keras

    from advisor.training.head.train import Head

Floats = NDArray[np.float32]

LEAST_SPREAD = 0.02
"""Least standard deviation of a feature over the median one. Dividing by less would enlarge small changes too much."""

STEP = 32
"""Sides for training are multiples of this, as networks halve the side five times."""


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a fine-tuning.

    Attributes:
        head: on the features of the backbone, followed by those of its levels.
        levels: layers of the backbone, see :func:`advisor.training.finetune.levels.level_layers`.
        mean: of each feature, float32 (F,).
        spread: standard deviation of each feature, float32 (F,). The head is trained on standardised features, so that
            one rate suits all of them.
    """

    head: Head
    levels: tuple[str, ...] = ()
    mean: Floats | None = None
    spread: Floats | None = None


def build(backbone: keras.Model, start: Start, spec: InputSpec, trained: float) -> keras.Model:
    """Return a ``keras.Model`` from images (n, S', S', 3), 0..255, to logits (n, C).

    Its layer ``backbone`` is a copy of the backbone, for any side S' if the backbone allows it. Its layer ``head`` is
    the head.

    Args:
        backbone: ``keras.Model`` from one normalised image (1, S, S, 3) to features (1, F).
        start: head and levels at the start.
        spec: how an image becomes the backbone's input.
        trained: share of the backbone's layers that are trained, from the top.
    """
    import keras

    body = _copy(backbone)
    _freeze(body, trained)
    body = with_levels(body, list(start.levels))
    body.name = "backbone"
    images = keras.Input(body.inputs[0].shape[1:], name="pictures")
    normal = keras.layers.Normalization(mean=list(spec.mean), variance=[value**2 for value in spec.std], name="normal")
    middle, spread = _scales(start)
    standard = keras.layers.Rescaling(1.0 / spread, -middle / spread, name="standard")
    dense = keras.layers.Dense(len(start.head.bias), name="head")
    model = keras.Model(images, dense(standard(body(normal(images)))))
    weights, bias = start.head.weights, start.head.bias
    dense.set_weights([np.asarray(weights * spread[:, None]), np.asarray(bias + middle @ weights)])
    return model


def parts(model: keras.Model, backbone: keras.Model, start: Start) -> tuple[Floats, Floats]:
    """Copy the trained weights into ``backbone``; return the head's weights (F, C) and bias (C,) on raw features."""
    body = model.get_layer("backbone")
    for layer in (layer for layer in backbone.layers if layer.weights):
        layer.set_weights(body.get_layer(layer.name).get_weights())
    middle, spread = _scales(start)
    weights, bias = model.get_layer("head").get_weights()
    weights = weights / spread[:, None]
    return weights.astype("float32"), (bias - middle @ weights).astype("float32")


def _scales(start: Start) -> tuple[Floats, Floats]:
    width = len(start.head.weights)
    middle = np.zeros(width, np.float32) if start.mean is None else start.mean
    if start.spread is None:
        return middle, np.ones(width, np.float32)
    floor = max(LEAST_SPREAD * float(np.median(start.spread)), 1e-6)
    return middle, np.maximum(start.spread, floor).astype(np.float32)


def training_side(model: keras.Model, side: int, shrink: float) -> int:
    """Return the side of training images: ``shrink`` times the model's; the model's if it is fixed."""
    if model.inputs[0].shape[1] is not None:
        return side
    return max(STEP, min(side, round(shrink * side / STEP) * STEP)) if shrink < 1 else side


def _copy(backbone: keras.Model) -> keras.Model:
    import keras

    size = int(backbone.inputs[0].shape[1])
    try:
        body = keras.models.clone_model(backbone, input_tensors=keras.Input((None, None, 3)))
        flexible = body.outputs[0].shape == (None, backbone.outputs[0].shape[-1])
    except (ValueError, TypeError):
        flexible = False
    if not flexible:
        body = keras.models.clone_model(backbone, input_tensors=keras.Input((size, size, 3)))
    body.set_weights(backbone.get_weights())
    return body


def _freeze(body: keras.Model, trained: float) -> None:
    """Freeze all but the top layers.

    BatchNorm's scale and offset are trained with their block. Its statistics never change, as every call has
    ``training=False``.
    """
    layers = body.layers
    first = round((1.0 - trained) * len(layers))
    for place, layer in enumerate(layers):
        layer.trainable = place >= first
