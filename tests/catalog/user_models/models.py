"""Small classifiers of a user's own, in every form that they come in."""

import contextlib
import io
from pathlib import Path
from typing import Any

from tests.builders import write_file

CLASSES = 5
SIZE = 32


def network(size: int | None = SIZE, activation: str | None = "softmax", head: str = "dense") -> Any:
    """A convolution, a depthwise one, pooling and a classifier."""
    import keras
    import numpy as np
    from keras import layers

    image = keras.Input((size, size, 3))
    x = layers.DepthwiseConv2D(3)(layers.Conv2D(8, 3, strides=2, activation="relu")(image))
    x = layers.BatchNormalization()(x)
    if head == "convolution":
        pooled = layers.GlobalAveragePooling2D(keepdims=True)(x)
        scores = layers.Activation(activation)(layers.Reshape((CLASSES,))(layers.Conv2D(CLASSES, 1)(pooled)))
    elif head == "maps":
        scores = layers.Activation(activation)(layers.GlobalAveragePooling2D()(layers.Conv2D(CLASSES, 3)(x)))
    else:
        pooled = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
        scores = layers.Dense(CLASSES, activation=activation)(pooled)
    model = keras.Model(image, scores)
    rng = np.random.default_rng(0)
    # No value is zero: the converter leaves out biases that are.
    model.set_weights([rng.uniform(0.1, 0.5, weight.shape).astype(np.float32) for weight in model.get_weights()])
    return model


def tflite(model: Any) -> bytes:
    """The file that the converter makes, the batch open as it comes."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    with contextlib.redirect_stdout(io.StringIO()):
        data: bytes = converter.convert()
    return data


def labels_file(folder: Path) -> Path:
    """Five names of classes, one of them with a letter that is not ASCII."""
    return write_file(folder / "labels.txt", "glass\npaper\nmétal\nplastic\ntrash\n")
