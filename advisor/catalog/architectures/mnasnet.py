"""MNASNet-B1 (https://arxiv.org/abs/1807.11626) as torchvision built it: modules, padding and names are its own.

The B1 network has no squeeze-and-excite; TensorFlow's hosted MnasNet files are of the same shape.
"""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.architectures._torchvision import batch_norm, convolution, depthwise, pooled_classifier
from advisor.catalog.graph import image_input

# Stem, first separable convolution, then the six stacks below (figure 7 of the paper, without its SE blocks).
_DEPTHS = (32, 16, 24, 40, 80, 96, 192, 320)
# kernel, stride, expansion, repeats
_STACKS = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))
_LAST = 1280


def build(input_size: int, classes: int, width: float) -> keras.Model:
    """Return the Keras graph of MNASNet-B1.

    Args:
        input_size: side of the square input in pixels.
        classes: labels of the classifier.
        width: multiplier of every depth but the last convolution's.

    Raises:
        ValueError: the width is not positive.
    """
    if width <= 0:
        raise ValueError(f"a width is positive, not {width}")
    stem, first, *depths = (scaled(depth, width) for depth in _DEPTHS)
    image = image_input(input_size)
    x = batch_norm(convolution(image, stem, 3, 2, "layers.0"), "layers.1", relu=True)
    x = batch_norm(depthwise(x, 3, 1, "layers.3"), "layers.4", relu=True)
    x = batch_norm(convolution(x, first, 1, 1, "layers.6"), "layers.7", relu=False)
    for index, (depth, stack) in enumerate(zip(depths, _STACKS, strict=True)):
        x = _stack(x, depth, *stack, name=f"layers.{index + 8}")
    x = batch_norm(convolution(x, _LAST, 1, 1, "layers.14"), "layers.15", relu=True)
    return pooled_classifier(image, x, classes, "classifier.1")


def scaled(depth: int, width: float) -> int:
    """``depth * width`` to a multiple of 8 that loses at most a tenth, as the reference rounds."""
    value = depth * width
    rounded = max(8, int(value + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * value else rounded + 8


def _stack(
    x: keras.KerasTensor, filters: int, kernel: int, stride: int, expansion: int, repeats: int, name: str
) -> keras.KerasTensor:
    x = _inverted_residual(x, filters, kernel, stride, expansion, f"{name}.0")
    for index in range(1, repeats):
        shortcut = x
        x = _inverted_residual(x, filters, kernel, 1, expansion, f"{name}.{index}")
        x = layers.Add(name=f"{name}.{index}.add")([x, shortcut])
    return x


def _inverted_residual(
    x: keras.KerasTensor, filters: int, kernel: int, stride: int, expansion: int, name: str
) -> keras.KerasTensor:
    """Widen, filter each channel, narrow; no activation after the last."""
    middle = x.shape[-1] * expansion
    x = batch_norm(convolution(x, middle, 1, 1, f"{name}.layers.0"), f"{name}.layers.1", relu=True)
    x = batch_norm(depthwise(x, kernel, stride, f"{name}.layers.3"), f"{name}.layers.4", relu=True)
    return batch_norm(convolution(x, filters, 1, 1, f"{name}.layers.6"), f"{name}.layers.7", relu=False)
