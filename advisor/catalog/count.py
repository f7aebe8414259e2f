"""Count parameters and multiply-accumulates of a Keras graph from its layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

from keras import layers


def parameters(model: keras.Model) -> int:
    """Return the trained values: weights, biases and BatchNorm's scale and shift, without its moving statistics."""
    return sum(prod(variable.shape) for variable in model.trainable_variables)


def macs(model: keras.Model) -> int:
    """Return the multiply-accumulates of the convolutions and dense layers for one image, without biases."""
    return sum(_layer_macs(layer) for layer in model.layers)


def _layer_macs(layer: keras.Layer) -> int:
    if isinstance(layer, layers.SeparableConv2D):
        positions = prod(layer.output.shape[1:-1])
        return int(positions * (prod(layer.depthwise_kernel.shape) + prod(layer.pointwise_kernel.shape)))
    if isinstance(layer, layers.DepthwiseConv2D | layers.Conv2D):
        return int(prod(layer.output.shape[1:-1]) * prod(layer.kernel.shape))
    return int(prod(layer.kernel.shape)) if isinstance(layer, layers.Dense) else 0
