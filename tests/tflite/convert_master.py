"""Converts a small MobileNetV2 with random weights to float32 and float16 files; run in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

CLASSES = 100
SIZE = 96


def build() -> Any:
    """Return MobileNetV2 0.35 at 96 pixels with outputs ``features`` and ``probabilities``, BatchNorm settled."""
    import keras

    keras.utils.set_random_seed(7)
    backbone = keras.applications.MobileNetV2(input_shape=(SIZE, SIZE, 3), alpha=0.35, include_top=False, weights=None)
    for layer in backbone.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.5
    image = keras.Input((SIZE, SIZE, 3), batch_size=1, name="image")
    features = keras.layers.GlobalAveragePooling2D(name="features")(backbone(image))
    probabilities = keras.layers.Dense(CLASSES, activation="softmax", name="probabilities")(features)
    model = keras.Model(image, {"probabilities": probabilities, "features": features})
    for _ in range(8):
        model(keras.random.uniform((1, SIZE, SIZE, 3), -1, 1), training=True)
    return model


def convert(model: Any, half: bool) -> bytes:
    """Return the converter's file of ``model``, its constants as float16 where ``half``."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    content: bytes = converter.convert()
    return content


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    network = build()
    (folder / "float16.tflite").write_bytes(convert(network, half=True))
    (folder / "float32.tflite").write_bytes(convert(network, half=False))
