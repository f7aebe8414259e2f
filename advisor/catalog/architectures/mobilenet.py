"""MobileNet V1 and V2. Layers carry the names of Keras' own implementation, so its weight files fit.

Where that pads by hand before a stride, these graphs say ``same``: for even sizes the two are the same numbers, with
fewer operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import keras
from keras import layers

from advisor.catalog.graph import Tensor, divisible, image_input, pooled_classifier

# Output channels at width 1 and stride of the thirteen separable blocks (table 1 of arXiv 1704.04861).
_V1_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))

# Expansion, output channels, repeats and first stride of the stages (table 2 of arXiv 1801.04381).
_V2_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v1(input_size: int, classes: int, width: float = 1.0) -> keras.Model:
    """Build MobileNet V1 (https://arxiv.org/abs/1704.04861) with every channel count multiplied by ``width``."""
    image = image_input(input_size)
    x = layers.Conv2D(int(32 * width), 3, strides=2, padding="same", use_bias=False, name="conv1")(image)
    x = _norm_relu(x, "conv1")
    for index, (channels, stride) in enumerate(_V1_BLOCKS, start=1):
        depthwise, pointwise = f"conv_dw_{index}", f"conv_pw_{index}"
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=depthwise)(x)
        x = _norm_relu(x, depthwise)
        x = layers.Conv2D(int(channels * width), 1, use_bias=False, name=pointwise)(x)
        x = _norm_relu(x, pointwise)
    return pooled_classifier(image, x, classes)


def _norm_relu(x: Tensor, name: str) -> Tensor:
    x = layers.BatchNormalization(epsilon=1e-3, name=f"{name}_bn")(x)
    return layers.ReLU(6.0, name=f"{name}_relu")(x)


def mobilenet_v2(
    input_size: int,
    classes: int,
    width: float = 1.0,
    padding: Literal["same", "symmetric"] = "same",
    batch_norm_epsilon: float = 1e-3,
) -> keras.Model:
    """Build MobileNet V2 (https://arxiv.org/abs/1801.04381) at ``width``.

    ``symmetric`` padding and an epsilon of 1e-5 are torchvision's variant.

    Raises:
        ValueError: another padding.
    """
    if padding not in ("same", "symmetric"):
        raise ValueError(f"padding '{padding}' is neither 'same' nor 'symmetric'")
    blocks = _V2Blocks(padding == "symmetric", batch_norm_epsilon)
    image = image_input(input_size)
    x = blocks.convolve(image, divisible(32 * width), 3, 2, "Conv1", "bn_Conv1")
    x = layers.ReLU(6.0, name="Conv1_relu")(x)
    index = 0
    for expansion, channels, repeats, first_stride in _V2_STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            x = blocks.inverted_residual(x, expansion, divisible(channels * width), stride, index)
            index += 1
    last = divisible(1280 * width) if width > 1.0 else 1280
    x = blocks.convolve(x, last, 1, 1, "Conv_1", "Conv_1_bn")
    return pooled_classifier(image, layers.ReLU(6.0, name="out_relu")(x), classes)


@dataclass(frozen=True)
class _V2Blocks:
    symmetric: bool
    epsilon: float

    def inverted_residual(self, x: Tensor, expansion: int, channels: int, stride: int, index: int) -> Tensor:
        prefix = f"block_{index}_" if index else "expanded_conv_"
        entered = x.shape[-1]
        y = x
        if expansion > 1:
            y = self.convolve(y, entered * expansion, 1, 1, f"{prefix}expand", f"{prefix}expand_BN")
            y = layers.ReLU(6.0, name=f"{prefix}expand_relu")(y)
        name = f"{prefix}depthwise"
        y, padding = self._padded(y, 3, stride, name)
        y = layers.DepthwiseConv2D(3, strides=stride, padding=padding, use_bias=False, name=name)(y)
        y = layers.ReLU(6.0, name=f"{name}_relu")(self._norm(y, f"{name}_BN"))
        y = self.convolve(y, channels, 1, 1, f"{prefix}project", f"{prefix}project_BN")
        return layers.Add(name=f"{prefix}add")([x, y]) if stride == 1 and entered == channels else y

    def convolve(self, x: Tensor, channels: int, kernel: int, stride: int, name: str, norm_name: str) -> Tensor:
        x, padding = self._padded(x, kernel, stride, name)
        x = layers.Conv2D(channels, kernel, strides=stride, padding=padding, use_bias=False, name=name)(x)
        return self._norm(x, norm_name)

    def _padded(self, x: Tensor, kernel: int, stride: int, name: str) -> tuple[Tensor, str]:
        # At stride 1 'same' is symmetric already; at stride 2 it pads one side only.
        if not self.symmetric or stride == 1:
            return x, "same"
        return layers.ZeroPadding2D(kernel // 2, name=f"{name}_pad")(x), "valid"

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return layers.BatchNormalization(epsilon=self.epsilon, momentum=0.999, name=name)(x)
