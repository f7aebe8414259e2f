"""ShuffleNet V2 (https://arxiv.org/abs/1807.11164) as torchvision built it: modules, padding and names are its own."""

from __future__ import annotations

import keras
from keras import layers, ops

from advisor.catalog.architectures._torchvision import batch_norm, convolution, depthwise, max_pool, pooled_classifier
from advisor.catalog.graph import image_input

# Table 5 of the paper: channels of stages 2 to 4 and of the last convolution, by width.
_CHANNELS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
_REPEATS = (4, 8, 4)
_STEM = 24


def build(input_size: int, classes: int, width: float) -> keras.Model:
    """Return the Keras graph of ShuffleNet V2.

    Args:
        input_size: side of the square input in pixels.
        classes: labels of the classifier.
        width: 0.5, 1.0, 1.5 or 2.0, as published.

    Raises:
        ValueError: no such width was published.
    """
    if width not in _CHANNELS:
        raise ValueError(f"ShuffleNet V2 has widths {', '.join(map(str, _CHANNELS))}, not {width}")
    *stages, last = _CHANNELS[width]
    image = image_input(input_size)
    x = batch_norm(convolution(image, _STEM, 3, 2, "conv1.0"), "conv1.1", relu=True)
    x = max_pool(x, "maxpool")
    for index, (channels, repeats) in enumerate(zip(stages, _REPEATS, strict=True)):
        x = _stage(x, channels, repeats, f"stage{index + 2}")
    x = batch_norm(convolution(x, last, 1, 1, "conv5.0"), "conv5.1", relu=True)
    return pooled_classifier(image, x, classes, "fc")


def _stage(x: keras.KerasTensor, channels: int, repeats: int, name: str) -> keras.KerasTensor:
    """Return one unit that halves the image, then units that keep its size."""
    half = channels // 2
    left = batch_norm(depthwise(x, 3, 2, f"{name}.0.branch1.0"), f"{name}.0.branch1.1", relu=False)
    left = batch_norm(convolution(left, half, 1, 1, f"{name}.0.branch1.2"), f"{name}.0.branch1.3", relu=True)
    x = _shuffled(left, _branch(x, half, 2, f"{name}.0.branch2"), f"{name}.0")
    for unit in range(1, repeats):
        left, right = ops.split(x, 2, axis=-1)
        x = _shuffled(left, _branch(right, half, 1, f"{name}.{unit}.branch2"), f"{name}.{unit}")
    return x


def _branch(x: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
    """Pointwise, depthwise, pointwise."""
    x = batch_norm(convolution(x, filters, 1, 1, f"{name}.0"), f"{name}.1", relu=True)
    x = batch_norm(depthwise(x, 3, stride, f"{name}.3"), f"{name}.4", relu=False)
    return batch_norm(convolution(x, filters, 1, 1, f"{name}.5"), f"{name}.6", relu=True)


def _shuffled(left: keras.KerasTensor, right: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """Both halves with their channels interleaved.

    Height and width are one axis while the channels change places: the transpose stays four-dimensional, which more
    accelerators take than the five dimensions of the usual form.
    """
    x = layers.Concatenate(name=f"{name}.concat")([left, right])
    _, height, width, channels = x.shape
    x = layers.Reshape((height * width, 2, channels // 2), name=f"{name}.groups")(x)
    x = layers.Permute((1, 3, 2), name=f"{name}.interleave")(x)
    return layers.Reshape((height, width, channels), name=f"{name}.shuffled")(x)
