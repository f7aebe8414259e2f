"""Find the weights of layers among a file's tensors, by a rule for each kind of file.

`_convert.py` and `_graph_file.py` call :func:`map_weights` with the rule that a card names as the
``port`` of a source, so names of rules stay. A rule knows the names of a framework, and brings
kernels into Keras' layout. A layer is described by a value, so no rule needs Keras or TensorFlow.
A new rule is one function and a line in :func:`map_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from typing import Literal

import numpy as np

from advisor.catalog._weights.readers import Array
from advisor.core import WeightsError, nearest

LayerKind = Literal["convolution", "depthwise", "separable", "dense", "norm"]
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
"""The weights of a BatchNorm, in Keras' order; one that does not scale has no ``weight``."""

_SLIM_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
# The heads of training, and what a frozen graph computes with: shapes, axes.
_SLIM_EXTRA = (
    rf"/AuxLogits/|^final_training_ops/|^(?!.*({'|'.join(('weights', 'biases', *_SLIM_NORM))})$)"
)
_HEAD = ("logits", "Logits/Conv2d_1c_1x1")

# The scopes of TF-Slim (``MobilenetV1/Conv2d_1_depthwise/...``), for a layer and its BatchNorm.
_MOBILENET_V1: Names = (
    _HEAD,
    ("conv1(_bn)?", "Conv2d_0"),
    (r"conv_dw_(\d+)(_bn)?", r"Conv2d_\1_depthwise"),
    (r"conv_pw_(\d+)(_bn)?", r"Conv2d_\1_pointwise"),
)
_MOBILENET_V2: Names = (
    _HEAD,
    ("(bn_)?Conv1", "Conv"),
    ("Conv_1(_bn)?", "Conv_1"),
    ("expanded_conv_([a-z]+)(_BN)?", r"expanded_conv/\1"),
    (r"block_(\d+)_([a-z]+)(_BN)?", r"expanded_conv_\1/\2"),
)
_INCEPTION_V3: Names = (
    _HEAD,
    (r"(Mixed_\d[a-z])_(Branch_\d)_(.*?)(_BatchNorm)?", r"\1/\2/\3"),
    ("(.*)_BatchNorm", r"\1"),
)
_DOTTED: Names = (("(.*)/(BatchNorm|depthwise|pointwise)", r"\1"),)

# The modules of PyTorch.
_EFFICIENTNET_LITE: Names = (
    ("logits", "_fc"),
    (r"blocks_(\d+)_(.*)", r"_blocks.\1._\2"),
    ("(.*)", r"_\1"),
)
_TIMM_ENDS: Names = (("bn0", "bn1"), ("bn1", "bn2"), ("logits", "classifier"))
_TORCHVISION_ENDS: Names = (
    ("Conv1", "features.0.0"),
    ("bn_Conv1", "features.0.1"),
    ("Conv_1", "features.18.0"),
    ("Conv_1_bn", "features.18.1"),
    ("logits", "classifier.1"),
)
_TORCH_EXTRA = r"\.num_batches_tracked$"

_PARTS = ("squeeze1x1", "expand1x1", "expand3x3")


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer with weights.

    Attributes:
        name: unique name in its graph.
        kind: decides the layout of its kernel.
        shapes: shape of each weight in Keras' order and layout, by its part: ``weight`` and
            ``bias``, those of :data:`NORM_PARTS`, or ``depthwise`` and ``pointwise``.
        epsilon: number that a BatchNorm adds to the variance.
    """

    name: str
    kind: LayerKind
    shapes: Mapping[str, tuple[int, ...]]
    epsilon: float = 0.0

    def tensor(self, part: str) -> str:
        """Return the name of a weight among all weights of the graph."""
        return f"{self.name}.{part}"

    def fan_in(self, part: str) -> int:
        """Return how many inputs each output of a kernel adds up."""
        shape = self.shapes[part]
        if self.kind == "depthwise" or part == "depthwise":
            return prod(shape[:2])
        return prod(shape[:-1])


class TrackedTensors:
    """Named tensors with a record of the names that were used."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors
        self._used: set[str] = set()

    def __call__(self, name: str) -> Array:
        """Return the tensor called ``name`` as float32; the error for none names the nearest."""
        if name not in self._tensors:
            raise WeightsError(f"the file has no tensor '{name}'{nearest(name, self._tensors)}")
        self._used.add(name)
        return np.asarray(self._tensors[name], dtype=np.float32)

    def names(self) -> tuple[str, ...]:
        """Return every name, in the order of the file."""
        return tuple(self._tensors)

    def list_unused(self) -> list[str]:
        """Return the names that were not used, in the order of the file."""
        return [name for name in self._tensors if name not in self._used]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule from tensor names to layers.

    ``arrays`` returns the weights of a layer in Keras' order and layout; names like ``ignored``
    may stay unused.
    """

    arrays: Callable[[LayerSpec, TrackedTensors], list[Array]]
    ignored: str = "^$"


def map_weights(
    port: str, layers: Sequence[LayerSpec], tensors: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the weights of layers by ``<layer>.<part>``, by the rule named ``port``.

    Raises:
        WeightsError: no rule has this name, or a tensor is missing, does not fit, is not finite,
            or has no place.
    """
    if port not in map_rules():
        raise WeightsError(
            f"no rule is called '{port}'{nearest(port, map_rules())}",
            f"there are: {', '.join(map_rules())}",
        )
    rule = map_rules()[port]
    tracked = TrackedTensors(tensors)
    weights = dict[str, Array]()
    for layer in layers:
        arrays = rule.arrays(layer, tracked)
        expected = [*layer.shapes.values()]
        shapes = [array.shape for array in arrays]
        if expected != shapes:
            raise WeightsError(
                f"layer '{layer.name}' takes weights of shapes {expected}, the file has {shapes}"
            )
        if not all(np.isfinite(array).all() for array in arrays):
            raise WeightsError(f"the weights of layer '{layer.name}' are not all finite")
        weights |= zip(map(layer.tensor, layer.shapes), arrays, strict=True)
    # Every layer may be filled by the file of another network: then tensors are left.
    unused = []
    for name in tracked.list_unused():
        if not re.search(rule.ignored, name):
            unused.append(name)
    if unused:
        raise WeightsError(
            f"{len(unused)} tensors of the file have no place in the graph, first '{unused[0]}'"
        )
    return weights


def from_output_first(kernel: Array, layer: LayerSpec) -> Array:
    """Convert a kernel of PyTorch or Caffe: (output, input, height, width) or (output, input)."""
    if layer.kind == "depthwise":
        return kernel.transpose(2, 3, 0, 1)
    if kernel.ndim == 4:
        return kernel.transpose(2, 3, 1, 0)
    return kernel.T


def from_runtime(kernel: Array, layer: LayerSpec) -> Array:
    """Convert a kernel of TFLite: (output, height, width, input).

    A depthwise one is (1, height, width, channel).
    """
    moved = kernel.transpose(1, 2, 3, 0)
    if layer.kind == "dense":
        return moved.reshape(moved.shape[2:])
    return moved


def make_folded_norm(offset: Array, layer: LayerSpec) -> list[Array]:
    """Return a BatchNorm layer that only adds ``offset``, as one that was folded.

    Its variance is such that the layer divides by exactly one.
    """
    ones = np.ones_like(offset)
    zero = np.zeros_like(offset)
    scale = [ones] if "weight" in layer.shapes else []
    return [*scale, offset, zero, ones * np.float32(1.0 - layer.epsilon)]


Names = tuple[tuple[str, str], ...]
"""Patterns of layers' names, with their names in a file; a name that none matches stays."""


def _rename_layer(names: Names, layer: str) -> str:
    for pattern, meaning in names:
        match = re.fullmatch(pattern, layer)
        if match:
            return match.expand(meaning)
    return layer


def _map_slim(names: Names, layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a layer of a frozen graph or a checkpoint, whose BatchNorm is kept.

    Its classifiers know 1001 labels, the background first; a graph of 1000 takes the rest.
    """
    # The scope of the network, such as MobilenetV1, comes before all others.
    networks = []
    for name in tensors.names():
        if name.startswith(("Inception", "Mobilenet")):
            networks.append(name)
    root = ""
    if networks:
        root = networks[0].partition("/")[0]
    scope = f"{root}/{_rename_layer(names, layer.name.replace('.', '/'))}"
    if layer.kind == "norm":
        parts = _SLIM_NORM if "weight" in layer.shapes else _SLIM_NORM[1:]
        return [tensors(f"{scope}/BatchNorm/{part}") for part in parts]
    if layer.kind == "dense":
        arrays = [_flatten_pointwise(tensors(f"{scope}/{part}")) for part in ("weights", "biases")]
        background = arrays[1].shape[-1] == layer.shapes["bias"][0] + 1
        if background:
            return [array[..., 1:] for array in arrays]
        return arrays
    half = ""
    if layer.name.endswith(".pointwise"):
        half = "pointwise_"
    elif layer.kind == "depthwise":
        half = "depthwise_"
    bias = []
    if "bias" in layer.shapes:
        bias = [tensors(f"{scope}/biases")]
    return [tensors(f"{scope}/{half}weights"), *bias]


def _map_folded_mobilenet_v1(layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return the weights of a TF Hub module's graph, BatchNorm folded into kernels and offsets."""
    scope = _rename_layer(_MOBILENET_V1, layer.name)
    if layer.name == "logits":
        head = f"module/MobilenetV1/{scope}"
        return [_flatten_pointwise(tensors(f"{head}/weights")), tensors(f"{head}/biases")]
    operator = "depthwise" if scope.endswith("_depthwise") else "Conv2D"
    name = f"module_apply_default/MobilenetV1/MobilenetV1/{scope}/{operator}"
    if layer.name.endswith("_bn"):
        return make_folded_norm(tensors(f"{name}_bn_offset"), layer)
    return [tensors(f"{name}_weights")]


def _map_folded_inception_v3(layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return the dequantized weights of a ``.tflite``, BatchNorm folded into them."""
    root = "InceptionV3" if layer.name == "logits" else "InceptionV3/InceptionV3"
    scope = f"{root}/{_rename_layer(_INCEPTION_V3, layer.name)}"
    if layer.name.endswith("_BatchNorm"):
        return make_folded_norm(tensors(f"{scope}/Conv2D_Fold_bias"), layer)
    kernel = from_runtime(tensors(f"{scope}/weights_quant/FakeQuantWithMinMaxVars"), layer)
    if layer.name == "logits":
        return [kernel, tensors(f"{scope}/Conv2D_bias")]
    return [kernel]


def _flatten_pointwise(kernel: Array) -> Array:
    """Return a 1x1 convolution's kernel as a dense layer's; anything else as it is."""
    if kernel.ndim == 4:
        return kernel.reshape(kernel.shape[2:])
    return kernel


def _map_torch(
    module_of: Callable[[str, TrackedTensors], str], layer: LayerSpec, tensors: TrackedTensors
) -> list[Array]:
    module = module_of(layer.name, tensors)
    if layer.kind == "norm":
        return [tensors(f"{module}.{part}") for part in NORM_PARTS]
    bias = []
    if "bias" in layer.shapes:
        bias = [tensors(f"{module}.bias")]
    return [from_output_first(tensors(f"{module}.weight"), layer), *bias]


def _name_in_timm(layer: str, tensors: TrackedTensors) -> str:
    """Return timm's name, ``blocks.<stage>.<repeat>.conv_pwl``; the first does not expand."""
    match = re.match(r"^blocks_(\d+)_(\w+)$", layer)
    if match is None:
        return _rename_layer(_TIMM_ENDS, layer)
    index = int(match[1])
    part = match[2]
    places = set[tuple[int, int]]()
    for name in tensors.names():
        block = re.match(r"blocks\.(\d+)\.(\d+)", name)
        if block:
            places.add((int(block[1]), int(block[2])))
    blocks = sorted(places)
    if index >= len(blocks):
        raise WeightsError(f"the file has {len(blocks)} blocks, the graph has more")
    stage, repeat = blocks[index]
    place = ("expand_conv", "bn0", "depthwise_conv", "bn1", "project_conv", "bn2").index(part)
    # timm numbers the norms of a block from its first convolution; the first block lacks one.
    expanding = "conv_pw bn1 conv_dw bn2 conv_pwl bn3"
    plain = "- - conv_dw bn1 conv_pw bn2"
    return f"blocks.{stage}.{repeat}.{(expanding if index else plain).split()[place]}"


def _name_in_torchvision(layer: str, _: TrackedTensors) -> str:
    """Return torchvision's name: ``features.<n>.conv.<m>``, numbered through."""
    match = re.match(r"^(?:expanded_conv|block_(\d+))_(expand|depthwise|project)(_BN)?$", layer)
    if match is None:
        return _rename_layer(_TORCHVISION_ENDS, layer)
    block = int(match[1] or 0)
    # The first block does not expand, so its parts are numbered from the depthwise one.
    part = ("expand", "depthwise", "project").index(match[2]) - (0 if match[1] else 1)
    norm = int(match[3] is not None)
    # Projections have no activation: their convolution and norm are not wrapped together.
    inner = f"{part + norm}" if match[2] == "project" else f"{part}.{norm}"
    return f"features.{block + 1}.conv.{inner}"


def _map_caffe(layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return Caffe's blobs: ``<layer>/0`` is the kernel, ``<layer>/1`` the bias."""
    name = re.sub(r"^(fire\d)_", r"\1/", layer.name)
    kernel = from_output_first(tensors(f"{name}/0"), layer)
    # Caffe's input is BGR.
    if layer.name == "conv1":
        kernel = kernel[:, :, ::-1, :]
    return [kernel, tensors(f"{name}/1")]


def _map_gluon(layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return ``squeezenet0_conv<n>``: the stem, three of every fire module, the classifier."""
    match = re.match(r"^fire(\d)_(\w+)$", layer.name)
    # The classifier comes after the stem and the three convolutions of each of eight fire modules.
    number = 0 if layer.name == "conv1" else 25
    if match is not None:
        number = 1 + len(_PARTS) * (int(match[1]) - 2) + _PARTS.index(match[2])
    name = f"squeezenet0_conv{number}"
    return [from_output_first(tensors(f"{name}_weight"), layer), tensors(f"{name}_bias")]


def _map_keras(layer: LayerSpec, tensors: TrackedTensors) -> list[Array]:
    """Return the next layer of a Keras file, whose layers are in the order of the graph.

    Their names are the file's own.
    """
    unused = tensors.list_unused()
    if not unused:
        count = len({name.partition("/")[0] for name in tensors.names()})
        raise WeightsError(f"the file has {count} layers with weights, the graph has more")
    prefix = unused[0].partition("/")[0]
    arrays = []
    for name in unused:
        if name.partition("/")[0] == prefix:
            arrays.append(tensors(name))
    # Keras' MobileNet V1 classifies with a 1x1 convolution: a dense layer with two axes more.
    shape = next(iter(layer.shapes.values()))
    if arrays[0].shape == (1, 1, *shape):
        arrays[0] = arrays[0].reshape(shape)
    return arrays


@cache
def map_rules() -> Mapping[str, Rule]:
    """Return the rules by the names that cards give them."""
    return {
        "keras": Rule(_map_keras),
        "slim_mobilenet_v1": Rule(partial(_map_slim, _MOBILENET_V1), _SLIM_EXTRA),
        "slim_mobilenet_v2": Rule(partial(_map_slim, _MOBILENET_V2), _SLIM_EXTRA),
        "slim_scopes": Rule(partial(_map_slim, _DOTTED), _SLIM_EXTRA),
        "hub_mobilenet_v1": Rule(
            _map_folded_mobilenet_v1, r"^module_apply_default/hub_input/|/reduction_indices$"
        ),
        "slim_inception_v3": Rule(partial(_map_slim, _INCEPTION_V3), _SLIM_EXTRA),
        "slim_inception_v3_folded": Rule(_map_folded_inception_v3, "_shape$"),
        "efficientnet_lite": Rule(
            partial(_map_torch, lambda layer, _: _rename_layer(_EFFICIENTNET_LITE, layer)),
            _TORCH_EXTRA,
        ),
        "timm_efficientnet_lite": Rule(partial(_map_torch, _name_in_timm), _TORCH_EXTRA),
        # The graph's layers are named by the paths of PyTorch's modules.
        "torch_modules": Rule(partial(_map_torch, lambda layer, _: layer), _TORCH_EXTRA),
        "torchvision_mobilenet_v2": Rule(partial(_map_torch, _name_in_torchvision), _TORCH_EXTRA),
        "squeezenet": Rule(_map_caffe),
        "gluon_squeezenet": Rule(_map_gluon),
    }
