"""MobileNet V1: depthwise separable convolutions (arXiv 1704.04861, table 1).

Layers carry the names of Keras' own implementation. Where that pads by hand before a stride, this graph says ``same``:
for even sizes the two are the same numbers.
"""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.graph import image_input, pooled_classifier

# (output channels at width 1, stride) of the thirteen separable blocks
_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
)


def build(input_size: int, classes: int, width: float = 1.0) -> keras.Model:
    """Build the graph with every channel count multiplied by ``width``."""
    image = image_input(input_size)
    x = layers.Conv2D(int(32 * width), 3, strides=2, padding="same", use_bias=False, name="conv1")(image)
    x = _norm_relu(x, "conv1")
    for index, (channels, stride) in enumerate(_BLOCKS, start=1):
        depthwise, pointwise = f"conv_dw_{index}", f"conv_pw_{index}"
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=depthwise)(x)
        x = _norm_relu(x, depthwise)
        x = layers.Conv2D(int(channels * width), 1, use_bias=False, name=pointwise)(x)
        x = _norm_relu(x, pointwise)
    return pooled_classifier(image, x, classes)


def _norm_relu(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    x = layers.BatchNormalization(epsilon=1e-3, name=f"{name}_bn")(x)
    return layers.ReLU(6.0, name=f"{name}_relu")(x)
