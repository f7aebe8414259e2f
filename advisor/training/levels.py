"""The levels of a Keras trunk: the maps whose means the features of its file hold beside its own.

The same rule as of :mod:`advisor.tflite.levels`, read off layers instead of operators, so that a trunk can learn with
the head that reads all of its levels.
"""

from __future__ import annotations

from typing import Any

from advisor.tflite.levels import LARGEST_SHARE

MARGIN = 1e-2
"""Error of a level's mean, over the spread of the features, below which two ways to compute it are the same."""


def level_layers(trunk: Any) -> list[str]:
    """Return the layers whose outputs are the levels of a trunk, in the order of the file's features.

    Args:
        trunk: ``keras.Model`` from one picture (1, S, S, 3) to features (1, F).
    """
    import keras

    reading = tuple(
        getattr(keras.layers, name) for name in ("Conv2D", "DepthwiseConv2D", "MaxPooling2D", "AveragePooling2D")
    )
    strided: dict[int, tuple[str, int]] = {}
    windowed: dict[int, tuple[str, int]] = {}
    for layer in trunk.layers:
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
    whole = max(trunk.inputs[0].shape[1:3])
    levels = windowed | strided
    return [levels[side][0] for side in sorted(levels) if side <= whole // LARGEST_SHARE]


def with_levels(trunk: Any, names: list[str]) -> Any:
    """Return the trunk with the means of these layers' maps behind its features."""
    import keras

    if not names:
        return trunk
    means = [keras.layers.GlobalAveragePooling2D()(trunk.get_layer(name).output) for name in names]
    return keras.Model(trunk.inputs[0], keras.layers.Concatenate()([trunk.outputs[0], *means]))


def agrees(trunk: Any, names: list[str], pictures: Any, features: Any) -> bool:
    """True where these levels of a trunk are what a file's features hold.

    Args:
        trunk: as of :func:`level_layers`.
        names: its levels.
        pictures: normalised, float32 (n, S, S, 3).
        features: what LiteRT computed of them, float32 (n, F).
    """
    import numpy as np

    width = int(trunk.outputs[0].shape[-1]) + sum(int(trunk.get_layer(name).output.shape[-1]) for name in names)
    if width != features.shape[1]:
        return False
    model = with_levels(trunk, names)
    found = np.concatenate([np.asarray(model(picture[None], training=False)) for picture in pictures])
    return bool(np.abs(found - features).max() <= MARGIN * max(float(features.std()), 1e-6))


def _maker(layer: Any) -> tuple[Any, Any]:
    """Return the layer that made what this one reads, before padding, and the shape of it."""
    import keras

    source = layer.input
    maker = source._keras_history.operation
    if isinstance(maker, keras.layers.ZeroPadding2D):
        source = maker.input
        maker = source._keras_history.operation
    return maker, source.shape
