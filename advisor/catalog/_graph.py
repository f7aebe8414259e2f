"""Build the parts that all Keras graphs of the catalogue share, and count a graph.

`_architectures/` builds on it, and `_checking.py` compares the counts with the cards. Names of
layers and outputs are an interface: weights are found by them, and the file's outputs have them.
"""

from math import prod
from typing import TypeAlias

import keras
from keras import layers

Tensor: TypeAlias = keras.KerasTensor


def make_image_input(input_size: int) -> Tensor:
    """Return one normalised RGB image: ``(1, S, S, 3)``.

    The batch is fixed: with an open one the converter writes shapes of -1, which the runtime's
    compiled path refuses.
    """
    return keras.Input((input_size, input_size, 3), batch_size=1, name="image")


def close_with_classifier(
    image: Tensor, backbone: Tensor, classes: int, name: str = "logits"
) -> keras.Model:
    """Close ``backbone`` (1, h, w, F) with a mean over places, a dense layer and a softmax.

    ``name`` is that of the dense layer.
    """
    features = layers.GlobalAveragePooling2D(name="features")(backbone)
    logits = layers.Dense(classes, name=name)(features)
    return make_network(image, layers.Softmax(name="probabilities")(logits), features)


def make_network(image: Tensor, probabilities: Tensor, features: Tensor) -> keras.Model:
    """Return the model from ``image`` to ``{"probabilities": (1, classes), "features": (1, F)}``.

    The converter keeps these keys as the names of the signature's outputs.
    """
    return keras.Model(image, {"probabilities": probabilities, "features": features})


def round_channels(channels: float) -> int:
    """Round a channel count to a multiple of 8, never losing more than 10 % (MobileNet V2)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def count_parameters(model: keras.Model) -> int:
    """Return the number of trained values, without BatchNorm's moving statistics."""
    return sum(prod(variable.shape) for variable in model.trainable_variables)


def count_macs(model: keras.Model) -> int:
    """Return the multiply-accumulates of convolutions and dense layers, without biases."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, layers.SeparableConv2D):
            kernels = prod(layer.depthwise_kernel.shape) + prod(layer.pointwise_kernel.shape)
            total += prod(layer.output.shape[1:-1]) * kernels
        elif isinstance(layer, layers.DepthwiseConv2D | layers.Conv2D):
            total += prod(layer.output.shape[1:-1]) * prod(layer.kernel.shape)
        elif isinstance(layer, layers.Dense):
            total += prod(layer.kernel.shape)
    return int(total)
