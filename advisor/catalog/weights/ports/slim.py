"""TF-Slim's names: ``MobilenetV1/Conv2d_1_depthwise/...``, whole or with BatchNorm folded in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from advisor.catalog.weights.ports.layouts import folded_norm, from_runtime
from advisor.catalog.weights.ports.taken import Taken

Array = np.ndarray[Any, Any]


class FrozenMobileNetV1:
    """A frozen training graph, BatchNorm kept; what others added behind the original classifier is left out."""

    _ROOT = "MobilenetV1/"

    def arrays(self, layer: Any, tensors: Taken) -> list[Array]:
        name = f"{self._ROOT}{_slim_layer(layer.name)}"
        if layer.name == "logits":
            return [_dense(tensors(f"{name}/weights")), tensors(f"{name}/biases")]
        if layer.name.endswith("_bn"):
            parts = ("gamma", "beta", "moving_mean", "moving_variance")
            return [tensors(f"{name}/BatchNorm/{part}") for part in parts]
        kernel = "depthwise_weights" if name.endswith("_depthwise") else "weights"
        return [tensors(f"{name}/{kernel}")]

    def spare(self, name: str) -> bool:
        # Shapes, reduction axes, and the head of a later training.
        return name.startswith("final_training_ops/") or name.endswith(("/shape", "/reduction_indices"))


class FoldedMobileNetV1:
    """A TF Hub module's graph, BatchNorm folded into kernels and offsets."""

    _TRUNK = "module_apply_default/MobilenetV1/MobilenetV1/"
    _HEAD = "module/MobilenetV1/"

    def arrays(self, layer: Any, tensors: Taken) -> list[Array]:
        name = _slim_layer(layer.name)
        if layer.name == "logits":
            head = f"{self._HEAD}{name}"
            return [_dense(tensors(f"{head}/weights")), tensors(f"{head}/biases")]
        operator = "depthwise" if name.endswith("_depthwise") else "Conv2D"
        if layer.name.endswith("_bn"):
            return folded_norm(tensors(f"{self._TRUNK}{name}/{operator}_bn_offset"), layer)
        return [tensors(f"{self._TRUNK}{name}/{operator}_weights")]

    def spare(self, name: str) -> bool:
        return name.startswith("module_apply_default/hub_input/") or name.endswith("/reduction_indices")


class FoldedInceptionV3:
    """A quantized ``.tflite`` of Inception V3, dequantized, BatchNorm folded into kernels and biases."""

    _KERNEL = "weights_quant/FakeQuantWithMinMaxVars"

    def arrays(self, layer: Any, tensors: Taken) -> list[Array]:
        if layer.name == "logits":
            head = "InceptionV3/Logits/Conv2d_1c_1x1"
            return [from_runtime(tensors(f"{head}/{self._KERNEL}"), layer), tensors(f"{head}/Conv2D_bias")]
        norm = layer.name.endswith("_BatchNorm")
        scope = re.sub(r"^(Mixed_\d[a-z])_(Branch_\d)_", r"\1/\2/", layer.name.removesuffix("_BatchNorm"))
        scope = f"InceptionV3/InceptionV3/{scope}"
        if norm:
            return folded_norm(tensors(f"{scope}/Conv2D_Fold_bias"), layer)
        return [from_runtime(tensors(f"{scope}/{self._KERNEL}"), layer)]

    def spare(self, name: str) -> bool:
        return name.endswith("_shape")


def _slim_layer(name: str) -> str:
    """``conv_dw_3_bn`` is part of ``Conv2d_3_depthwise``."""
    if name == "logits":
        return "Logits/Conv2d_1c_1x1"
    found = re.match(r"^conv(?:1|_(dw|pw)_(\d+))(?:_bn)?$", name)
    if found is None or found[1] is None:
        return "Conv2d_0" if found else name
    return f"Conv2d_{found[2]}_{'depthwise' if found[1] == 'dw' else 'pointwise'}"


def _dense(kernel: Array) -> Array:
    """A 1x1 convolution's kernel as a dense layer's."""
    return kernel.reshape(kernel.shape[2:])
