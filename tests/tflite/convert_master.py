"""Converts a small MobileNetV2 with random weights to float32 and float16 files; run in a process of its own."""

import sys
from pathlib import Path
from typing import Any

from advisor.catalog.convert import INPUT, OUTPUTS
from advisor.isolation.child import install_lean_imports
from advisor.tflite.rewrite import pack, sign, unpack

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


def convert(model: Any) -> tuple[bytes, bytes]:
    """Return the converter's files of ``model`` in float32 and in float16, from one trace as the catalogue's files."""
    import tensorflow as tf

    image = tf.TensorSpec((1, SIZE, SIZE, 3), tf.float32, name=INPUT)
    called = tf.function(lambda image: tuple(model(image, training=False)[name] for name in OUTPUTS))
    traced = called.get_concrete_function(image)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    single = signed(converter.convert())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    return single, signed(converter.convert())


def signed(content: bytes) -> bytes:
    """Return the file with names for its input and its outputs."""
    tables = unpack(content)
    graph = tables.subgraphs[0]
    sign(tables, graph, INPUT, dict(zip(OUTPUTS, graph.outputs, strict=True)))
    return pack(tables)


if __name__ == "__main__":
    install_lean_imports()
    folder = Path(sys.argv[1])
    files = convert(build())
    for name, content in zip(("float32", "float16"), files, strict=True):
        (folder / f"{name}.tflite").write_bytes(content)
