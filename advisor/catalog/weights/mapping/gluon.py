"""Map Gluon's names (MXNet) in ONNX files: convolutions are numbered, ``conv0`` to ``conv25``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.layouts import from_output_first
from advisor.catalog.weights.mapping.tensors import TrackedTensors

if TYPE_CHECKING:
    import keras


_FIRST_FIRE = 2
_PARTS = ("squeeze1x1", "expand1x1", "expand3x3")


class SqueezeNet:
    """``squeezenet0_conv<n>``: the stem is 0, every fire module has three, the classifier comes last."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        name = f"squeezenet0_conv{_number(layer.name)}"
        return [from_output_first(tensors(f"{name}_weight"), layer), tensors(f"{name}_bias")]

    def ignored(self, name: str) -> bool:
        return not name


def _number(layer: str) -> str:
    if layer == "conv1":
        return "0"
    found = re.match(r"^fire(\d)_(\w+)$", layer)
    if found is None:
        return "25" if layer == "conv10" else layer
    return str(1 + len(_PARTS) * (int(found[1]) - _FIRST_FIRE) + _PARTS.index(found[2]))
