"""EfficientNet-B0 (https://arxiv.org/abs/1905.11946), the graph of Keras' applications without its preprocessing."""

from __future__ import annotations

import keras
from keras import applications

from advisor.catalog.graph import image_input, network


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of EfficientNet-B0, from its first padding on.

    Keras puts the scaling of pixel values into the graph as layers whose statistics are weights, and adds one more
    layer only where it loads its own weights. Here the card's preprocessing does it (ImageNet mean and deviation), as
    for every other network, so that a graph is the same with and without weights.

    Args:
        input_size: side of the square input in pixels, at least 32.
        classes: labels of the classifier.
    """
    base = applications.EfficientNetB0(weights=None, input_shape=(input_size, input_size, 3), classes=classes)
    body = keras.Model(base.get_layer("stem_conv_pad").input, [base.output, base.get_layer("avg_pool").output])
    image = image_input(input_size)
    probabilities, features = keras.models.clone_model(body, input_tensors=image).outputs
    return network(image, probabilities, features)
