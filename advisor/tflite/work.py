"""Describe the operators of a file by what their time on a CPU depends on, after the fusions that the runtime makes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields

from advisor.tflite.values import Model, Operator, Tensor

CONVOLUTION, DEPTHWISE, DENSE = "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"

CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})
_PARTS = frozenset({"SLICE", "STRIDED_SLICE"})
"""Operators that read only what they write."""


@dataclass(frozen=True, order=True)
class Work:
    """One operator as a CPU runs it.

    Attributes:
        kind: its TFLite name, such as ``CONV_2D``.
        pixels: positions of its output.
        channels: values at each position of its output.
        depth: input channels that one output value is computed from; 1 for a depthwise convolution.
        taps: positions of its kernel: 9 for 3x3.
        stride: steps between the positions that it reads, in each direction.
        read: values of its inputs that are not constant.
    """

    kind: str
    pixels: int
    channels: int
    depth: int = 1
    taps: int = 1
    stride: int = 1
    read: int = 0

    @property
    def written(self) -> int:
        """Values of its output."""
        return self.pixels * self.channels

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.written * self.depth * self.taps

    @property
    def weights(self) -> int:
        """Values of its kernel."""
        return self.channels * self.depth * self.taps if self.kind in (CONVOLUTION, DEPTHWISE, DENSE) else 0


SIZES = tuple(field.name for field in fields(Work) if field.name != "kind")
"""The numbers that describe an operator, in the order of its fields."""

Works = tuple[tuple[Work, int], ...]
"""Different operators of a network, each with its number."""


def works_of(model: Model) -> tuple[Work, ...]:
    """Return the operators of the main graph that take time.

    XNNPACK runs a PAD as a part of the convolution that alone reads it, and a clamp as a part of the operator whose
    result it alone reads. Constants are expanded when the file is loaded.
    """
    readers: Counter[int] = Counter(index for operator in model.operators for index in set(operator.inputs))
    readers.update(model.subgraphs[0].outputs)
    convolved = {operator.inputs[0] for operator in model.operators if operator.name in (CONVOLUTION, DEPTHWISE)}
    made = {output for operator in model.operators for output in operator.outputs}

    def takes_time(operator: Operator) -> bool:
        if operator.name == "PAD":
            return readers[operator.outputs[0]] > 1 or operator.outputs[0] not in convolved
        return operator.name not in CLAMPS or readers[operator.inputs[0]] > 1 or operator.inputs[0] not in made

    tensors = model.tensors
    running = (each for each in model.operators if each.outputs and _runs(each, tensors))
    return tuple(_work(operator, tensors) for operator in running if takes_time(operator))


def counted(works: Iterable[Work]) -> Works:
    """Return each different operator with its number, sorted."""
    return tuple(sorted(Counter(works).items()))


def _runs(operator: Operator, tensors: tuple[Tensor, ...]) -> bool:
    return any(index >= 0 and not tensors[index].is_constant for index in operator.inputs)


def _work(operator: Operator, tensors: tuple[Tensor, ...]) -> Work:
    sources = [tensors[index] for index in operator.inputs if index >= 0 and not tensors[index].is_constant]
    output = tensors[operator.outputs[0]]
    read = sum(source.elements for source in sources)
    channels = abs(output.shape[-1]) if output.shape else 1
    pixels = math.prod(abs(side) for side in output.shape[:-1])
    if operator.name in (CONVOLUTION, DEPTHWISE, DENSE) and len(operator.inputs) > 1:
        kernel = tensors[operator.inputs[1]].shape
        taps = kernel[1] * kernel[2] if len(kernel) == 4 else 1
        depth = 1 if operator.name == DEPTHWISE else kernel[-1]
        return Work(operator.name, pixels, channels, depth, taps, _stride(operator), read)
    taps = int(operator.options.get("filter_height", 1)) * int(operator.options.get("filter_width", 1))
    channels *= len(operator.outputs)  # the parts of a split are equal
    if operator.name in _PARTS:
        read = pixels * channels
    return Work(operator.name, pixels, channels, 1, taps, _stride(operator), read)


def _stride(operator: Operator) -> int:
    return int(operator.options.get("stride_h", 1))
