"""A user's model in the runtime that it was made for, which a conversion is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from advisor.catalog.weights.arrays import Array


@dataclass(frozen=True)
class Layer:
    """A layer of the original model, and what it computes of one image.

    Attributes:
        name: of the layer.
        operator: of the original's format, such as ``Conv``.
        inputs: names of the layers that it reads.
        values: of its output, in the original's order of dimensions.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    values: Array


class Original(Protocol):
    """A user's model in the runtime that it was made for."""

    @property
    def converter(self) -> str:
        """The converter of this format and its version, such as ``onnx2tf 2.6.9``."""

    @property
    def runtime(self) -> str:
        """The runtime and its version, such as ``onnxruntime 1.31.1``."""

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of images (N, S, S, 3) that are normalised as the model expects."""

    def layers(self, image: Array) -> Sequence[Layer]:
        """Return every layer for one image (1, S, S, 3), each after those that it reads."""
