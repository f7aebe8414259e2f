"""The networks of a detector in Keras: the backbone's maps, the head on them, and both in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.tflite.postprocess import ENCODINGS, SCORES
from advisor.training.finetune.network import level_layers

if TYPE_CHECKING:
    import keras

WIDTH = 96
"""Channels of the head's maps."""

COARSEST, FINEST = 32, 8
"""Pixels of the input to a cell of the coarsest and of the finest map that the head reads."""

FIRST_SCORE = 0.01
"""Score of every place before training: nearly all places have no object, which would drive the first steps (T.-Y. Lin
et al., "Focal Loss for Dense Object Detection", 2017, section 3.3)."""


def with_maps(backbone: keras.Model) -> keras.Model:
    """Return the backbone with its maps as outputs, the finest first.

    Args:
        backbone: ``keras.Model`` from one normalised image (1, S, S, 3) to features (1, F).
    """
    import keras

    side = int(backbone.inputs[0].shape[1])
    outputs = [*(backbone.get_layer(name).output for name in level_layers(backbone)), _last_map(backbone)]
    by_side = {int(output.shape[1]): output for output in outputs}
    wanted = [each for each in sorted(by_side, reverse=True) if FINEST <= round(side / each) <= COARSEST]
    return keras.Model(backbone.inputs[0], [by_side[each] for each in wanted])


def _last_map(backbone: keras.Model) -> keras.KerasTensor:
    """Return the output of the last layer with more than one place."""
    maps = [layer.output for layer in backbone.layers if len(layer.output.shape) == 4]
    return next(output for output in reversed(maps) if output.shape[1] > 1)


def head(shapes: Sequence[tuple[int, int, int]], classes: int) -> keras.Model:
    """Return a head without weights of a training.

    A feature pyramid adds the coarser maps to the finer ones (T.-Y. Lin et al., "Feature Pyramid Networks", 2017). On
    each map, one branch of separable convolutions gives the logits of the classes, another one the boxes, for the one
    anchor of each place.

    Args:
        shapes: rows, columns and channels of the maps, the finest first.
        classes: number of classes C.

    Returns:
        ``keras.Model`` from the maps to logits (n, N, C) and encodings (n, N, 4).
    """
    import keras

    inputs = [keras.Input(shape) for shape in shapes]
    maps = [_normal(keras.layers.Conv2D(WIDTH, 1, use_bias=False)(one)) for one in inputs]
    merged = [maps[-1]]
    for finer in reversed(maps[:-1]):
        rows, columns = finer.shape[1:3]
        larger = keras.layers.Resizing(rows, columns, interpolation="nearest")(merged[0])
        merged.insert(0, keras.layers.Add()([finer, larger]))
    logits, encodings = [], []
    for one in merged:
        seen = _separable(one)
        logits.append(keras.layers.Reshape((-1, classes))(_last(_separable(seen), classes, _bias())))
        encodings.append(keras.layers.Reshape((-1, 4))(_last(_separable(seen), 4, "zeros")))
    return keras.Model(inputs, [_joined(logits), _joined(encodings)], name="head")


def _bias() -> keras.initializers.Initializer:
    import keras

    return keras.initializers.Constant(-math.log((1 - FIRST_SCORE) / FIRST_SCORE))


def _last(maps: keras.KerasTensor, channels: int, bias: keras.initializers.Initializer | str) -> keras.KerasTensor:
    import keras

    small = keras.initializers.RandomNormal(stddev=0.01)
    return keras.layers.Conv2D(channels, 1, kernel_initializer=small, bias_initializer=bias)(maps)


def _separable(maps: keras.KerasTensor) -> keras.KerasTensor:
    import keras

    deep = keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(maps)
    deep = keras.layers.ReLU(6)(_normal(deep))
    return keras.layers.ReLU(6)(_normal(keras.layers.Conv2D(WIDTH, 1, use_bias=False)(deep)))


def _normal(maps: keras.KerasTensor) -> keras.KerasTensor:
    import keras

    return keras.layers.BatchNormalization(momentum=0.9)(maps)


def _joined(parts: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    import keras

    return parts[0] if len(parts) == 1 else keras.layers.Concatenate(axis=1)(parts)


def detector(maps: keras.Model, head: keras.Model) -> keras.Model:
    """Return backbone and head in one, for conversion.

    Args:
        maps: see :func:`with_maps`.
        head: see :func:`head`.

    Returns:
        ``keras.Model`` from one normalised image (1, S, S, 3) to ``encodings`` (1, N, 4) and ``scores`` (1, N, C).
    """
    import keras

    image = keras.Input(maps.inputs[0].shape[1:], batch_size=1, name="image")
    found = maps(image)
    logits, encodings = head(found if isinstance(found, list | tuple) else [found])
    scores = keras.layers.Activation("sigmoid", name=SCORES)(logits)
    return keras.Model(image, {ENCODINGS: keras.layers.Activation("linear", name=ENCODINGS)(encodings), SCORES: scores})
