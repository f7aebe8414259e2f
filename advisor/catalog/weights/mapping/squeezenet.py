"""Map the tensors of SqueezeNet in Caffe and in Gluon (MXNet)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.catalog.weights.mapping.tensors import Rule, TrackedTensors, from_output_first
from advisor.catalog.weights.readers import Array

if TYPE_CHECKING:
    import keras

_FIRST_FIRE = 2
_PARTS = ("squeeze1x1", "expand1x1", "expand3x3")


def _caffe(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return Caffe's blobs: ``<layer>/0`` is the kernel, ``<layer>/1`` the bias."""
    name = re.sub(r"^(fire\d)_", r"\1/", layer.name)
    kernel = from_output_first(tensors(f"{name}/0"), layer)
    if layer.name == "conv1":
        kernel = kernel[:, :, ::-1, :]  # Caffe's input is BGR
    return [kernel, tensors(f"{name}/1")]


def _gluon(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return ``squeezenet0_conv<n>``: the stem is 0, every fire module has three, the classifier comes last."""
    name = f"squeezenet0_conv{_gluon_number(layer.name)}"
    return [from_output_first(tensors(f"{name}_weight"), layer), tensors(f"{name}_bias")]


def _gluon_number(layer: str) -> int:
    found = re.match(r"^fire(\d)_(\w+)$", layer)
    if found is None:
        return 0 if layer == "conv1" else 25
    return 1 + len(_PARTS) * (int(found[1]) - _FIRST_FIRE) + _PARTS.index(found[2])


RULES = {"squeezenet": Rule(_caffe), "gluon_squeezenet": Rule(_gluon)}
