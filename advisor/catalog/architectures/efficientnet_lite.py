"""EfficientNet-Lite0 to Lite4: EfficientNet without squeeze-and-excitation, ReLU6 for swish, a stem and a head of
fixed width (tensorflow/tpu, models/official/efficientnet/lite)."""

from __future__ import annotations

from math import ceil

import keras
from keras import layers

from advisor.catalog.graph import Tensor, divisible, image_input, pooled_classifier

# (kernel, repeats, output channels, expansion, first stride) at width and depth 1
_STAGES = (
    (3, 1, 16, 1, 1),
    (3, 2, 24, 6, 2),
    (5, 2, 40, 6, 2),
    (3, 3, 80, 6, 2),
    (5, 3, 112, 6, 1),
    (5, 4, 192, 6, 2),
    (3, 1, 320, 6, 1),
)


def efficientnet_lite(input_size: int, classes: int, width: float = 1.0, depth: float = 1.0) -> keras.Model:
    """Build the graph: channels times ``width`` (rounded to 8), repeats times ``depth`` but in the first and last."""
    image = image_input(input_size)
    x = layers.Conv2D(32, 3, strides=2, padding="same", use_bias=False, name="conv_stem")(image)
    x = _relu(_norm(x, "bn0"), "relu0")
    index = 0
    for stage, (kernel, repeats, channels, expansion, first_stride) in enumerate(_STAGES):
        fixed = stage in (0, len(_STAGES) - 1)
        for repeat in range(repeats if fixed else ceil(depth * repeats)):
            stride = first_stride if repeat == 0 else 1
            x = _block(x, kernel, divisible(channels * width), expansion, stride, f"blocks_{index}_")
            index += 1
    x = layers.Conv2D(1280, 1, use_bias=False, name="conv_head")(x)
    return pooled_classifier(image, _relu(_norm(x, "bn1"), "relu1"), classes)


def _block(x: Tensor, kernel: int, channels: int, expansion: int, stride: int, prefix: str) -> Tensor:
    entered = x.shape[-1]
    y = x
    if expansion > 1:
        y = layers.Conv2D(entered * expansion, 1, use_bias=False, name=f"{prefix}expand_conv")(y)
        y = _relu(_norm(y, f"{prefix}bn0"), f"{prefix}relu0")
    name = f"{prefix}depthwise_conv"
    y = layers.DepthwiseConv2D(kernel, strides=stride, padding="same", use_bias=False, name=name)(y)
    y = _relu(_norm(y, f"{prefix}bn1"), f"{prefix}relu1")
    y = layers.Conv2D(channels, 1, use_bias=False, name=f"{prefix}project_conv")(y)
    y = _norm(y, f"{prefix}bn2")
    return layers.Add(name=f"{prefix}add")([y, x]) if stride == 1 and entered == channels else y


def _norm(x: Tensor, name: str) -> Tensor:
    return layers.BatchNormalization(epsilon=1e-3, momentum=0.99, name=name)(x)


def _relu(x: Tensor, name: str) -> Tensor:
    return layers.ReLU(6.0, name=name)(x)
