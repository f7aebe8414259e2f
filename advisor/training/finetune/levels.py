"""Find the levels of a Keras backbone: the maps whose means are part of the features of its file.

The rule is that of :mod:`advisor.tflite.levels`, applied to layers instead of operators. So a backbone can be trained
together with a head that reads all levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.tflite.levels import LARGEST_SHARE

if TYPE_CHECKING:
    import keras

MARGIN = 1e-2
"""Largest difference between Keras and the file, over the standard deviation of the features."""


def level_layers(backbone: keras.Model) -> list[str]:
    """Return the layers whose outputs are the levels of a backbone, in the order of the file's features.

    Args:
        backbone: ``keras.Model`` from one image (1, S, S, 3) to features (1, F).
    """
    import keras

    reading = tuple(
        getattr(keras.layers, name) for name in ("Conv2D", "DepthwiseConv2D", "MaxPooling2D", "AveragePooling2D")
    )
    strided: dict[int, tuple[str, int]] = {}
    windowed: dict[int, tuple[str, int]] = {}
    for layer in backbone.layers:
        if not isinstance(layer, reading) or max(layer.output.shape[1:3]) < 2:
            continue
        maker, shape = _maker(layer)
        if isinstance(maker, keras.layers.InputLayer):
            continue
        window = getattr(layer, "kernel_size", None) or layer.pool_size
        for found, counts in ((strided, max(layer.strides) > 1), (windowed, window[0] > 1)):
            side = max(shape[1:3])
            if counts and (side not in found or shape[3] >= found[side][1]):
                found[side] = (maker.name, shape[3])
    whole = max(backbone.inputs[0].shape[1:3])
    levels = windowed | strided
    return [levels[side][0] for side in sorted(levels) if side <= whole // LARGEST_SHARE]


def with_levels(backbone: keras.Model, names: list[str]) -> keras.Model:
    """Return the backbone with the means of these layers' maps appended to its features."""
    import keras

    if not names:
        return backbone
    means = [keras.layers.GlobalAveragePooling2D()(backbone.get_layer(name).output) for name in names]
    return keras.Model(backbone.inputs[0], keras.layers.Concatenate()([backbone.outputs[0], *means]))


def agrees(backbone: keras.Model, names: list[str], images: NDArray[np.float32], features: NDArray[np.float32]) -> bool:
    """Return whether a backbone with these levels gives the features of the file.

    Args:
        backbone: as of :func:`level_layers`.
        names: its levels.
        images: normalised, float32 (n, S, S, 3).
        features: of the same images by LiteRT, float32 (n, F).
    """
    width = int(backbone.outputs[0].shape[-1]) + sum(int(backbone.get_layer(name).output.shape[-1]) for name in names)
    if width != features.shape[1]:
        return False
    model = with_levels(backbone, names)
    found = np.concatenate([np.asarray(model(image[None], training=False)) for image in images])
    return bool(np.abs(found - features).max() <= MARGIN * max(float(features.std()), 1e-6))


def _maker(layer: keras.Layer) -> tuple[keras.Layer, tuple[int, ...]]:
    """Return the layer that feeds this one, before padding, and the shape of its output."""
    import keras

    source = layer.input
    maker = source._keras_history.operation
    if isinstance(maker, keras.layers.ZeroPadding2D):
        source = maker.input
        maker = source._keras_history.operation
    return maker, source.shape
