"""DenseNet-121 (https://arxiv.org/abs/1608.06993), the graph of Keras' applications."""

from __future__ import annotations

import keras
from keras import applications

from advisor.catalog.graph import image_input, network


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of DenseNet-121.

    Args:
        input_size: side of the square input in pixels, at least 32.
        classes: labels of the classifier.
    """
    image = image_input(input_size)
    base = applications.DenseNet121(weights=None, input_tensor=image, classes=classes)
    return network(image, base.output, base.get_layer("avg_pool").output)
