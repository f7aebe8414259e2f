"""Building blocks of the Inception networks that TF-Slim published: its padding, its normalization, its scope names.

A layer carries the variable scope it stands for with dots for slashes (``Mixed_3b.Branch_0.Conv2d_0a_1x1``), so that a
checkpoint's variables find their layer by name. Slim's batch normalization here has no gamma.
"""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.graph import network

BATCH_NORM_EPSILON = 1e-3  # inception_utils.inception_arg_scope
Kernel = int | tuple[int, int]


def convolution(
    x: keras.KerasTensor, filters: int, kernel: Kernel, scope: str, stride: int = 1, padding: str = "same"
) -> keras.KerasTensor:
    """Return a bias-free convolution, normalized, then ReLU."""
    x = layers.Conv2D(filters, kernel, stride, padding=padding, use_bias=False, name=scope)(x)
    x = layers.BatchNormalization(scale=False, epsilon=BATCH_NORM_EPSILON, name=f"{scope}.BatchNorm")(x)
    return layers.ReLU(name=f"{scope}.Relu")(x)


def max_pool(
    x: keras.KerasTensor, scope: str, stride: int = 1, size: int = 3, padding: str = "same"
) -> keras.KerasTensor:
    """Max pooling."""
    return layers.MaxPooling2D(size, stride, padding=padding, name=scope)(x)


def average_pool(x: keras.KerasTensor, scope: str) -> keras.KerasTensor:
    """3x3 average at stride 1; the padding is not counted in the mean."""
    return layers.AveragePooling2D(3, 1, padding="same", name=scope)(x)


def joined(branches: list[keras.KerasTensor], scope: str) -> keras.KerasTensor:
    """Return the branches of a module, channel after channel."""
    return layers.Concatenate(name=f"{scope}.concat")(branches)


def with_convolutional_logits(image: keras.KerasTensor, x: keras.KerasTensor, classes: int, scope: str) -> keras.Model:
    """Pool, then the classifier that these networks keep as a 1x1 convolution of the variable scope ``scope``."""
    pooled = layers.GlobalAveragePooling2D(keepdims=True, name="pooled")(x)
    logits = layers.Flatten(name="logits")(layers.Conv2D(classes, 1, name=scope)(pooled))
    features = layers.Flatten(name="features")(pooled)
    return network(image, layers.Softmax(name="probabilities")(logits), features)
