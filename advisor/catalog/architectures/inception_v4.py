"""Inception V4 (https://arxiv.org/abs/1602.07261) as TF-Slim built and trained it, without its auxiliary classifier."""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.architectures._slim import Kernel, average_pool, convolution, joined, max_pool
from advisor.catalog.graph import image_input, network

# A step of a branch: channels, kernel, the name of its layer.
Step = tuple[int, Kernel, str]

# Figures 4, 5 and 6 of the paper; a last step follows the average pool.
_INCEPTION_A: tuple[tuple[Step, ...], ...] = (
    ((96, 1, "Conv2d_0a_1x1"),),
    ((64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3")),
    ((64, 1, "Conv2d_0a_1x1"), (96, 3, "Conv2d_0b_3x3"), (96, 3, "Conv2d_0c_3x3")),
)
_INCEPTION_B: tuple[tuple[Step, ...], ...] = (
    ((384, 1, "Conv2d_0a_1x1"),),
    ((192, 1, "Conv2d_0a_1x1"), (224, (1, 7), "Conv2d_0b_1x7"), (256, (7, 1), "Conv2d_0c_7x1")),
    (
        (192, 1, "Conv2d_0a_1x1"),
        (192, (7, 1), "Conv2d_0b_7x1"),
        (224, (1, 7), "Conv2d_0c_1x7"),
        (224, (7, 1), "Conv2d_0d_7x1"),
        (256, (1, 7), "Conv2d_0e_1x7"),
    ),
)
_POOLED_A, _POOLED_B, _POOLED_C = 96, 128, 256


def build(input_size: int, classes: int) -> keras.Model:
    """Return the Keras graph of Inception V4.

    Args:
        input_size: side of the square input in pixels, at least 75.
        classes: labels of the classifier (1001 with the background, as published).
    """
    image = image_input(input_size)
    x = _stem(image)
    for letter in "bcde":
        x = _module(x, f"Mixed_5{letter}", _INCEPTION_A, _POOLED_A)
    x = _reduction_a(x, "Mixed_6a")
    for letter in "bcdefgh":
        x = _module(x, f"Mixed_6{letter}", _INCEPTION_B, _POOLED_B)
    x = _reduction_b(x, "Mixed_7a")
    for letter in "bcd":
        x = _inception_c(x, f"Mixed_7{letter}")
    features = layers.GlobalAveragePooling2D(name="features")(x)
    logits = layers.Dense(classes, name="Logits.Logits")(features)
    return network(image, layers.Softmax(name="probabilities")(logits), features)


def _stem(x: keras.KerasTensor) -> keras.KerasTensor:
    """Figure 3 of the paper: 299 x 299 x 3 becomes 35 x 35 x 384."""
    x = convolution(x, 32, 3, "Conv2d_1a_3x3", stride=2, padding="valid")
    x = convolution(x, 32, 3, "Conv2d_2a_3x3", padding="valid")
    x = convolution(x, 64, 3, "Conv2d_2b_3x3")
    pooled = _halving_pool(x, "Mixed_3a.Branch_0.MaxPool_0a_3x3")
    x = joined([pooled, _halving(x, 96, "Mixed_3a.Branch_1.Conv2d_0a_3x3")], "Mixed_3a")
    first = convolution(x, 64, 1, "Mixed_4a.Branch_0.Conv2d_0a_1x1")
    first = convolution(first, 96, 3, "Mixed_4a.Branch_0.Conv2d_1a_3x3", padding="valid")
    steps = ((64, 1, "Conv2d_0a_1x1"), (64, (1, 7), "Conv2d_0b_1x7"), (64, (7, 1), "Conv2d_0c_7x1"))
    second = _branch(x, steps, "Mixed_4a.Branch_1")
    second = convolution(second, 96, 3, "Mixed_4a.Branch_1.Conv2d_1a_3x3", padding="valid")
    x = joined([first, second], "Mixed_4a")
    halved = _halving(x, 192, "Mixed_5a.Branch_0.Conv2d_1a_3x3")
    return joined([halved, _halving_pool(x, "Mixed_5a.Branch_1.MaxPool_1a_3x3")], "Mixed_5a")


def _module(x: keras.KerasTensor, scope: str, branches: tuple[tuple[Step, ...], ...], pooled: int) -> keras.KerasTensor:
    outputs = [_branch(x, steps, f"{scope}.Branch_{index}") for index, steps in enumerate(branches)]
    return joined([*outputs, _pooled(x, pooled, f"{scope}.Branch_3")], scope)


def _reduction_a(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    first = _halving(x, 384, f"{scope}.Branch_0.Conv2d_1a_3x3")
    second = _branch(x, ((192, 1, "Conv2d_0a_1x1"), (224, 3, "Conv2d_0b_3x3")), f"{scope}.Branch_1")
    second = _halving(second, 256, f"{scope}.Branch_1.Conv2d_1a_3x3")
    return joined([first, second, _halving_pool(x, f"{scope}.Branch_2.MaxPool_1a_3x3")], scope)


def _reduction_b(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    first = convolution(x, 192, 1, f"{scope}.Branch_0.Conv2d_0a_1x1")
    first = _halving(first, 192, f"{scope}.Branch_0.Conv2d_1a_3x3")
    steps = ((256, 1, "Conv2d_0a_1x1"), (256, (1, 7), "Conv2d_0b_1x7"), (320, (7, 1), "Conv2d_0c_7x1"))
    second = _branch(x, steps, f"{scope}.Branch_1")
    second = _halving(second, 320, f"{scope}.Branch_1.Conv2d_1a_3x3")
    return joined([first, second, _halving_pool(x, f"{scope}.Branch_2.MaxPool_1a_3x3")], scope)


def _inception_c(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    first = convolution(x, 256, 1, f"{scope}.Branch_0.Conv2d_0a_1x1")
    second = convolution(x, 384, 1, f"{scope}.Branch_1.Conv2d_0a_1x1")
    wide = convolution(second, 256, (1, 3), f"{scope}.Branch_1.Conv2d_0b_1x3")
    tall = convolution(second, 256, (3, 1), f"{scope}.Branch_1.Conv2d_0c_3x1")
    second = joined([wide, tall], f"{scope}.Branch_1")
    steps = ((384, 1, "Conv2d_0a_1x1"), (448, (3, 1), "Conv2d_0b_3x1"), (512, (1, 3), "Conv2d_0c_1x3"))
    third = _branch(x, steps, f"{scope}.Branch_2")
    wide = convolution(third, 256, (1, 3), f"{scope}.Branch_2.Conv2d_0d_1x3")
    tall = convolution(third, 256, (3, 1), f"{scope}.Branch_2.Conv2d_0e_3x1")
    third = joined([wide, tall], f"{scope}.Branch_2")
    return joined([first, second, third, _pooled(x, _POOLED_C, f"{scope}.Branch_3")], scope)


def _branch(x: keras.KerasTensor, steps: tuple[Step, ...], scope: str) -> keras.KerasTensor:
    for filters, kernel, layer in steps:
        x = convolution(x, filters, kernel, f"{scope}.{layer}")
    return x


def _pooled(x: keras.KerasTensor, filters: int, scope: str) -> keras.KerasTensor:
    return convolution(average_pool(x, f"{scope}.AvgPool_0a_3x3"), filters, 1, f"{scope}.Conv2d_0b_1x1")


def _halving(x: keras.KerasTensor, filters: int, scope: str) -> keras.KerasTensor:
    return convolution(x, filters, 3, scope, stride=2, padding="valid")


def _halving_pool(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    return max_pool(x, scope, stride=2, padding="valid")
