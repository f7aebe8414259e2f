"""Converts a network like MobileNetV2 with random weights to float32 and float16, in a process of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from advisor.isolation._lean_imports import install_lean_imports
from advisor.tflite import unpack

CLASSES, FEATURES, SIZE = 100, 1280, 96
INPUT, OUTPUTS = "image", ("probabilities", "features")


def network() -> Callable[[Any], tuple[Any, Any]]:
    """Return the function of an image that gives probabilities and features."""
    import tensorflow as tf

    draw = np.random.default_rng(7)

    def weights(*shape: int) -> Any:
        return tf.constant(draw.normal(0, (2 / np.prod(shape[:-1])) ** 0.5, shape), tf.float32)

    def convolved(value: Any, channels: int, side: int = 1, stride: int = 1) -> Any:
        found = tf.nn.conv2d(value, weights(side, side, value.shape[-1], channels), stride, "SAME")
        return found + 0.1 * weights(1, channels)[0]

    def block(value: Any, channels: int, stride: int) -> Any:
        wide = tf.nn.relu6(convolved(value, 6 * value.shape[-1]))
        kernel = weights(3, 3, 6 * value.shape[-1], 1) * 3
        found = tf.nn.depthwise_conv2d(wide, kernel, [1, stride, stride, 1], "SAME") + 0.1
        narrow = convolved(tf.nn.relu6(found), channels)
        return value + narrow if stride == 1 else narrow

    def answer(image: Any) -> tuple[Any, Any]:
        value = tf.nn.relu6(convolved(image, 16, 3, 2))
        kernel = weights(3, 3, 16, 1) * 3
        value = convolved(tf.nn.relu6(tf.nn.depthwise_conv2d(value, kernel, [1] * 4, "SAME") + 0.1), 8)
        for channels, stride in ((12, 2), (16, 2), (16, 1), (24, 2), (48, 2)):
            value = block(value, channels, stride)
        features = tf.reduce_mean(tf.nn.relu6(convolved(value, FEATURES)), [1, 2])
        return tf.nn.softmax(features @ weights(FEATURES, CLASSES)), features

    return answer


def convert(answer: Callable[[Any], tuple[Any, Any]]) -> tuple[bytes, bytes]:
    """Return the converter's files of a network in float32 and in float16, from one trace as the catalogue's files."""
    import tensorflow as tf

    image = tf.TensorSpec((1, SIZE, SIZE, 3), tf.float32, name=INPUT)
    traced = tf.function(answer).get_concrete_function(image)
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
    tables.replace_signature(graph, INPUT, dict(zip(OUTPUTS, graph.outputs, strict=True)))
    return tables.pack()


if __name__ == "__main__":
    install_lean_imports()
    folder = Path(sys.argv[1])
    files = convert(network())
    for name, content in zip(("float32", "float16"), files, strict=True):
        (folder / f"{name}.tflite").write_bytes(content)
