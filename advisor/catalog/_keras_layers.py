"""Describe the layers of a Keras graph, and give them their weights.

`_convert.py` maps a file's tensors to these descriptions (`_weights/mapping.py`). The names of
parts (``weight``, ``depthwise``) are those of graph files, too.
"""

from collections.abc import Mapping

import keras
from keras import layers

from advisor.catalog._weights.mapping import NORM_PARTS, LayerKind, LayerSpec
from advisor.catalog._weights.readers import Array

# A separable convolution is a Conv2D in Keras too, so its row comes first.
_KINDS: tuple[tuple[type, LayerKind, tuple[str, ...]], ...] = (
    (layers.SeparableConv2D, "separable", ("depthwise", "pointwise", "bias")),
    (layers.DepthwiseConv2D, "depthwise", ("weight", "bias")),
    (layers.Conv2D, "convolution", ("weight", "bias")),
    (layers.Dense, "dense", ("weight", "bias")),
)


def layers_of(model: keras.Model) -> tuple[LayerSpec, ...]:
    """Return the layers of a model that have weights, in the order of the graph."""
    return tuple(_describe_layer(layer) for layer in model.layers if layer.weights)


def _describe_layer(layer: keras.Layer) -> LayerSpec:
    name = str(layer.name)
    shapes = [tuple(weight.shape) for weight in layer.weights]
    if isinstance(layer, layers.BatchNormalization):
        of_norm = NORM_PARTS if layer.scale else NORM_PARTS[1:]
        return LayerSpec(name, "norm", dict(zip(of_norm, shapes, strict=True)), layer.epsilon)
    for kind_of_layer, kind, parts in _KINDS:
        if isinstance(layer, kind_of_layer):
            return LayerSpec(name, kind, dict(zip(parts, shapes, strict=False)))
    raise ValueError(f"the layer '{name}' is of no known kind")


def fill_layers(model: keras.Model, weights: Mapping[str, Array]) -> None:
    """Give every layer of a model its weights, named as by :meth:`.LayerSpec.tensor`."""
    for layer in layers_of(model):
        arrays = [weights[layer.tensor(part)] for part in layer.shapes]
        model.get_layer(layer.name).set_weights(arrays)
