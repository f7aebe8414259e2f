"""Map PyTorch checkpoints: ``<module>.weight``, ``.bias``, ``.running_mean``, ``.running_var``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from advisor.catalog.weights.arrays import Array
from advisor.catalog.weights.mapping.layouts import from_output_first
from advisor.catalog.weights.mapping.tensors import TrackedTensors
from advisor.core.errors import WeightsError

if TYPE_CHECKING:
    import keras


class TorchModules:
    """A rule for graphs whose layers are named by the paths of PyTorch's modules."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        return _module(layer.name, layer, tensors)

    def ignored(self, name: str) -> bool:
        return name.endswith(".num_batches_tracked")


class EfficientNetLite:
    """The names of the EfficientNet-Lite checkpoints: the graph's own, with a leading underscore a module."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        name = "fc" if layer.name == "logits" else layer.name
        module = "_" + re.sub(r"^blocks_(\d+)_", r"blocks.\1._", name)
        return _module(module, layer, tensors)

    def ignored(self, name: str) -> bool:
        return name.endswith(".num_batches_tracked")


class TimmEfficientNetLite:
    """timm's names: stages and repeats, ``blocks.<stage>.<repeat>.conv_pwl``; the first block does not expand."""

    _ENDS: ClassVar = {
        "conv_stem": "conv_stem",
        "bn0": "bn1",
        "conv_head": "conv_head",
        "bn1": "bn2",
        "logits": "classifier",
    }
    _EXPANDING: ClassVar = {
        "expand_conv": "conv_pw",
        "bn0": "bn1",
        "depthwise_conv": "conv_dw",
        "bn1": "bn2",
        "project_conv": "conv_pwl",
        "bn2": "bn3",
    }
    _PLAIN: ClassVar = {"depthwise_conv": "conv_dw", "bn1": "bn1", "project_conv": "conv_pw", "bn2": "bn2"}

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        found = re.match(r"^blocks_(\d+)_(\w+)$", layer.name)
        if found is None:
            return _module(self._ENDS.get(layer.name, layer.name), layer, tensors)
        index, part = int(found[1]), found[2]
        blocks = _blocks(tensors)
        if index >= len(blocks):
            raise WeightsError(f"the file has {len(blocks)} blocks, the graph has more")
        parts = self._EXPANDING if index else self._PLAIN
        return _module(f"{blocks[index]}.{parts[part]}", layer, tensors)

    def ignored(self, name: str) -> bool:
        return name.endswith(".num_batches_tracked")


def _blocks(tensors: TrackedTensors) -> list[str]:
    """``blocks.<stage>.<repeat>`` in the order of the network."""
    found = {match[0] for name in tensors.names() if (match := re.match(r"blocks\.\d+\.\d+", name))}
    return sorted(found, key=lambda name: [int(step) for step in name.split(".")[1:]])


_TORCHVISION_ENDS = {
    "Conv1": "features.0.0",
    "bn_Conv1": "features.0.1",
    "Conv_1": "features.18.0",
    "Conv_1_bn": "features.18.1",
    "logits": "classifier.1",
}
_BLOCK_PARTS = ("expand", "depthwise", "project")


class TorchvisionMobileNetV2:
    """torchvision's names: ``features.<n>.conv.<m>``, numbered through."""

    def arrays(self, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
        return _module(_TORCHVISION_ENDS.get(layer.name) or self._in_block(layer.name), layer, tensors)

    def ignored(self, name: str) -> bool:
        return name.endswith(".num_batches_tracked")

    def _in_block(self, name: str) -> str:
        found = re.match(r"^(?:expanded_conv|block_(\d+))_(expand|depthwise|project)(_BN)?$", name)
        if found is None:
            return name
        block = int(found[1] or 0)
        # The first block does not expand, so its parts are numbered from the depthwise one.
        part = _BLOCK_PARTS.index(found[2]) - (0 if found[1] else 1)
        norm = int(found[3] is not None)
        # Projections have no activation: their convolution and norm are not wrapped together.
        inner = f"{part + norm}" if found[2] == "project" else f"{part}.{norm}"
        return f"features.{block + 1}.conv.{inner}"


def _module(name: str, layer: keras.Layer, tensors: TrackedTensors) -> list[Array]:
    from keras import layers

    if isinstance(layer, layers.BatchNormalization):
        return [tensors(f"{name}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
    bias = [tensors(f"{name}.bias")] if layer.use_bias else []
    return [from_output_first(tensors(f"{name}.weight"), layer), *bias]
