"""The network that is fine-tuned: pictures 0..255 in, logits out, built from a card's trunk and a trained head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.training.head import Head

STEP = 32
"""Sides that training may take are multiples of this, as five halvings need."""


def build(trunk: Any, head: Head, mean: Sequence[float], std: Sequence[float], trained: float) -> Any:
    """Return a ``keras.Model`` from pictures (n, S', S', 3), 0..255, to logits (n, C).

    It holds a copy of the trunk in its layer ``trunk``, of any side S' where the trunk allows, else of its own; and the
    head in its layer ``head``.

    Args:
        trunk: ``keras.Model`` from one normalised picture (1, S, S, 3) to features (1, F).
        head: to begin with.
        mean: per-channel mean on RGB 0..255.
        std: per-channel scale on RGB 0..255.
        trained: share of the trunk's layers that learn, from the top.
    """
    import keras

    body = _copy(trunk)
    body.name = "trunk"
    _freeze(body, trained)
    pictures = keras.Input(body.inputs[0].shape[1:], name="pictures")
    normal = keras.layers.Normalization(mean=list(mean), variance=[value**2 for value in std], name="normal")
    dense = keras.layers.Dense(len(head.bias), name="head")
    model = keras.Model(pictures, dense(body(normal(pictures))))
    dense.set_weights([head.weights, head.bias])
    return model


def training_side(model: Any, side: int, shrink: float) -> int:
    """Return the side of training pictures: ``shrink`` of the model's, or its own where the network admits no other."""
    if model.inputs[0].shape[1] is not None:
        return side
    return max(STEP, min(side, round(shrink * side / STEP) * STEP)) if shrink < 1 else side


def _copy(trunk: Any) -> Any:
    import keras

    size = int(trunk.inputs[0].shape[1])
    try:
        body = keras.models.clone_model(trunk, input_tensors=keras.Input((None, None, 3)))
        flexible = body.outputs[0].shape == (None, trunk.outputs[0].shape[-1])
    except (ValueError, TypeError):
        flexible = False
    if not flexible:
        body = keras.models.clone_model(trunk, input_tensors=keras.Input((size, size, 3)))
    body.set_weights(trunk.get_weights())
    return body


def _freeze(body: Any, trained: float) -> None:
    """Freeze all but the top. BatchNorm's scale and offset learn with their block; its statistics never move, as every
    call is made with ``training=False``."""
    layers = body.layers
    first = round((1.0 - trained) * len(layers))
    for place, layer in enumerate(layers):
        layer.trainable = place >= first
