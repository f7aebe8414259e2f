"""Map PyTorch checkpoints: ``<module>.weight``, ``.bias``, ``.running_mean``, ``.running_var``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from advisor.catalog.weights.mapping.tensors import Rule, TrackedTensors, from_output_first
from advisor.catalog.weights.readers import Array
from advisor.core.errors import WeightsError

if TYPE_CHECKING:
    import keras

_NORM = ("weight", "bias", "running_mean", "running_var")
_NO_WEIGHTS = r"\.num_batches_tracked$"

_TIMM_ENDS = {
    "conv_stem": "conv_stem",
    "bn0": "bn1",
    "conv_head": "conv_head",
    "bn1": "bn2",
    "logits": "classifier",
}
_TIMM_EXPANDING = {
    "expand_conv": "conv_pw",
    "bn0": "bn1",
    "depthwise_conv": "conv_dw",
    "bn1": "bn2",
    "project_conv": "conv_pwl",
    "bn2": "bn3",
}
_TIMM_PLAIN = {"depthwise_conv": "conv_dw", "bn1": "bn1", "project_conv": "conv_pw", "bn2": "bn2"}

_TORCHVISION_ENDS = {
    "Conv1": "features.0.0",
    "bn_Conv1": "features.0.1",
    "Conv_1": "features.18.0",
    "Conv_1_bn": "features.18.1",
    "logits": "classifier.1",
}
_BLOCK_PARTS = ("expand", "depthwise", "project")


def _arrays(
    module_of: Callable[[str, TrackedTensors], str], layer: keras.Layer, tensors: TrackedTensors
) -> list[Array]:
    from keras import layers

    module = module_of(layer.name, tensors)
    if isinstance(layer, layers.BatchNormalization):
        return [tensors(f"{module}.{part}") for part in _NORM]
    bias = [tensors(f"{module}.bias")] if layer.use_bias else []
    return [from_output_first(tensors(f"{module}.weight"), layer), *bias]


def _same(layer: str, _: TrackedTensors) -> str:
    """Return the layer's own name: the graph's layers are named by the paths of PyTorch's modules."""
    return layer


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


RULES = {
    "efficientnet_lite": Rule(partial(_arrays, _efficientnet_lite), _NO_WEIGHTS),
    "timm_efficientnet_lite": Rule(partial(_arrays, _timm_efficientnet_lite), _NO_WEIGHTS),
    "torch_modules": Rule(partial(_arrays, _same), _NO_WEIGHTS),
    "torchvision_mobilenet_v2": Rule(partial(_arrays, _torchvision_mobilenet_v2), _NO_WEIGHTS),
}
