"""The network that is fine-tuned: images 0..255 in, logits out, built from a card's backbone and a trained head.

The head reads every level of the backbone, as heads alone do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.datasets.images import InputSpec
from advisor.training.finetune.levels import with_levels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.training.head.train import Head

    Floats = NDArray[np.float32]

LEAST_SPREAD = 0.02
"""Of the median: a feature that hardly ever moves would be blown up as soon as the backbone moves it."""

STEP = 32
"""Sides that training may take are multiples of this, as five halvings need."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where the network begins.

    Attributes:
        head: on the features of the backbone and, behind them, of its levels.
        levels: layers of the backbone, see :func:`advisor.training.finetune.levels.level_layers`.
        mean: of each feature, float32 (F,).
        spread: standard deviation of each feature, float32 (F,): the head learns on standardised features, so that one
            rate suits all of them.
    """

    head: Head
    levels: tuple[str, ...] = ()
    mean: Floats | None = None
    spread: Floats | None = None


def build(backbone: Any, start: Start, view: InputSpec, trained: float) -> Any:
    """Return a ``keras.Model`` from images (n, S', S', 3), 0..255, to logits (n, C).

    It holds a copy of the backbone in its layer ``backbone``, of any side S' where it allows that; and the
    head in its layer ``head``.

    Args:
        backbone: ``keras.Model`` from one normalised image (1, S, S, 3) to features (1, F).
        start: head and levels to begin with.
        view: how an image becomes the backbone's input.
        trained: share of the backbone's layers that learn, from the top.
    """
    import keras
    import numpy as np

    body = _copy(backbone)
    _freeze(body, trained)
    body = with_levels(body, list(start.levels))
    body.name = "backbone"
    images = keras.Input(body.inputs[0].shape[1:], name="pictures")
    normal = keras.layers.Normalization(mean=list(view.mean), variance=[value**2 for value in view.std], name="normal")
    middle, spread = _scales(start)
    standard = keras.layers.Rescaling(1.0 / spread, -middle / spread, name="standard")
    dense = keras.layers.Dense(len(start.head.bias), name="head")
    model = keras.Model(images, dense(standard(body(normal(images)))))
    weights, bias = start.head.weights, start.head.bias
    dense.set_weights([np.asarray(weights * spread[:, None]), np.asarray(bias + middle @ weights)])
    return model


def parts(model: Any, backbone: Any, start: Start) -> tuple[Floats, Floats]:
    """Put what the network has learnt into ``backbone``; return weights (F, C) and bias (C,) on raw features."""
    body = model.get_layer("backbone")
    for layer in (layer for layer in backbone.layers if layer.weights):
        layer.set_weights(body.get_layer(layer.name).get_weights())
    middle, spread = _scales(start)
    weights, bias = model.get_layer("head").get_weights()
    weights = weights / spread[:, None]
    return weights.astype("float32"), (bias - middle @ weights).astype("float32")


def _scales(start: Start) -> tuple[Floats, Floats]:
    import numpy as np

    width = len(start.head.weights)
    middle = np.zeros(width, np.float32) if start.mean is None else start.mean
    if start.spread is None:
        return middle, np.ones(width, np.float32)
    floor = max(LEAST_SPREAD * float(np.median(start.spread)), 1e-6)
    return middle, np.maximum(start.spread, floor).astype(np.float32)


def training_side(model: Any, side: int, shrink: float) -> int:
    """Return the side of training images: ``shrink`` of the model's, or its own where the network admits no other."""
    if model.inputs[0].shape[1] is not None:
        return side
    return max(STEP, min(side, round(shrink * side / STEP) * STEP)) if shrink < 1 else side


def _copy(backbone: Any) -> Any:
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


def _freeze(body: Any, trained: float) -> None:
    """Freeze all but the top. BatchNorm's scale and offset learn with their block; its statistics never move, as every
    call is made with ``training=False``."""
    layers = body.layers
    first = round((1.0 - trained) * len(layers))
    for place, layer in enumerate(layers):
        layer.trainable = place >= first
