"""Convolve faster in training than Keras and TensorFlow, with equal results but for rounding.

Fine-tuning, heads on maps and `_flatgraph/` use it. The order of operations decides the last bits
of trained weights: if it changes, raise the versions of all three (``docs/extend-stages.md``,
"Which version to raise").

Where the statistics of BatchNorm are fixed, its scale can multiply the kernel before it instead of
the map behind it: a map has a hundred times as many values.

The oneDNN library in TensorFlow has quick code for the gradient of a depthwise kernel of up
to three columns. For wider ones it takes two to five times as long as for their columns in
parts (decision 0048).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

COLUMNS = 3
"""Most columns of a depthwise kernel whose gradient is computed at once."""


def convolve_depthwise(
    maps: tf.Tensor,
    kernel: tf.Tensor,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int],
) -> tf.Tensor:
    """Return the depthwise convolution of maps (n, H, W, C) with a kernel (h, w, C, m).

    ``padding`` is SAME or VALID.
    """
    height, width, *channels = map(int, kernel.shape)
    steps = [1, *strides, 1]
    down, right = strides

    def in_parts(
        maps: tf.Tensor, kernel: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
        def gradients(after: tf.Tensor) -> Sequence[tf.Tensor]:
            below = tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
                input_sizes=tf.shape(maps),
                filter=kernel,
                out_backprop=after,
                strides=steps,
                padding=padding,
            )
            rows = (after.shape[1] - 1) * down + height
            last = (after.shape[2] - 1) * right
            added = [0] * 4
            if padding == "SAME":
                added = [0, max(rows - maps.shape[1], 0), max(last + width - maps.shape[2], 0), 0]
            # TensorFlow's SAME: an odd number of added rows has its larger half behind.
            padded = tf.pad(maps, [(count // 2, count - count // 2) for count in added])
            parts = []
            for first in range(0, width, COLUMNS):
                columns = min(COLUMNS, width - first)
                parts.append(
                    tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
                        input=padded[:, :rows, first : first + last + columns],
                        filter_sizes=[height, columns, *channels],
                        out_backprop=after,
                        strides=steps,
                        padding="VALID",
                    )
                )
            return below, tf.concat(parts, axis=1)

        return tf.nn.depthwise_conv2d(maps, kernel, steps, padding), gradients

    # The parts need the sides of the maps, which a network for any size does not state.
    if width <= COLUMNS or None in maps.shape[1:] or max(dilations) > 1:
        return tf.nn.depthwise_conv2d(maps, kernel, steps, padding, dilations=dilations)
    return tf.custom_gradient(in_parts)(maps, kernel)


class _Folded(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """A convolution whose kernel takes the scale of the BatchNorm behind it."""

    def __init__(
        self, convolution: keras.layers.Layer, norm: keras.layers.BatchNormalization
    ) -> None:
        super().__init__(name=f"{convolution.name}_{norm.name}", autocast=False)
        self._convolution = convolution
        self._norm = norm

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        convolution = self._convolution
        norm = self._norm
        scale = tf.math.rsqrt(norm.moving_variance + norm.epsilon)
        scale = scale * norm.gamma if norm.scale else scale
        offset = (convolution.bias if convolution.use_bias else 0.0) - norm.moving_mean
        offset = offset * scale + (norm.beta if norm.center else 0.0)
        deep = isinstance(convolution, keras.layers.DepthwiseConv2D)
        if deep:
            # The channels of a depthwise kernel are its last two axes together.
            scale = tf.reshape(scale, convolution.kernel.shape[2:])
        # In float32 first: the scale would lose digits in bfloat16.
        kernel = convolution.kernel * scale
        maps, kernel, offset = (
            tf.cast(value, convolution.compute_dtype) for value in (maps, kernel, offset)
        )
        if deep:
            convolved = convolve_depthwise(
                maps,
                kernel,
                convolution.strides,
                convolution.padding.upper(),
                convolution.dilation_rate,
            )
        else:
            convolved = convolution.convolution_op(maps, kernel)
        return tf.nn.bias_add(convolved, offset)


class _Live(keras.layers.Layer):  # type: ignore[misc]
    """A BatchNorm that takes the statistics of each batch, in training or not."""

    def __init__(self, norm: keras.layers.BatchNormalization) -> None:
        super().__init__(name=f"live_{norm.name}")
        self._norm = norm

    def call(self, maps: tf.Tensor) -> tf.Tensor:
        return self._norm(maps, training=True)


def fold_norms(
    model: keras.Model, live: Sequence[keras.layers.BatchNormalization] = ()
) -> keras.Model:
    """Return a model with the same weights, in which convolutions take the scale of BatchNorm.

    The BatchNorm layers in ``live`` normalise by the statistics of each batch instead, and their
    running statistics follow. Without them, the outputs are those of the model.
    """
    apart = set(map(id, live))
    # By the id of each convolution's output: its layer, its input, and the output.
    convolutions = dict[int, tuple[Any, Any, Any]]()

    def call(layer: keras.layers.Layer, *inputs: Any, **options: Any) -> Any:
        if isinstance(layer, keras.Model):
            return fold_norms(layer, live)(*inputs)
        if id(layer) in apart:
            return _Live(layer)(*inputs)
        if isinstance(layer, keras.layers.BatchNormalization) and id(inputs[0]) in convolutions:
            convolution, before, _ = convolutions[id(inputs[0])]
            return _Folded(convolution, layer)(before)
        output = layer(*inputs, **options)
        convolves = type(layer) in (keras.layers.Conv2D, keras.layers.DepthwiseConv2D)
        if convolves and layer.activation is keras.activations.linear:
            # The output is kept too: as long as it lives, no other tensor gets its id.
            convolutions[id(output)] = layer, inputs[0], output
        return output

    return keras.models.clone_model(model, clone_function=lambda layer: layer, call_function=call)
