"""Build the input and the two outputs that all Keras graphs of the catalogue share."""

from __future__ import annotations

import keras
from keras import layers


def image_input(input_size: int) -> keras.KerasTensor:
    """Return one normalised RGB image: ``(1, S, S, 3)``.

    The batch is fixed: with an open one the converter writes shapes of -1, which the runtime's compiled path refuses.
    """
    return keras.Input((input_size, input_size, 3), batch_size=1, name="image")


def pooled_classifier(image: keras.KerasTensor, backbone: keras.KerasTensor, classes: int) -> keras.Model:
    """Close ``backbone`` (1, h, w, F) with global average pooling, one dense layer and a softmax."""
    features = layers.GlobalAveragePooling2D(name="features")(backbone)
    logits = layers.Dense(classes, name="logits")(features)
    return network(image, layers.Softmax(name="probabilities")(logits), features)


def network(image: keras.KerasTensor, probabilities: keras.KerasTensor, features: keras.KerasTensor) -> keras.Model:
    """Return the model from ``image`` to ``{"probabilities": (1, classes), "features": (1, F)}``.

    The converter keeps these keys as the names of the signature's outputs.
    """
    return keras.Model(image, {"probabilities": probabilities, "features": features})


def divisible(channels: float, divisor: int = 8) -> int:
    """Round a channel count to a multiple of ``divisor``, never losing more than 10 % (MobileNet V2's rule)."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
