"""Parameters and multiply-accumulates of a Keras graph, counted from its layers."""

from __future__ import annotations

from math import prod
from typing import Any

from keras import layers


def parameters(model: Any) -> int:
    """The trained values: weights, biases and BatchNorm's scale and shift, without its moving statistics."""
    return sum(prod(variable.shape) for variable in model.trainable_variables)


def macs(model: Any) -> int:
    """Multiply-accumulates of the convolutions and dense layers for one image (biases and the rest not counted)."""
    return sum(_layer_macs(layer) for layer in model.layers)


def _layer_macs(layer: Any) -> int:
    if isinstance(layer, layers.SeparableConv2D):
        positions = prod(layer.output.shape[1:-1])
        return int(positions * (prod(layer.depthwise_kernel.shape) + prod(layer.pointwise_kernel.shape)))
    if isinstance(layer, layers.DepthwiseConv2D | layers.Conv2D):
        return int(prod(layer.output.shape[1:-1]) * prod(layer.kernel.shape))
    return int(prod(layer.kernel.shape)) if isinstance(layer, layers.Dense) else 0
