"""Define what a rule of weight mapping is, and the conversions of kernels to Keras' layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.catalog.weights.readers import Array
from advisor.core.errors import WeightsError, nearest

if TYPE_CHECKING:
    import keras


class TrackedTensors:
    """Named tensors with a record of the names that were used."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()

    def __call__(self, name: str) -> Array:
        """Return the tensor called ``name`` as float32.

        Raises:
            WeightsError: there is none; the error names the nearest one.
        """
        if name not in self._tensors:
            raise WeightsError(f"the file has no tensor '{name}'{nearest(name, self._tensors)}")
        self._used.add(name)
        return np.asarray(self._tensors[name], dtype=np.float32)

    def names(self) -> tuple[str, ...]:
        """Return every name, in the order of the file."""
        return tuple(self._tensors)

    def unused(self) -> list[str]:
        """Return the names that were not used, in the order of the file."""
        return [name for name in self._tensors if name not in self._used]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule from tensor names to layers.

    Attributes:
        arrays: returns the weights of a layer in Keras' order and layout.
        ignored: pattern of the tensor names that may stay unused.
    """

    arrays: Callable[[keras.Layer, TrackedTensors], list[Array]]
    ignored: str = "^$"


def from_output_first(kernel: Array, layer: keras.Layer) -> Array:
    """Convert a kernel of PyTorch or Caffe: (output, input, height, width), dense (output, input)."""
    from keras import layers

    if isinstance(layer, layers.DepthwiseConv2D):
        return kernel.transpose(2, 3, 0, 1)
    return kernel.transpose(2, 3, 1, 0) if kernel.ndim == 4 else kernel.T


def from_runtime(kernel: Array, layer: keras.Layer) -> Array:
    """Convert a kernel of TFLite: (output, height, width, input), depthwise (1, height, width, channel)."""
    from keras import layers

    if isinstance(layer, layers.DepthwiseConv2D):
        return kernel.transpose(1, 2, 3, 0)
    moved = kernel.transpose(1, 2, 3, 0)
    return moved.reshape(moved.shape[2:]) if isinstance(layer, layers.Dense) else moved


def folded_norm(offset: Array, layer: keras.Layer) -> list[Array]:
    """Return a BatchNorm layer that only adds ``offset``: what is left of one that was folded into its convolution.

    Its variance is such that the layer divides by exactly one.
    """
    one, zero = np.ones_like(offset), np.zeros_like(offset)
    scale = [one] if layer.scale else []
    return [*scale, offset, zero, one * np.float32(1.0 - layer.epsilon)]
