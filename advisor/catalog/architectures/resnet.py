"""ResNet (https://arxiv.org/abs/1512.03385) as torchvision built it: modules, padding and names are its own.

Its ResNet-50 halves the image in the 3x3 convolution of a block (often called v1.5), where the paper and Keras'
applications do it in the first 1x1; Keras' also keeps biases and was trained on BGR, so it is another network.
"""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.architectures._torchvision import batch_norm, convolution, max_pool, pooled_classifier
from advisor.catalog.graph import image_input

# Table 1 of the paper: blocks of each of the four stages.
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_WIDTHS = (64, 128, 256, 512)
_EXPANSION = 4


def build(input_size: int, classes: int, depth: int) -> keras.Model:
    """Return the Keras graph of a ResNet.

    Args:
        input_size: side of the square input in pixels.
        classes: labels of the classifier.
        depth: 18, 34 or 50 layers.

    Raises:
        ValueError: no network of that depth.
    """
    if depth not in _BLOCKS:
        raise ValueError(f"ResNet has {', '.join(map(str, _BLOCKS))} layers, not {depth}")
    image = image_input(input_size)
    x = batch_norm(convolution(image, _WIDTHS[0], 7, 2, "conv1"), "bn1", relu=True)
    x = max_pool(x, "maxpool")
    block = _bottleneck if depth >= 50 else _basic
    for stage, (width, blocks) in enumerate(zip(_WIDTHS, _BLOCKS[depth], strict=True)):
        for index in range(blocks):
            stride = 2 if stage and not index else 1
            x = block(x, width, stride, f"layer{stage + 1}.{index}")
    return pooled_classifier(image, x, classes, "fc")


def _basic(x: keras.KerasTensor, width: int, stride: int, name: str) -> keras.KerasTensor:
    """Two 3x3 convolutions beside a shortcut."""
    y = batch_norm(convolution(x, width, 3, stride, f"{name}.conv1"), f"{name}.bn1", relu=True)
    y = batch_norm(convolution(y, width, 3, 1, f"{name}.conv2"), f"{name}.bn2", relu=False)
    return _joined(y, _shortcut(x, width, stride, name), name)


def _bottleneck(x: keras.KerasTensor, width: int, stride: int, name: str) -> keras.KerasTensor:
    """1x1, 3x3, 1x1 beside a shortcut; the 3x3 carries the stride."""
    y = batch_norm(convolution(x, width, 1, 1, f"{name}.conv1"), f"{name}.bn1", relu=True)
    y = batch_norm(convolution(y, width, 3, stride, f"{name}.conv2"), f"{name}.bn2", relu=True)
    y = batch_norm(convolution(y, width * _EXPANSION, 1, 1, f"{name}.conv3"), f"{name}.bn3", relu=False)
    return _joined(y, _shortcut(x, width * _EXPANSION, stride, name), name)


def _shortcut(x: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
    if stride == 1 and x.shape[-1] == filters:
        return x
    x = convolution(x, filters, 1, stride, f"{name}.downsample.0")
    return batch_norm(x, f"{name}.downsample.1", relu=False)


def _joined(x: keras.KerasTensor, shortcut: keras.KerasTensor, name: str) -> keras.KerasTensor:
    x = layers.Add(name=f"{name}.add")([x, shortcut])
    return layers.ReLU(name=f"{name}.relu")(x)
