"""NASNet-A Mobile (https://arxiv.org/abs/1707.07012), the graph of Keras' applications."""

from __future__ import annotations

import keras
from keras import applications

from advisor.catalog.graph import image_input, network


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of NASNet-A (4 @ 1056).

    Args:
        input_size: side of the square input in pixels, at least 32.
        classes: labels of the classifier.
    """
    image = image_input(input_size)
    base = applications.NASNetMobile(weights=None, input_tensor=image, classes=classes)
    features = base.get_layer("predictions").input
    return network(image, base.output, features)
