"""Inception-ResNet V2 (https://arxiv.org/abs/1602.07261), the graph of Keras' applications."""

from __future__ import annotations

import re
from itertools import count

import keras
from keras import applications

from advisor.catalog.graph import image_input, network

# What Keras calls a layer that was given no name: its kind, and a number that counts on through the whole process.
_UNNAMED = re.compile(r"(conv2d|batch_normalization|activation|max_pooling2d|average_pooling2d)(_\d+)?")


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of Inception-ResNet V2.

    Most of Keras' layers here have no name of their own. They are numbered anew, so that a name depends neither on
    what the process built before nor stands for another layer of Keras' weight file, which counts from one.

    Args:
        input_size: side of the square input in pixels, at least 75.
        classes: labels of the classifier.
    """
    base = applications.InceptionResNetV2(weights=None, input_shape=(input_size, input_size, 3), classes=classes)
    numbers = count()

    def named(layer: keras.KerasTensor) -> keras.KerasTensor:
        config = layer.get_config()
        if _UNNAMED.fullmatch(layer.name):
            config["name"] = f"backbone_{next(numbers)}"
        return type(layer).from_config(config)

    image = image_input(input_size)
    whole = keras.models.clone_model(base, input_tensors=image, clone_function=named)
    return network(image, whole.output, whole.get_layer("avg_pool").output)
