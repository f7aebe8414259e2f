"""MobileNet V3 (https://arxiv.org/abs/1905.02244), large and small, the graph of Keras' applications."""

from __future__ import annotations

import keras
from keras import applications, layers

from advisor.catalog.graph import image_input, network


def build(input_size: int, classes: int, size: str, width: float, minimalistic: bool = False) -> keras.Model:
    """Return the Keras graph of MobileNet V3.

    The features are what the classifier sees: the pooled image after the widening 1x1 convolution.

    Args:
        input_size: side of the square input in pixels, at least 32.
        classes: labels of the classifier.
        size: ``large`` or ``small``.
        width: multiplier of the depths.
        minimalistic: without squeeze-and-excite, hard-swish and 5x5 convolutions.

    Raises:
        ValueError: no such size.
    """
    networks = {"large": applications.MobileNetV3Large, "small": applications.MobileNetV3Small}
    if size not in networks:
        raise ValueError(f"MobileNet V3 comes as large or small, not '{size}'")
    image = image_input(input_size)
    base = networks[size](
        input_shape=(input_size, input_size, 3),
        input_tensor=image,
        alpha=width,
        minimalistic=minimalistic,
        weights=None,
        classes=classes,
        include_preprocessing=False,
    )
    features = layers.Flatten(name="features")(base.get_layer("logits").input)
    return network(image, base.output, features)
