"""Map TF-Slim's names: ``MobilenetV1/Conv2d_1_depthwise/...``, with BatchNorm kept or folded in.

Its classifiers know 1001 labels, the background first; a graph of 1000 takes the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from advisor.catalog.weights.mapping.tensors import Rule, TrackedTensors, folded_norm, from_runtime
from advisor.catalog.weights.readers import Array

if TYPE_CHECKING:
    import keras

_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
# The heads of training, and what a frozen graph computes with: shapes, axes.
_NO_WEIGHTS = rf"/AuxLogits/|^final_training_ops/|^(?!.*({'|'.join(('weights', 'biases', *_NORM))})$)"
_HEAD = "Logits/Conv2d_1c_1x1"


def _kept(scope_of: Callable[[str], str], layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a layer of a frozen graph or a checkpoint, whose BatchNorm is kept."""
    from keras import layers

    root = next((name.partition("/")[0] for name in tensors.names() if name.startswith(("Inception", "Mobilenet"))), "")
    scope = f"{root}/{scope_of(layer.name)}"
    if isinstance(layer, layers.BatchNormalization):
        return [tensors(f"{scope}/BatchNorm/{part}") for part in (_NORM if layer.scale else _NORM[1:])]
    if isinstance(layer, layers.Dense):
        return [_labels(_dense(tensors(f"{scope}/{part}")), layer) for part in ("weights", "biases")]
    half = "depthwise_" if isinstance(layer, layers.DepthwiseConv2D) else ""
    half = "pointwise_" if layer.name.endswith(".pointwise") else half
    bias = [tensors(f"{scope}/biases")] if layer.use_bias else []
    return [tensors(f"{scope}/{half}weights"), *bias]


def _mobilenet_v1_scope(name: str) -> str:
    """``conv_dw_3_bn`` is part of ``Conv2d_3_depthwise``."""
    if name == "logits":
        return _HEAD
    found = re.match(r"^conv(?:1|_(dw|pw)_(\d+))(?:_bn)?$", name)
    if found is None or found[1] is None:
        return "Conv2d_0" if found else name
    return f"Conv2d_{found[2]}_{'depthwise' if found[1] == 'dw' else 'pointwise'}"


def _mobilenet_v2_scope(name: str) -> str:
    """``block_3_expand_BN`` is part of ``expanded_conv_3/expand``."""
    ends = {"Conv1": "Conv", "bn_Conv1": "Conv", "Conv_1": "Conv_1", "Conv_1_bn": "Conv_1", "logits": _HEAD}
    found = re.match(r"^(?:expanded_conv|block_(\d+))_(expand|depthwise|project)(?:_BN)?$", name)
    if found is None:
        return ends.get(name, name)
    return f"expanded_conv{'_' + found[1] if found[1] else ''}/{found[2]}"


def _inception_v3_scope(name: str) -> str:
    """``Mixed_5b_Branch_0_Conv2d_0a_1x1_BatchNorm`` is part of ``Mixed_5b/Branch_0/Conv2d_0a_1x1``."""
    if name == "logits":
        return _HEAD
    return re.sub(r"^(Mixed_\d[a-z])_(Branch_\d)_", r"\1/\2/", name.removesuffix("_BatchNorm"))


def _dotted_scope(name: str) -> str:
    """``Mixed_5b.Branch_0.Conv2d_0a_1x1.BatchNorm`` is part of ``Mixed_5b/Branch_0/Conv2d_0a_1x1``."""
    return re.sub(r"\.(BatchNorm|depthwise|pointwise)$", "", name).replace(".", "/")


def _folded_mobilenet_v1(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a TF Hub module's graph, BatchNorm folded into kernels and offsets."""
    scope = _mobilenet_v1_scope(layer.name)
    if layer.name == "logits":
        head = f"module/MobilenetV1/{scope}"
        return [_dense(tensors(f"{head}/weights")), tensors(f"{head}/biases")]
    operator = "depthwise" if scope.endswith("_depthwise") else "Conv2D"
    name = f"module_apply_default/MobilenetV1/MobilenetV1/{scope}/{operator}"
    if layer.name.endswith("_bn"):
        return folded_norm(tensors(f"{name}_bn_offset"), layer)
    return [tensors(f"{name}_weights")]


def _folded_inception_v3(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a quantized ``.tflite``, dequantized, BatchNorm folded into kernels and biases."""
    root = "InceptionV3" if layer.name == "logits" else "InceptionV3/InceptionV3"
    scope = f"{root}/{_inception_v3_scope(layer.name)}"
    if layer.name.endswith("_BatchNorm"):
        return folded_norm(tensors(f"{scope}/Conv2D_Fold_bias"), layer)
    kernel = from_runtime(tensors(f"{scope}/weights_quant/FakeQuantWithMinMaxVars"), layer)
    return [kernel, tensors(f"{scope}/Conv2D_bias")] if layer.name == "logits" else [kernel]


def _dense(kernel: Array) -> Array:
    """Return a 1x1 convolution's kernel as a dense layer's; anything else as it is."""
    return kernel.reshape(kernel.shape[2:]) if kernel.ndim == 4 else kernel


def _labels(values: Array, layer: keras.Layer) -> Array:
    return values[..., 1:] if values.shape[-1] == layer.weights[-1].shape[-1] + 1 else values


RULES = {
    "slim_mobilenet_v1": Rule(partial(_kept, _mobilenet_v1_scope), _NO_WEIGHTS),
    "slim_mobilenet_v2": Rule(partial(_kept, _mobilenet_v2_scope), _NO_WEIGHTS),
    "slim_scopes": Rule(partial(_kept, _dotted_scope), _NO_WEIGHTS),
    "hub_mobilenet_v1": Rule(_folded_mobilenet_v1, r"^module_apply_default/hub_input/|/reduction_indices$"),
    "slim_inception_v3": Rule(partial(_kept, _inception_v3_scope), _NO_WEIGHTS),
    "slim_inception_v3_folded": Rule(_folded_inception_v3, "_shape$"),
}
