"""Build a card's Keras model, with the card's weights or with fixed-seed random ones."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog import architectures
from advisor.catalog.cards import Card
from advisor.catalog.weights.readers import Array
from advisor.downloads.files import WeightsFile

if TYPE_CHECKING:
    import keras


def build_model(card: Card, weights: WeightsFile | None) -> keras.Model:
    """Build the card's ``keras.Model``: one fixed input and two named outputs.

    Input ``image``: (1, S, S, 3) float32 RGB, already normalised by ``card.preprocessing``. Outputs, a dictionary:
    ``probabilities`` (1, classes), softmax, and ``features`` (1, F), the pooled vector under the classifier.
    Without ``weights`` the values are random with a fixed seed; latency and memory are those of the trained network.

    Raises:
        UsageError: an architecture that cannot be built from the card.
        WeightsError: weights that cannot be read or do not fit the graph.
    """
    model = architectures.build(card.architecture, card.input_size, card.classes, card.keywords)
    if weights is None:
        fill_randomly(model)
        return model
    from advisor.catalog.weights import mapping, readers

    mapping.put(weights.port, model, readers.read(weights.format, weights.path))
    return model


def fill_randomly(model: keras.Model) -> None:
    """Fill ``model`` with random weights whose activations keep their scale, BatchNorm statistics included.

    Kernels are drawn as in He et al. (arXiv 1502.01852). Then one image of noise passes in training mode with a
    momentum of zero, which sets every moving mean and variance to that of the layer's input. With the default values,
    activations shrink layer by layer into denormal numbers, which processors compute many times slower.
    """
    from keras import layers

    rng = np.random.default_rng(0)
    for layer in model.layers:
        for variable in layer.trainable_variables:
            if len(variable.shape) >= 2:
                variable.assign(_he_normal(rng, variable.shape, _is_depthwise(layer, variable)))
    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(rng.normal(size=model.inputs[0].shape).astype(np.float32), training=True)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


def _is_depthwise(layer: keras.Layer, variable: keras.Variable) -> bool:
    from keras import layers

    # The names of Slim's and torch's layers do not say that they are depthwise.
    if isinstance(layer, layers.SeparableConv2D):
        return variable is layer.depthwise_kernel
    return isinstance(layer, layers.DepthwiseConv2D)


def _he_normal(rng: np.random.Generator, shape: tuple[int, ...], depthwise: bool) -> Array:
    fan_in = prod(shape[:2]) if depthwise else prod(shape[:-1])
    return rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32)
