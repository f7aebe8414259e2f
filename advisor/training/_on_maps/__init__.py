"""Build networks on the maps of a backbone: the maps, and the parts of heads on them.

Tasks whose answers have places (boxes, centres, pixels) build their heads of these parts and train
them with `train.py`. Read `train.py` next, then `fit.py` (the training), `kept.py` (its images)
and `changes.py` (random changes of images with their labels).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from advisor.training._finetune.network import level_layers

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Pixels of the input to a cell of the coarsest and of the finest map that the head reads.
COARSEST = 32
FINEST = 8


def with_maps(backbone: keras.Model, coarsest: int = COARSEST) -> keras.Model:
    """Return the backbone with its maps as outputs, the finest first.

    A cell of the coarsest map has at most ``coarsest`` pixels of the input.
    """
    import keras

    side = int(backbone.inputs[0].shape[1])
    for layer in reversed(backbone.layers):
        last = layer.output
        # The pooled features are maps of one position in some networks.
        if len(last.shape) == 4 and last.shape[1] > 1:
            break
    maps_by_side: dict[int, keras.KerasTensor] = {}
    for name in level_layers(backbone):
        output = backbone.get_layer(name).output
        maps_by_side[int(output.shape[1])] = output
    # Of maps with one side, the last layer's counts.
    maps_by_side[int(last.shape[1])] = last
    maps = []
    for side_of_map in sorted(maps_by_side, reverse=True):
        if FINEST <= round(side / side_of_map) <= coarsest:
            maps.append(maps_by_side[side_of_map])
    return keras.Model(backbone.inputs[0], maps)


def build_pyramid(maps: Sequence[keras.KerasTensor], width: int) -> list[keras.KerasTensor]:
    """Add the coarser maps to the finer ones.

    Source: T.-Y. Lin et al., "Feature Pyramid Networks" (2017).
    """
    import keras

    levels = []
    for level_maps in maps:
        narrow = keras.layers.Conv2D(width, 1, use_bias=False)(level_maps)
        levels.append(_make_norm_class()(momentum=0.9)(narrow))
    merged = [levels[-1]]
    for finer in reversed(levels[:-1]):
        rows, columns = finer.shape[1:3]
        larger = keras.layers.Resizing(rows, columns, interpolation="nearest")(merged[0])
        merged.insert(0, keras.layers.Add()([finer, larger]))
    return merged


def add_last(maps: keras.KerasTensor, channels: int, bias: float = 0.0) -> keras.KerasTensor:
    """Return the outputs of a new head: small weights, and a bias to start from."""
    import keras

    small = keras.initializers.RandomNormal(stddev=0.01)
    start = keras.initializers.Constant(bias)
    return keras.layers.Conv2D(channels, 1, kernel_initializer=small, bias_initializer=start)(maps)


def convolve_separably(maps: keras.KerasTensor, side: int = 3) -> keras.KerasTensor:
    """Return maps after a depthwise separable convolution of ``side`` x ``side`` places."""
    import keras

    deep = _make_depthwise_class()(side, padding="same", use_bias=False)(maps)
    deep = keras.layers.ReLU(6)(_make_norm_class()(momentum=0.9)(deep))
    wide = keras.layers.Conv2D(maps.shape[-1], 1, use_bias=False)(deep)
    return keras.layers.ReLU(6)(_make_norm_class()(momentum=0.9)(wide))


@cache
def _make_depthwise_class() -> type[keras.layers.DepthwiseConv2D]:
    """Return the layer whose gradient of a wide kernel comes in parts.

    With 5 x 5 places, a step of a head for boxes takes 147 instead of 172 CPU milliseconds.
    """
    import keras
    import tensorflow as tf

    from advisor.training._convolution import convolve_depthwise

    class Depthwise(keras.layers.DepthwiseConv2D):  # type: ignore[misc]
        def call(self, maps: tf.Tensor) -> tf.Tensor:
            kernel = tf.convert_to_tensor(self.kernel)
            return convolve_depthwise(
                maps, kernel, self.strides, self.padding.upper(), self.dilation_rate
            )

    return Depthwise


@cache
def _make_norm_class() -> type[keras.layers.BatchNormalization]:
    """Return the layer with TensorFlow's fused operator in training.

    A step with Keras' own operator takes half as long again.
    """
    import keras
    import tensorflow as tf

    class BatchNorm(keras.layers.BatchNormalization):  # type: ignore[misc]
        def call(
            self, maps: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None
        ) -> tf.Tensor:
            if not training:
                return super().call(maps, training=False, mask=mask)
            normalised, mean, variance = tf.compat.v1.nn.fused_batch_norm(
                maps, self.gamma.value, self.beta.value, epsilon=self.epsilon, is_training=True
            )
            for running, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                running.assign(self.momentum * running.value + (1.0 - self.momentum) * new)
            return normalised

    return BatchNorm
