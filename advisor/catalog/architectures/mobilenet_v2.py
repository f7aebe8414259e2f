"""MobileNet V2: inverted residuals with linear bottlenecks (arXiv 1801.04381, table 2).

Layers carry the names of Keras' own implementation, so its weight files fit. Where that pads by hand before a stride,
this graph says ``same``: for even sizes the two are the same numbers, with five operators less.
"""

from __future__ import annotations

from typing import Literal

import keras
from keras import layers

from advisor.catalog.graph import divisible, image_input, pooled_classifier

Padding = Literal["same", "symmetric"]

# (expansion, output channels, repeats, first stride)
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def build(
    input_size: int, classes: int, width: float = 1.0, padding: Padding = "same", batch_norm_epsilon: float = 1e-3
) -> keras.Model:
    """Build the graph at ``width``; ``symmetric`` padding and an epsilon of 1e-5 are torchvision's variant.

    Raises:
        ValueError: another padding.
    """
    if padding not in ("same", "symmetric"):
        raise ValueError(f"padding '{padding}' is neither 'same' nor 'symmetric'")
    block = _Blocks(padding, batch_norm_epsilon)
    image = image_input(input_size)
    x = block.convolve(image, divisible(32 * width), 3, 2, "Conv1", "bn_Conv1")
    x = layers.ReLU(6.0, name="Conv1_relu")(x)
    index = 0
    for expansion, channels, repeats, first_stride in _STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = block.inverted_residual(x, expansion, divisible(channels * width), stride, index)
            index += 1
    last = divisible(1280 * width) if width > 1.0 else 1280
    x = block.convolve(x, last, 1, 1, "Conv_1", "Conv_1_bn")
    return pooled_classifier(image, layers.ReLU(6.0, name="out_relu")(x), classes)


class _Blocks:
    """The network's pieces at one padding and one BatchNorm epsilon."""

    def __init__(self, padding: Padding, epsilon: float) -> None:
        self._padding = padding
        self._epsilon = epsilon

    def inverted_residual(
        self, x: keras.KerasTensor, expansion: int, channels: int, stride: int, index: int
    ) -> keras.KerasTensor:
        prefix = f"block_{index}_" if index else "expanded_conv_"
        entered = x.shape[-1]
        y = x
        if expansion > 1:
            y = self.convolve(y, entered * expansion, 1, 1, f"{prefix}expand", f"{prefix}expand_BN")
            y = layers.ReLU(6.0, name=f"{prefix}expand_relu")(y)
        y = self._depthwise(y, stride, prefix)
        y = self.convolve(y, channels, 1, 1, f"{prefix}project", f"{prefix}project_BN")
        return layers.Add(name=f"{prefix}add")([x, y]) if stride == 1 and entered == channels else y

    def convolve(
        self, x: keras.KerasTensor, channels: int, kernel: int, stride: int, name: str, norm_name: str
    ) -> keras.KerasTensor:
        x, padding = self._padded(x, kernel, stride, name)
        x = layers.Conv2D(channels, kernel, strides=stride, padding=padding, use_bias=False, name=name)(x)
        return self._norm(x, norm_name)

    def _depthwise(self, x: keras.KerasTensor, stride: int, prefix: str) -> keras.KerasTensor:
        name = f"{prefix}depthwise"
        x, padding = self._padded(x, 3, stride, name)
        x = layers.DepthwiseConv2D(3, strides=stride, padding=padding, use_bias=False, name=name)(x)
        return layers.ReLU(6.0, name=f"{name}_relu")(self._norm(x, f"{name}_BN"))

    def _padded(self, x: keras.KerasTensor, kernel: int, stride: int, name: str) -> tuple[keras.KerasTensor, str]:
        # At stride 1 'same' is symmetric already; at stride 2 it pads one side only.
        if self._padding == "same" or stride == 1:
            return x, "same"
        return layers.ZeroPadding2D(kernel // 2, name=f"{name}_pad")(x), "valid"

    def _norm(self, x: keras.KerasTensor, name: str) -> keras.KerasTensor:
        return layers.BatchNormalization(epsilon=self._epsilon, momentum=0.999, name=name)(x)
