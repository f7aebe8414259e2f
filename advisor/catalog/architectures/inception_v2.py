"""Inception V2 (https://arxiv.org/abs/1502.03167) as TF-Slim built and trained it: its first layer is separable."""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.architectures._slim import (
    average_pool,
    convolution,
    joined,
    max_pool,
    with_convolutional_logits,
)
from advisor.catalog.graph import image_input

# Channels of a module: 1x1 | 1x1 then 3x3 | 1x1 then twice 3x3 | after the pool (figure 5 of the paper).
_THIRD = {"Mixed_3b": (64, 64, 64, 64, 96, 32), "Mixed_3c": (64, 64, 96, 64, 96, 64)}
_FOURTH = {
    "Mixed_4b": (224, 64, 96, 96, 128, 128),
    "Mixed_4c": (192, 96, 128, 96, 128, 128),
    "Mixed_4d": (160, 128, 160, 128, 160, 96),
    "Mixed_4e": (96, 128, 192, 160, 192, 96),
}
_FIFTH = {"Mixed_5b": (352, 192, 320, 160, 224, 128), "Mixed_5c": (352, 192, 320, 192, 224, 128)}
# Channels of a module that halves the image: 1x1 then 3x3 | 1x1 then twice 3x3 | the pool.
_REDUCTIONS = {"Mixed_4a": (128, 160, 64, 96), "Mixed_5a": (128, 192, 192, 256)}
_DEPTH_MULTIPLIER = 8  # of the first layer's depthwise half


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of Inception V2.

    Args:
        input_size: side of the square input in pixels.
        classes: labels of the classifier (1001 with the background, as published).
    """
    image = image_input(input_size)
    x = _stem(image)
    x = _modules(x, _THIRD)
    x = _modules(_reduction(x, "Mixed_4a"), _FOURTH)
    x = _modules(_reduction(x, "Mixed_5a"), _FIFTH)
    return with_convolutional_logits(image, x, classes, "Logits.Conv2d_1c_1x1")


def _stem(x: keras.KerasTensor) -> keras.KerasTensor:
    scope = "Conv2d_1a_7x7"
    depthwise = layers.DepthwiseConv2D(
        7, 2, padding="same", depth_multiplier=_DEPTH_MULTIPLIER, use_bias=False, name=f"{scope}.depthwise"
    )
    # Slim's scope normalizes plain convolutions only: this one has a bias instead.
    x = layers.Conv2D(64, 1, name=f"{scope}.pointwise")(depthwise(x))
    x = max_pool(layers.ReLU(name=f"{scope}.Relu")(x), "MaxPool_2a_3x3", stride=2)
    x = convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = convolution(x, 192, 3, "Conv2d_2c_3x3")
    return max_pool(x, "MaxPool_3a_3x3", stride=2)


def _modules(x: keras.KerasTensor, channels: dict[str, tuple[int, int, int, int, int, int]]) -> keras.KerasTensor:
    for scope, widths in channels.items():
        x = _module(x, scope, *widths)
    return x


def _module(
    x: keras.KerasTensor, scope: str, one: int, reduce3: int, three: int, reduce5: int, five: int, pooled: int
) -> keras.KerasTensor:
    first = convolution(x, one, 1, f"{scope}.Branch_0.Conv2d_0a_1x1")
    second = convolution(x, reduce3, 1, f"{scope}.Branch_1.Conv2d_0a_1x1")
    second = convolution(second, three, 3, f"{scope}.Branch_1.Conv2d_0b_3x3")
    third = convolution(x, reduce5, 1, f"{scope}.Branch_2.Conv2d_0a_1x1")
    third = convolution(third, five, 3, f"{scope}.Branch_2.Conv2d_0b_3x3")
    third = convolution(third, five, 3, f"{scope}.Branch_2.Conv2d_0c_3x3")
    fourth = convolution(_pooled(x, f"{scope}.Branch_3"), pooled, 1, f"{scope}.Branch_3.Conv2d_0b_1x1")
    return joined([first, second, third, fourth], scope)


def _pooled(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    # The last module alone takes the maximum.
    if scope.startswith("Mixed_5c"):
        return max_pool(x, f"{scope}.MaxPool_0a_3x3")
    return average_pool(x, f"{scope}.AvgPool_0a_3x3")


def _reduction(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    reduce3, three, reduce5, five = _REDUCTIONS[scope]
    first = convolution(x, reduce3, 1, f"{scope}.Branch_0.Conv2d_0a_1x1")
    first = convolution(first, three, 3, f"{scope}.Branch_0.Conv2d_1a_3x3", stride=2)
    second = convolution(x, reduce5, 1, f"{scope}.Branch_1.Conv2d_0a_1x1")
    second = convolution(second, five, 3, f"{scope}.Branch_1.Conv2d_0b_3x3")
    second = convolution(second, five, 3, f"{scope}.Branch_1.Conv2d_1a_3x3", stride=2)
    third = max_pool(x, f"{scope}.Branch_2.MaxPool_1a_3x3", stride=2)
    return joined([first, second, third], scope)
