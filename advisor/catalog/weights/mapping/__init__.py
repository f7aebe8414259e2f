"""Put a file's tensors into a Keras graph of the catalogue, by the rules of :data:`RULES`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog.weights.mapping import rules
from advisor.catalog.weights.mapping.rules import Rule, TrackedTensors
from advisor.catalog.weights.readers import Array
from advisor.core.errors import WeightsError, nearest

if TYPE_CHECKING:
    import keras


def put(port: str, model: keras.Model, tensors: Mapping[str, Array]) -> None:
    """Fill every layer of ``model`` from ``tensors`` by the rule named ``port``.

    Raises:
        WeightsError: the rule is unknown, or a tensor is missing, has another shape, is not finite, or is not used.
    """
    if port not in RULES:
        raise WeightsError(f"no rule is called '{port}'{nearest(port, RULES)}", f"there are: {', '.join(RULES)}")
    rule = RULES[port]
    tracked = TrackedTensors(tensors)
    for layer in model.layers:
        if layer.weights:
            _fill(layer, rule.arrays(layer, tracked))
    left = [name for name in tracked.unused() if not re.search(rule.ignored, name)]
    if left:
        raise WeightsError(f"{len(left)} tensors of the file have no place in the graph, first '{left[0]}'")


def _fill(layer: keras.Layer, arrays: list[Array]) -> None:
    expected = [tuple(weight.shape) for weight in layer.weights]
    found = [array.shape for array in arrays]
    if expected != found:
        raise WeightsError(f"layer '{layer.name}' takes weights of shapes {expected}, the file has {found}")
    if not all(np.isfinite(array).all() for array in arrays):
        raise WeightsError(f"the weights of layer '{layer.name}' are not all finite")
    layer.set_weights(arrays)


def _keras(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the next layer of a Keras file: its layers are in the order of the graph, under names of their own."""
    unused = tensors.unused()
    if not unused:
        count = len({_layer_of(name) for name in tensors.names()})
        raise WeightsError(f"the file has {count} layers with weights, the graph has more")
    arrays = [tensors(name) for name in unused if _layer_of(name) == _layer_of(unused[0])]
    # Keras' MobileNet V1 classifies with a 1x1 convolution: the same numbers as a dense layer's, with two ones more.
    shape = tuple(layer.weights[0].shape)
    if arrays[0].shape == (1, 1, *shape):
        arrays[0] = arrays[0].reshape(shape)
    return arrays


def _layer_of(name: str) -> str:
    return name.partition("/")[0]


RULES = {
    "keras": Rule(_keras),
    **rules.SLIM,
    **rules.TORCH,
    **rules.SQUEEZENET,
}
