"""Channels brought to one span before activations become integers: a weak channel beside a strong one loses most of its
steps.

Multiplying an output channel by s and dividing what reads it by s changes nothing where only linear operators, ReLU or
pooling stand between (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019,
section 4.1). Behind ReLU6 it changes nothing either as long as the channel stays below the clip: s is bounded by how
far the calibration pictures were from it. Spans are those of activations, as kernels have a step per channel anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from advisor.compression.layers import DEPTHWISE, Layer, layers, name_of, set_values, values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from advisor.compression.observe import Observation

    Scale = NDArray[np.float64]

LINEAR_SHARE, CLIPPED_SHARE, DEPTHWISE_SHARE = 0.5, 0.75, 1.0
"""How far channels are brought together: 0 not at all, 1 to the same span. A depthwise kernel pays nothing for it, as
each of its channels has its own step; a kernel that sums over channels loses weight precision. Chosen on pictures of
the training part of TrashNet with MobileNetV2 and MobileNetV1 0.25."""

CLIP = 6.0
MARGIN = 1.15
"""How much higher than on any calibration picture a channel may rise before ReLU6 clips it."""

GREATEST = 64.0

_POOLING = frozenset({"MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D"})
_NONE, _RELU, _RELU6 = 0, 1, 3


@dataclass
class _Group:
    """Tensors whose channels must share one scale, what makes them and what reads them."""

    tensors: set[int] = field(default_factory=set)
    makers: list[Layer] = field(default_factory=list)
    readers: list[Layer] = field(default_factory=list)
    clipped: bool = False
    free: bool = True


def equalize(data: bytes, observation: Observation) -> tuple[bytes, Mapping[int, Scale]]:
    """Return the float model with equalized channels, and by what each tensor's channels were multiplied.

    Raises:
        UsageError: the file is damaged.
    """
    from advisor.tflite.rewrite import drop_unused_buffers, pack, unpack

    model = unpack(data)
    scales: dict[int, Scale] = {}
    for group in _groups(model):
        scale = _scale(group, observation)
        for layer in group.makers:
            _multiply(model, layer, scale)
        for layer in group.readers:
            set_values(model, layer.kernel, values(model, layer.kernel) / scale)
        scales |= dict.fromkeys(group.tensors, scale)
    drop_unused_buffers(model)
    return pack(model), scales


def _multiply(model: Any, layer: Layer, scale: Scale) -> None:
    kernel = values(model, layer.kernel)
    shape = [1] * kernel.ndim
    shape[layer.output_axis] = -1
    set_values(model, layer.kernel, kernel * scale.reshape(shape))
    set_values(model, layer.bias, values(model, layer.bias) * scale)


def _scale(group: _Group, observation: Observation) -> Scale:
    """Return what to multiply each channel by: at least 1."""
    import numpy as np

    found = [observation.activations[index] for index in group.tensors]
    reach = np.max([np.maximum(np.abs(one.lows), np.abs(one.highs)).max(axis=0) for one in found], axis=0)
    reach = reach.astype(np.float64)
    share = LINEAR_SHARE
    if all(layer.kind == DEPTHWISE for layer in group.readers):
        share = DEPTHWISE_SHARE
    elif group.clipped:
        share = CLIPPED_SHARE
    room = CLIP / MARGIN if group.clipped else reach.max()
    alive = reach > 1e-6 * max(float(reach.max()), 1e-30)
    wanted = np.where(alive, room / np.where(alive, reach, 1.0), 1.0)
    scale: Scale = np.clip(wanted, 1.0, None) ** share
    return np.minimum(scale, GREATEST)


def _groups(model: Any) -> list[_Group]:
    """Return the groups that can be scaled."""
    graph = model.subgraphs[0]
    layer_of = {layer.output: layer for layer in layers(model)}
    roots = _roots(model, graph)
    groups: dict[int, _Group] = defaultdict(_Group)
    for operator in graph.operators:
        for index in operator.outputs:
            group = groups[roots(index)]
            group.tensors.add(index)
            _add_maker(group, model, operator, layer_of.get(index))
        for index in operator.inputs:
            _add_reader(groups[roots(index)], model, operator, layer_of.get(operator.outputs[0]), index)
    for index in (*graph.inputs, *graph.outputs):
        groups[roots(index)].free = False
    return [group for group in groups.values() if group.free and group.makers and group.readers]


def _add_maker(group: _Group, model: Any, operator: Any, layer: Layer | None) -> None:
    if layer is None:
        group.free &= _passes(model, operator)
        return
    activation = operator.builtinOptions.fusedActivationFunction
    group.makers.append(layer)
    group.clipped |= activation == _RELU6
    group.free &= activation in (_NONE, _RELU, _RELU6)


def _add_reader(group: _Group, model: Any, operator: Any, layer: Layer | None, index: int) -> None:
    if layer is None:
        group.free &= _passes(model, operator)
    elif index == layer.source:
        group.readers.append(layer)
        group.free &= not layer.depthwise or operator.builtinOptions.depthMultiplier in (0, 1)


def _passes(model: Any, operator: Any) -> bool:
    """Whether a channel that is multiplied by a positive number leaves the operator multiplied by it."""
    name = name_of(model, operator)
    if name == "ADD":
        return operator.builtinOptions.fusedActivationFunction in (_NONE, _RELU)
    if name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        return bool(operator.builtinOptions.fusedActivationFunction == _NONE)
    return name == "MEAN"


class _Roots:
    """Which tensors are tied to one another (union-find)."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def __call__(self, index: int) -> int:
        above = self._above.setdefault(index, index)
        if above != index:
            above = self._above[index] = self(above)
        return above

    def tie(self, indices: Iterable[int]) -> None:
        """Put tensors into one group."""
        first, *others = indices
        for other in others:
            self._above[self(other)] = self(first)


def _roots(model: Any, graph: Any) -> _Roots:
    roots = _Roots()
    for operator in graph.operators:
        name = name_of(model, operator)
        if name == "ADD":
            roots.tie((*operator.outputs, *operator.inputs))
        elif name in _POOLING:
            roots.tie((*operator.outputs, operator.inputs[0]))
    return roots
