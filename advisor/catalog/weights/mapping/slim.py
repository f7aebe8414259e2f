"""Map TF-Slim's names: ``MobilenetV1/Conv2d_1_depthwise/...``, with BatchNorm kept or folded in.

Its classifiers know 1001 labels, the background first; a graph of 1000 takes the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.layouts import folded_norm, from_runtime
from advisor.catalog.weights.mapping.tensors import TrackedTensors

if TYPE_CHECKING:
    import keras


_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
_VARIABLES = ("weights", "biases", *_NORM)


class FrozenMobileNetV1:
    """A frozen training graph, BatchNorm kept; what others added behind the original classifier is left out."""

    _ROOT = "MobilenetV1/"

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        name = f"{self._ROOT}{_slim_layer(layer.name)}"
        if layer.name == "logits":
            return [_labels(_dense(tensors(f"{name}/{part}")), layer) for part in ("weights", "biases")]
        if layer.name.endswith("_bn"):
            return [tensors(f"{name}/BatchNorm/{part}") for part in _NORM]
        kernel = "depthwise_weights" if name.endswith("_depthwise") else "weights"
        return [tensors(f"{name}/{kernel}")]

    def ignored(self, name: str) -> bool:
        # The head of a later training, and what a frozen graph computes with: shapes, axes.
        return name.startswith("final_training_ops/") or not name.endswith(_VARIABLES)


class FrozenMobileNetV2:
    """A frozen graph of MobileNet V2, BatchNorm kept."""

    _ENDS: ClassVar = {"Conv1": "Conv", "bn_Conv1": "Conv", "Conv_1": "Conv_1", "Conv_1_bn": "Conv_1"}

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        if layer.name == "logits":
            head = "MobilenetV2/Logits/Conv2d_1c_1x1"
            return [_labels(_dense(tensors(f"{head}/{part}")), layer) for part in ("weights", "biases")]
        name = f"MobilenetV2/{self._ENDS.get(layer.name) or self._in_block(layer.name)}"
        if layer.name.lower().endswith("_bn") or layer.name == "bn_Conv1":
            return [tensors(f"{name}/BatchNorm/{part}") for part in _NORM]
        return [tensors(f"{name}/{'depthwise_weights' if name.endswith('/depthwise') else 'weights'}")]

    def ignored(self, name: str) -> bool:
        return not name.endswith(_VARIABLES)

    def _in_block(self, name: str) -> str:
        found = re.match(r"^(?:expanded_conv|block_(\d+))_(expand|depthwise|project)(?:_BN)?$", name)
        if found is None:
            return name
        return f"expanded_conv{'_' + found[1] if found[1] else ''}/{found[2]}"


class SlimScopes:
    """A graph whose layers carry the variable scopes that they stand for, with dots for slashes."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        root = next((name.partition("/")[0] for name in tensors.names() if name.startswith("Inception")), "")
        scope, _, kind = layer.name.rpartition(".")
        if kind == "BatchNorm":
            name = f"{root}/{layer.name.replace('.', '/')}"
            return [tensors(f"{name}/{part}") for part in _NORM[1:]]
        halved = kind in ("depthwise", "pointwise")
        name = f"{root}/{(scope if halved else layer.name).replace('.', '/')}"
        kernel = tensors(f"{name}/{kind}_weights" if halved else f"{name}/weights")
        return [kernel, tensors(f"{name}/biases")] if layer.use_bias else [kernel]

    def ignored(self, name: str) -> bool:
        # The head that helped in training, and what a frozen graph computes with.
        return "/AuxLogits/" in name or not name.endswith(_VARIABLES)


class FoldedMobileNetV1:
    """A TF Hub module's graph, BatchNorm folded into kernels and offsets."""

    _TRUNK = "module_apply_default/MobilenetV1/MobilenetV1/"
    _HEAD = "module/MobilenetV1/"

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        name = _slim_layer(layer.name)
        if layer.name == "logits":
            head = f"{self._HEAD}{name}"
            return [_dense(tensors(f"{head}/weights")), tensors(f"{head}/biases")]
        operator = "depthwise" if name.endswith("_depthwise") else "Conv2D"
        if layer.name.endswith("_bn"):
            return folded_norm(tensors(f"{self._TRUNK}{name}/{operator}_bn_offset"), layer)
        return [tensors(f"{self._TRUNK}{name}/{operator}_weights")]

    def ignored(self, name: str) -> bool:
        return name.startswith("module_apply_default/hub_input/") or name.endswith("/reduction_indices")


class FrozenInceptionV3:
    """A frozen graph of Inception V3, BatchNorm kept, which has no gamma here."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        if layer.name == "logits":
            head = "InceptionV3/Logits/Conv2d_1c_1x1"
            return [_labels(_dense(tensors(f"{head}/{part}")), layer) for part in ("weights", "biases")]
        scope = f"InceptionV3/{_inception_v3_scope(layer.name)}"
        if layer.name.endswith("_BatchNorm"):
            values = [tensors(f"{scope}/BatchNorm/{part}") for part in _NORM[1:]]
            return [np.ones_like(values[0]), *values] if layer.scale else values
        return [tensors(f"{scope}/weights")]

    def ignored(self, name: str) -> bool:
        return "/AuxLogits/" in name or not name.endswith(_VARIABLES)


class FoldedInceptionV3:
    """A quantized ``.tflite`` of Inception V3, dequantized, BatchNorm folded into kernels and biases."""

    _KERNEL = "weights_quant/FakeQuantWithMinMaxVars"

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        if layer.name == "logits":
            head = "InceptionV3/Logits/Conv2d_1c_1x1"
            return [from_runtime(tensors(f"{head}/{self._KERNEL}"), layer), tensors(f"{head}/Conv2D_bias")]
        scope = f"InceptionV3/InceptionV3/{_inception_v3_scope(layer.name)}"
        if layer.name.endswith("_BatchNorm"):
            return folded_norm(tensors(f"{scope}/Conv2D_Fold_bias"), layer)
        return [from_runtime(tensors(f"{scope}/{self._KERNEL}"), layer)]

    def ignored(self, name: str) -> bool:
        return name.endswith("_shape")


def _inception_v3_scope(name: str) -> str:
    """``Mixed_5b_Branch_0_Conv2d_0a_1x1_BatchNorm`` is part of ``Mixed_5b/Branch_0/Conv2d_0a_1x1``."""
    return re.sub(r"^(Mixed_\d[a-z])_(Branch_\d)_", r"\1/\2/", name.removesuffix("_BatchNorm"))


def _slim_layer(name: str) -> str:
    """``conv_dw_3_bn`` is part of ``Conv2d_3_depthwise``."""
    if name == "logits":
        return "Logits/Conv2d_1c_1x1"
    found = re.match(r"^conv(?:1|_(dw|pw)_(\d+))(?:_bn)?$", name)
    if found is None or found[1] is None:
        return "Conv2d_0" if found else name
    return f"Conv2d_{found[2]}_{'depthwise' if found[1] == 'dw' else 'pointwise'}"


def _dense(kernel: Array) -> Array:
    """Return a 1x1 convolution's kernel as a dense layer's; anything else as it is."""
    return kernel.reshape(kernel.shape[2:]) if kernel.ndim == 4 else kernel


def _labels(values: Array, layer: keras.Layer) -> Array:
    return values[..., 1:] if values.shape[-1] == layer.weights[-1].shape[-1] + 1 else values
