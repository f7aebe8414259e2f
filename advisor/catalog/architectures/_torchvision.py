"""Building blocks of the networks that torchvision published: its padding, its epsilon, its module names.

A layer carries the path of the torch module it stands for (``layer1.0.conv1``), so that a ``.pth`` file's tensors find
their layer by name alone.
"""

from __future__ import annotations

import keras
from keras import layers

from advisor.catalog.graph import network

BATCH_NORM_EPSILON = 1e-5  # torch.nn.BatchNorm2d's default


def convolution(x: keras.KerasTensor, filters: int, kernel: int, stride: int, name: str) -> keras.KerasTensor:
    """Return a convolution without bias, padded by half its kernel, like ``padding=kernel // 2`` in torch."""
    x, padding = _padded(x, kernel, stride, name)
    return layers.Conv2D(filters, kernel, stride, padding=padding, use_bias=False, name=name)(x)


def depthwise(x: keras.KerasTensor, kernel: int, stride: int, name: str) -> keras.KerasTensor:
    """Return the depthwise form of :func:`convolution`."""
    x, padding = _padded(x, kernel, stride, name)
    return layers.DepthwiseConv2D(kernel, stride, padding=padding, use_bias=False, name=name)(x)


def batch_norm(x: keras.KerasTensor, name: str, relu: bool) -> keras.KerasTensor:
    """Batch normalization, then ReLU where ``relu``."""
    x = layers.BatchNormalization(epsilon=BATCH_NORM_EPSILON, name=name)(x)
    return layers.ReLU(name=f"{name}.relu")(x) if relu else x


def max_pool(x: keras.KerasTensor, name: str) -> keras.KerasTensor:
    """3x3 pooling with stride 2 and one row of padding; zeros pad rightly because what is pooled comes from a ReLU."""
    x = layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
    return layers.MaxPooling2D(3, 2, name=name)(x)


def pooled_classifier(image: keras.KerasTensor, backbone: keras.KerasTensor, classes: int, name: str) -> keras.Model:
    """Pool ``backbone`` and close it with the dense softmax layer that torch calls ``name``."""
    features = layers.GlobalAveragePooling2D(name="features")(backbone)
    logits = layers.Dense(classes, name=name)(features)
    return network(image, layers.Softmax(name="probabilities")(logits), features)


def _padded(x: keras.KerasTensor, kernel: int, stride: int, name: str) -> tuple[keras.KerasTensor, str]:
    # At stride 1 TensorFlow's 'same' pads as torch does; at stride 2 it pads the far side only.
    if kernel == 1 or stride == 1:
        return x, "same"
    return layers.ZeroPadding2D(kernel // 2, name=f"{name}.pad")(x), "valid"
