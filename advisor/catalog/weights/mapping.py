"""Put a file's tensors into a Keras graph, by rules: the names in each framework, and kernels in Keras' layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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
        """Return the tensor called ``name`` as float32; the error for a missing one names the nearest."""
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

    ``arrays`` returns the weights of a layer in Keras' order and layout; names like ``ignored`` may stay unused.
    """

    arrays: Callable[[keras.Layer, TrackedTensors], list[Array]]
    ignored: str = "^$"


def put(port: str, model: keras.Model, tensors: Mapping[str, Array]) -> None:
    """Fill every layer of ``model`` from ``tensors`` by the rule named ``port``."""
    if port not in RULES:
        raise WeightsError(f"no rule is called '{port}'{nearest(port, RULES)}", f"there are: {', '.join(RULES)}")
    rule = RULES[port]
    tracked = TrackedTensors(tensors)
    for layer in model.layers:
        if layer.weights:
            arrays = rule.arrays(layer, tracked)
            expected, found = [tuple(weight.shape) for weight in layer.weights], [array.shape for array in arrays]
            if expected != found:
                raise WeightsError(f"layer '{layer.name}' takes weights of shapes {expected}, the file has {found}")
            if not all(np.isfinite(array).all() for array in arrays):
                raise WeightsError(f"the weights of layer '{layer.name}' are not all finite")
            layer.set_weights(arrays)
    left = [name for name in tracked.unused() if not re.search(rule.ignored, name)]
    if left:
        raise WeightsError(f"{len(left)} tensors of the file have no place in the graph, first '{left[0]}'")


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


# Map TF-Slim's names: ``MobilenetV1/Conv2d_1_depthwise/...``, with BatchNorm kept or folded in.
#
# Its classifiers know 1001 labels, the background first; a graph of 1000 takes the rest.

_SLIM_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
# The heads of training, and what a frozen graph computes with: shapes, axes.
_SLIM_EXTRA = rf"/AuxLogits/|^final_training_ops/|^(?!.*({'|'.join(('weights', 'biases', *_SLIM_NORM))})$)"
_HEAD = "Logits/Conv2d_1c_1x1"


def _kept(scope_of: Callable[[str], str], layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a layer of a frozen graph or a checkpoint, whose BatchNorm is kept."""
    from keras import layers

    root = next((name.partition("/")[0] for name in tensors.names() if name.startswith(("Inception", "Mobilenet"))), "")
    scope = f"{root}/{scope_of(layer.name)}"
    if isinstance(layer, layers.BatchNormalization):
        return [tensors(f"{scope}/BatchNorm/{part}") for part in (_SLIM_NORM if layer.scale else _SLIM_NORM[1:])]
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


_SLIM = {
    "slim_mobilenet_v1": Rule(partial(_kept, _mobilenet_v1_scope), _SLIM_EXTRA),
    "slim_mobilenet_v2": Rule(partial(_kept, _mobilenet_v2_scope), _SLIM_EXTRA),
    "slim_scopes": Rule(partial(_kept, _dotted_scope), _SLIM_EXTRA),
    "hub_mobilenet_v1": Rule(_folded_mobilenet_v1, r"^module_apply_default/hub_input/|/reduction_indices$"),
    "slim_inception_v3": Rule(partial(_kept, _inception_v3_scope), _SLIM_EXTRA),
    "slim_inception_v3_folded": Rule(_folded_inception_v3, "_shape$"),
}


_TORCH_NORM = ("weight", "bias", "running_mean", "running_var")
_TORCH_EXTRA = r"\.num_batches_tracked$"

_TIMM_ENDS = {"bn0": "bn1", "bn1": "bn2", "logits": "classifier"}
_TIMM_EXPANDING = {
    "expand_conv": "conv_pw", "bn0": "bn1", "depthwise_conv": "conv_dw", "bn1": "bn2", "project_conv": "conv_pwl",
    "bn2": "bn3",
}  # fmt: skip
_TIMM_PLAIN = {"depthwise_conv": "conv_dw", "bn1": "bn1", "project_conv": "conv_pw", "bn2": "bn2"}

_TORCHVISION_ENDS = {
    "Conv1": "features.0.0", "bn_Conv1": "features.0.1", "Conv_1": "features.18.0", "Conv_1_bn": "features.18.1",
    "logits": "classifier.1",
}  # fmt: skip
_BLOCK_PARTS = ("expand", "depthwise", "project")


def _arrays(
    module_of: Callable[[str, TrackedTensors], str], layer: keras.Layer, tensors: TrackedTensors
) -> list[Array]:
    from keras import layers

    module = module_of(layer.name, tensors)
    if isinstance(layer, layers.BatchNormalization):
        return [tensors(f"{module}.{part}") for part in _TORCH_NORM]
    bias = [tensors(f"{module}.bias")] if layer.use_bias else []
    return [from_output_first(tensors(f"{module}.weight"), layer), *bias]


def _efficientnet_lite(layer: str, _: TrackedTensors) -> str:
    """Return the name of the EfficientNet-Lite checkpoints: the graph's own, with a leading underscore a module."""
    name = "fc" if layer == "logits" else layer
    return "_" + re.sub(r"^blocks_(\d+)_", r"blocks.\1._", name)


def _timm_efficientnet_lite(layer: str, tensors: TrackedTensors) -> str:
    """Return timm's name: ``blocks.<stage>.<repeat>.conv_pwl``; the first block does not expand."""
    found = re.match(r"^blocks_(\d+)_(\w+)$", layer)
    if found is None:
        return _TIMM_ENDS.get(layer, layer)
    index, part = int(found[1]), found[2]
    matches = (re.match(r"blocks\.(\d+)\.(\d+)", name) for name in tensors.names())
    blocks = sorted({(int(match[1]), int(match[2])) for match in matches if match})
    if index >= len(blocks):
        raise WeightsError(f"the file has {len(blocks)} blocks, the graph has more")
    stage, repeat = blocks[index]
    return f"blocks.{stage}.{repeat}.{(_TIMM_EXPANDING if index else _TIMM_PLAIN)[part]}"


def _torchvision_mobilenet_v2(layer: str, _: TrackedTensors) -> str:
    """Return torchvision's name: ``features.<n>.conv.<m>``, numbered through."""
    found = re.match(r"^(?:expanded_conv|block_(\d+))_(expand|depthwise|project)(_BN)?$", layer)
    if found is None:
        return _TORCHVISION_ENDS.get(layer, layer)
    block = int(found[1] or 0)
    # The first block does not expand, so its parts are numbered from the depthwise one.
    part = _BLOCK_PARTS.index(found[2]) - (0 if found[1] else 1)
    norm = int(found[3] is not None)
    # Projections have no activation: their convolution and norm are not wrapped together.
    inner = f"{part + norm}" if found[2] == "project" else f"{part}.{norm}"
    return f"features.{block + 1}.conv.{inner}"


_TORCH = {
    "efficientnet_lite": Rule(partial(_arrays, _efficientnet_lite), _TORCH_EXTRA),
    "timm_efficientnet_lite": Rule(partial(_arrays, _timm_efficientnet_lite), _TORCH_EXTRA),
    # The graph's layers are named by the paths of PyTorch's modules.
    "torch_modules": Rule(partial(_arrays, lambda layer, _: layer), _TORCH_EXTRA),
    "torchvision_mobilenet_v2": Rule(partial(_arrays, _torchvision_mobilenet_v2), _TORCH_EXTRA),
}


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
    found = re.match(r"^fire(\d)_(\w+)$", layer.name)
    number = 0 if layer.name == "conv1" else 25
    if found is not None:
        number = 1 + len(_PARTS) * (int(found[1]) - 2) + _PARTS.index(found[2])
    name = f"squeezenet0_conv{number}"
    return [from_output_first(tensors(f"{name}_weight"), layer), tensors(f"{name}_bias")]


def _keras(layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    """Return the next layer of a Keras file: its layers are in the order of the graph, under names of their own."""
    unused = tensors.unused()
    if not unused:
        count = len({name.partition("/")[0] for name in tensors.names()})
        raise WeightsError(f"the file has {count} layers with weights, the graph has more")
    prefix = unused[0].partition("/")[0]
    arrays = [tensors(name) for name in unused if name.partition("/")[0] == prefix]
    # Keras' MobileNet V1 classifies with a 1x1 convolution: the same numbers as a dense layer's, with two ones more.
    shape = tuple(layer.weights[0].shape)
    if arrays[0].shape == (1, 1, *shape):
        arrays[0] = arrays[0].reshape(shape)
    return arrays


RULES = {"keras": Rule(_keras), **_SLIM, **_TORCH, "squeezenet": Rule(_caffe), "gluon_squeezenet": Rule(_gluon)}
