"""Map a file's tensors to a Keras graph of the catalogue, by rules that are small classes.

A rule returns the arrays of a layer in the order of Keras' own weights. A new rule is one class and one line in
:func:`_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.tensors import TrackedTensors
from advisor.core.errors import WeightsError, nearest

if TYPE_CHECKING:
    import keras


class WeightMapping(Protocol):
    """A rule from tensor names to layers."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        """Return the weights of ``layer`` in Keras' order and layout."""

    def ignored(self, name: str) -> bool:
        """Return whether a tensor of this name may stay unused."""


def names() -> tuple[str, ...]:
    """Return the rules that there are."""
    return tuple(_rules())


def put(port: str, model: keras.Model, tensors: Mapping[str, Array]) -> None:
    """Fill every layer of ``model`` from ``tensors`` by the rule named ``port``.

    Raises:
        WeightsError: the rule is unknown, or a tensor is missing, has another shape, is not finite, or is not used.
    """
    rules = _rules()
    if port not in rules:
        raise WeightsError(f"no rule is called '{port}'{nearest(port, rules)}", f"there are: {', '.join(rules)}")
    rule = rules[port]()
    taken = TrackedTensors(tensors)
    for layer in model.layers:
        if layer.weights:
            _fill(layer, rule.arrays(layer, taken))
    left = [name for name in taken.unused() if not rule.ignored(name)]
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


def _rules() -> dict[str, Callable[[], WeightMapping]]:
    from advisor.catalog.weights.mapping import caffe, gluon, keras_order, slim, torch_names

    return {
        "keras": keras_order.KerasOrder,
        "slim_mobilenet_v1": slim.FrozenMobileNetV1,
        "slim_mobilenet_v2": slim.FrozenMobileNetV2,
        "slim_scopes": slim.SlimScopes,
        "hub_mobilenet_v1": slim.FoldedMobileNetV1,
        "slim_inception_v3": slim.FrozenInceptionV3,
        "slim_inception_v3_folded": slim.FoldedInceptionV3,
        "efficientnet_lite": torch_names.EfficientNetLite,
        "timm_efficientnet_lite": torch_names.TimmEfficientNetLite,
        "torch_modules": torch_names.TorchModules,
        "torchvision_mobilenet_v2": torch_names.TorchvisionMobileNetV2,
        "squeezenet": caffe.SqueezeNet,
        "gluon_squeezenet": gluon.SqueezeNet,
    }
