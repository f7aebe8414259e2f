"""Map Keras' own files layer by layer in the order of the graph, without names, as Keras loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.tensors import TrackedTensors
from advisor.core.errors import WeightsError

if TYPE_CHECKING:
    import keras


class KerasOrder:
    """The rule for one model; each call reads the next layer of the file."""

    def __init__(self) -> None:
        self._next = 0

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        groups = _groups(tensors)
        if self._next >= len(groups):
            raise WeightsError(f"the file has {len(groups)} layers with weights, the graph has more")
        arrays = [tensors(name) for name in groups[self._next]]
        self._next += 1
        shapes = [tuple(weight.shape) for weight in layer.weights]
        if len(arrays) != len(shapes):
            return arrays  # the caller says which shapes were expected
        return [_fitted(array, shape) for array, shape in zip(arrays, shapes, strict=True)]

    def ignored(self, name: str) -> bool:
        return not name


def _groups(tensors: TrackedTensors) -> list[list[str]]:
    layers: dict[str, list[str]] = {}
    for name in tensors.names():
        layers.setdefault(name.partition("/")[0], []).append(name)
    return list(layers.values())


def _fitted(array: Array, shape: tuple[int, ...]) -> Array:
    # Keras' MobileNet V1 classifies with a 1x1 convolution: the same numbers as a dense layer's, with two ones more.
    return array.reshape(shape) if array.ndim == 4 and array.shape == (1, 1, *shape) else array
