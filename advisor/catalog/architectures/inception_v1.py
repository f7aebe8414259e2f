"""Inception V1, or GoogLeNet (https://arxiv.org/abs/1409.4842), as TF-Slim built and trained it.

With batch normalization, with 3x3 where the paper has 5x5, and without the auxiliary classifiers.
"""

from __future__ import annotations

import keras

from advisor.catalog.architectures._slim import convolution, joined, max_pool, with_convolutional_logits
from advisor.catalog.graph import image_input

# Channels of a module: 1x1 | 1x1 then 3x3 | 1x1 then 3x3 | after the pool (table 1 of the paper).
_THIRD = {"Mixed_3b": (64, 96, 128, 16, 32, 32), "Mixed_3c": (128, 128, 192, 32, 96, 64)}
_FOURTH = {
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
}
_FIFTH = {"Mixed_5b": (256, 160, 320, 32, 128, 128), "Mixed_5c": (384, 192, 384, 48, 128, 128)}


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of Inception V1.

    Args:
        input_size: side of the square input in pixels.
        classes: labels of the classifier (1001 with the background, as published).
    """
    image = image_input(input_size)
    x = convolution(image, 64, 7, "Conv2d_1a_7x7", stride=2)
    x = max_pool(x, "MaxPool_2a_3x3", stride=2)
    x = convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = convolution(x, 192, 3, "Conv2d_2c_3x3")
    x = max_pool(x, "MaxPool_3a_3x3", stride=2)
    x = _modules(x, _THIRD)
    x = max_pool(x, "MaxPool_4a_3x3", stride=2)
    x = _modules(x, _FOURTH)
    x = max_pool(x, "MaxPool_5a_2x2", stride=2, size=2)
    x = _modules(x, _FIFTH)
    return with_convolutional_logits(image, x, classes, "Logits.Conv2d_0c_1x1")


def _modules(x: keras.KerasTensor, channels: dict[str, tuple[int, int, int, int, int, int]]) -> keras.KerasTensor:
    for scope, widths in channels.items():
        x = _module(x, scope, *widths)
    return x


def _module(
    x: keras.KerasTensor, scope: str, one: int, reduce3: int, three: int, reduce5: int, five: int, pooled: int
) -> keras.KerasTensor:
    # The checkpoint calls one layer otherwise than its sisters.
    last = "Conv2d_0a_3x3" if scope == "Mixed_5b" else "Conv2d_0b_3x3"
    first = convolution(x, one, 1, f"{scope}.Branch_0.Conv2d_0a_1x1")
    second = convolution(x, reduce3, 1, f"{scope}.Branch_1.Conv2d_0a_1x1")
    second = convolution(second, three, 3, f"{scope}.Branch_1.Conv2d_0b_3x3")
    third = convolution(x, reduce5, 1, f"{scope}.Branch_2.Conv2d_0a_1x1")
    third = convolution(third, five, 3, f"{scope}.Branch_2.{last}")
    fourth = max_pool(x, f"{scope}.Branch_3.MaxPool_0a_3x3")
    fourth = convolution(fourth, pooled, 1, f"{scope}.Branch_3.Conv2d_0b_1x1")
    return joined([first, second, third, fourth], scope)
