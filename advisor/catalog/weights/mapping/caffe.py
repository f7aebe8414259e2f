"""Map SqueezeNet's Caffe blobs: ``<layer>/0`` is the kernel, ``<layer>/1`` the bias."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.layouts import from_output_first
from advisor.catalog.weights.mapping.tensors import TrackedTensors

if TYPE_CHECKING:
    import keras


class SqueezeNet:
    """SqueezeNet in Caffe. Its input is BGR and ours is RGB, so the first kernel's inputs are reversed."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        name = re.sub(r"^(fire\d)_", r"\1/", layer.name)
        kernel = from_output_first(tensors(f"{name}/0"), layer)
        if layer.name == "conv1":
            kernel = kernel[:, :, ::-1, :]
        return [kernel, tensors(f"{name}/1")]

    def ignored(self, name: str) -> bool:
        return not name
