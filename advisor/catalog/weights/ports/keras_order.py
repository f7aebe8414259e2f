"""Keras' own files: layers by name where the names agree, else in the order of the graph, as Keras loads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.catalog.weights.ports.taken import Taken
from advisor.core.errors import WeightsError

Array = np.ndarray[Any, Any]


class KerasOrder:
    """One use for one model: the place in the file moves on from layer to layer."""

    def __init__(self) -> None:
        self._next = 0

    def arrays(self, layer: Any, tensors: Taken) -> list[Array]:
        layers = _layers(tensors)
        groups = list(layers.values())
        if self._next >= len(groups):
            raise WeightsError(f"the file has {len(groups)} layers with weights, the graph has more")
        names = layers.get(layer.name, groups[self._next])
        self._next += 1
        arrays = [tensors(name) for name in names]
        return [_fitted(array, tuple(w.shape)) for array, w in zip(arrays, layer.weights, strict=False)]

    def spare(self, name: str) -> bool:
        return not name


def _layers(tensors: Taken) -> dict[str, list[str]]:
    layers: dict[str, list[str]] = {}
    for name in tensors.names():
        layers.setdefault(name.partition("/")[0], []).append(name)
    return layers


def _fitted(array: Array, shape: tuple[int, ...]) -> Array:
    # Keras' MobileNet V1 classifies with a 1x1 convolution: the same numbers as a dense layer's, with two ones more.
    return array.reshape(shape) if array.ndim == 4 and array.shape == (1, 1, *shape) else array
