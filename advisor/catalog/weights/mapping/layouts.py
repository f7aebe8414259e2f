"""Convert kernels of other frameworks to Keras' layout (height, width, input, output)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog.weights.arrays import Array

if TYPE_CHECKING:
    import keras


def from_output_first(kernel: Array, layer: keras.Layer) -> Array:
    """PyTorch's and Caffe's kernels: (output, input, height, width), dense (output, input)."""
    from keras import layers

    if isinstance(layer, layers.DepthwiseConv2D):
        return kernel.transpose(2, 3, 0, 1)
    return kernel.transpose(2, 3, 1, 0) if kernel.ndim == 4 else kernel.T


def from_runtime(kernel: Array, layer: keras.Layer) -> Array:
    """Return the TFLite runtime's kernels: (output, height, width, input), depthwise (1, height, width, channel)."""
    from keras import layers

    if isinstance(layer, layers.DepthwiseConv2D):
        return kernel.transpose(1, 2, 3, 0)
    moved = kernel.transpose(1, 2, 3, 0)
    return moved.reshape(moved.shape[2:]) if isinstance(layer, layers.Dense) else moved


def folded_norm(offset: Array, layer: keras.Layer) -> list[Array]:
    """Return a BatchNorm layer that only adds ``offset``: what is left of one that was folded into its convolution.

    Its variance is such that the layer divides by exactly one.
    """
    one, zero = np.ones_like(offset), np.zeros_like(offset)
    scale = [one] if layer.scale else []
    return [*scale, offset, zero, one * np.float32(1.0 - layer.epsilon)]
