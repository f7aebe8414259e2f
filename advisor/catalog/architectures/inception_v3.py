"""Inception V3 (arXiv 1512.00567, in the form of TF-Slim's ``inception_v3``, without the auxiliary head).

Layers are named after TF-Slim's variable scopes, with underscores for slashes; like there, BatchNorm has no scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import layers

from advisor.catalog.graph import image_input, pooled_classifier

Size = int | tuple[int, int]


def build(input_size: int, classes: int) -> keras.Model:
    """Build the graph."""
    image = image_input(input_size)
    x = _stem(image)
    x = _mixed_35(x, "Mixed_5b", pooled=32)
    x = _mixed_35(x, "Mixed_5c", pooled=64, names=("Conv2d_0b_1x1", "Conv_1_0c_5x5"))
    x = _mixed_35(x, "Mixed_5d", pooled=64)
    x = _reduce_to_17(x, "Mixed_6a")
    for name, inner in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        x = _mixed_17(x, name, inner)
    x = _reduce_to_8(x, "Mixed_7a")
    x = _mixed_8(x, "Mixed_7b", first_split="Conv2d_0b_3x1")
    x = _mixed_8(x, "Mixed_7c", first_split="Conv2d_0c_3x1")
    return pooled_classifier(image, x, classes)


def _stem(image: keras.KerasTensor) -> keras.KerasTensor:
    x = _convolve(image, 32, 3, "Conv2d_1a_3x3", stride=2, padding="valid")
    x = _convolve(x, 32, 3, "Conv2d_2a_3x3", padding="valid")
    x = _convolve(x, 64, 3, "Conv2d_2b_3x3")
    x = layers.MaxPooling2D(3, strides=2, name="MaxPool_3a_3x3")(x)
    x = _convolve(x, 80, 1, "Conv2d_3b_1x1", padding="valid")
    x = _convolve(x, 192, 3, "Conv2d_4a_3x3", padding="valid")
    return layers.MaxPooling2D(3, strides=2, name="MaxPool_5a_3x3")(x)


def _mixed_35(
    x: keras.KerasTensor, name: str, pooled: int, names: tuple[str, str] = ("Conv2d_0a_1x1", "Conv2d_0b_5x5")
) -> keras.KerasTensor:
    one = _convolve(x, 64, 1, f"{name}_Branch_0_Conv2d_0a_1x1")
    five = _convolve(x, 48, 1, f"{name}_Branch_1_{names[0]}")
    five = _convolve(five, 64, 5, f"{name}_Branch_1_{names[1]}")
    double = _convolve(x, 64, 1, f"{name}_Branch_2_Conv2d_0a_1x1")
    double = _convolve(double, 96, 3, f"{name}_Branch_2_Conv2d_0b_3x3")
    double = _convolve(double, 96, 3, f"{name}_Branch_2_Conv2d_0c_3x3")
    return _joined(name, [one, five, double, _pooled(x, pooled, name)])


def _reduce_to_17(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    three = _convolve(x, 384, 3, f"{name}_Branch_0_Conv2d_1a_1x1", stride=2, padding="valid")
    double = _convolve(x, 64, 1, f"{name}_Branch_1_Conv2d_0a_1x1")
    double = _convolve(double, 96, 3, f"{name}_Branch_1_Conv2d_0b_3x3")
    double = _convolve(double, 96, 3, f"{name}_Branch_1_Conv2d_1a_1x1", stride=2, padding="valid")
    pool = layers.MaxPooling2D(3, strides=2, name=f"{name}_Branch_2_MaxPool_1a_3x3")(x)
    return _joined(name, [three, double, pool])


def _mixed_17(x: keras.KerasTensor, name: str, inner: int) -> keras.KerasTensor:
    one = _convolve(x, 192, 1, f"{name}_Branch_0_Conv2d_0a_1x1")
    seven = _convolve(x, inner, 1, f"{name}_Branch_1_Conv2d_0a_1x1")
    seven = _convolve(seven, inner, (1, 7), f"{name}_Branch_1_Conv2d_0b_1x7")
    seven = _convolve(seven, 192, (7, 1), f"{name}_Branch_1_Conv2d_0c_7x1")
    double = _convolve(x, inner, 1, f"{name}_Branch_2_Conv2d_0a_1x1")
    double = _convolve(double, inner, (7, 1), f"{name}_Branch_2_Conv2d_0b_7x1")
    double = _convolve(double, inner, (1, 7), f"{name}_Branch_2_Conv2d_0c_1x7")
    double = _convolve(double, inner, (7, 1), f"{name}_Branch_2_Conv2d_0d_7x1")
    double = _convolve(double, 192, (1, 7), f"{name}_Branch_2_Conv2d_0e_1x7")
    return _joined(name, [one, seven, double, _pooled(x, 192, name)])


def _reduce_to_8(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    three = _convolve(x, 192, 1, f"{name}_Branch_0_Conv2d_0a_1x1")
    three = _convolve(three, 320, 3, f"{name}_Branch_0_Conv2d_1a_3x3", stride=2, padding="valid")
    seven = _convolve(x, 192, 1, f"{name}_Branch_1_Conv2d_0a_1x1")
    seven = _convolve(seven, 192, (1, 7), f"{name}_Branch_1_Conv2d_0b_1x7")
    seven = _convolve(seven, 192, (7, 1), f"{name}_Branch_1_Conv2d_0c_7x1")
    seven = _convolve(seven, 192, 3, f"{name}_Branch_1_Conv2d_1a_3x3", stride=2, padding="valid")
    pool = layers.MaxPooling2D(3, strides=2, name=f"{name}_Branch_2_MaxPool_1a_3x3")(x)
    return _joined(name, [three, seven, pool])


def _mixed_8(x: keras.KerasTensor, name: str, first_split: str) -> keras.KerasTensor:
    one = _convolve(x, 320, 1, f"{name}_Branch_0_Conv2d_0a_1x1")
    split = _convolve(x, 384, 1, f"{name}_Branch_1_Conv2d_0a_1x1")
    wide = _convolve(split, 384, (1, 3), f"{name}_Branch_1_Conv2d_0b_1x3")
    tall = _convolve(split, 384, (3, 1), f"{name}_Branch_1_{first_split}")
    deep = _convolve(x, 448, 1, f"{name}_Branch_2_Conv2d_0a_1x1")
    deep = _convolve(deep, 384, 3, f"{name}_Branch_2_Conv2d_0b_3x3")
    deep_wide = _convolve(deep, 384, (1, 3), f"{name}_Branch_2_Conv2d_0c_1x3")
    deep_tall = _convolve(deep, 384, (3, 1), f"{name}_Branch_2_Conv2d_0d_3x1")
    return _joined(name, [one, wide, tall, deep_wide, deep_tall, _pooled(x, 192, name)])


def _pooled(x: keras.KerasTensor, channels: int, name: str) -> keras.KerasTensor:
    x = layers.AveragePooling2D(3, strides=1, padding="same", name=f"{name}_Branch_3_AvgPool_0a_3x3")(x)
    return _convolve(x, channels, 1, f"{name}_Branch_3_Conv2d_0b_1x1")


def _joined(name: str, branches: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    return layers.Concatenate(name=f"{name}_concat")(list(branches))


def _convolve(
    x: keras.KerasTensor, channels: int, kernel: Size, name: str, stride: int = 1, padding: str = "same"
) -> keras.KerasTensor:
    x = layers.Conv2D(channels, kernel, strides=stride, padding=padding, use_bias=False, name=name)(x)
    x = layers.BatchNormalization(epsilon=1e-3, scale=False, name=f"{name}_BatchNorm")(x)
    return layers.ReLU(name=f"{name}_relu")(x)
