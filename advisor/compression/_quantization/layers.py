"""Find the layers of a float model that have weights, and read their inputs.

The observer (`observe.py`) sums the inputs of each layer, and `correction.py` rounds its weights.
Layers whose constants are shared with another layer are left out, so they stay as they are. Other
layers, or other inputs of them, need the same new versions as a change of `correction.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.tflite import Model, Operator, Tensor

Floats = NDArray[np.float32]

CONVOLUTION = "CONV_2D"
DEPTHWISE = "DEPTHWISE_CONV_2D"
DENSE = "FULLY_CONNECTED"

_SAME = 0
"""The schema's number of the padding that keeps the size."""


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer: its tensors by index, and how its kernel moves.

    Pairs of numbers are for the directions down and across.

    Attributes:
        kind: ``CONV_2D`` (kernel: outputs, height, width, inputs), ``DEPTHWISE_CONV_2D`` (1,
            height, width, outputs) or ``FULLY_CONNECTED`` (outputs, inputs).
        source: its input; ``kernel`` and ``bias`` are float32 constants.
        weights: weights of an output channel.
        size: height and width of its kernel; (0, 0) for a dense layer, which reads the whole
            input.
        same: the margins are padded with 0 (padding SAME).
    """

    kind: str
    source: int
    kernel: int
    bias: int
    weights: int
    size: tuple[int, int] = (0, 0)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    same: bool = False

    @property
    def depthwise(self) -> bool:
        """True if each output channel sees one input channel."""
        return self.kind == DEPTHWISE

    @property
    def output_axis(self) -> int:
        """The kernel's axis of output channels."""
        return 3 if self.depthwise else 0

    def draw_inputs(self, value: Floats, count: int, draw: np.random.Generator) -> Floats:
        """Return the layer's inputs at random positions, float32 (n, kernel, channels).

        There are at most ``count`` positions of the layer's output. ``value`` is its input, (1,
        height, width, channels), or (n, features) for a dense layer.
        """
        if self.kind == DENSE:
            channels = min(value.shape[-1], self.weights)
            return value.reshape(-1, self.weights // channels, channels)
        image = value[0]
        height, width, _ = image.shape
        rows = self._find_positions(0, height)
        columns = self._find_positions(1, width)
        positions = len(rows) * len(columns)
        places = draw.choice(positions, min(count, positions), replace=False)
        down = rows[places // len(columns)]
        across = columns[places % len(columns)]
        # Positions outside of the image are padding: they are read at its edge, and then set to 0.
        inside = _is_within(down, height)[:, :, None] & _is_within(across, width)[:, None, :]
        nearest_down = np.clip(down, 0, height - 1)
        nearest_across = np.clip(across, 0, width - 1)
        patches = image[nearest_down[:, :, None], nearest_across[:, None, :]]
        padded: Floats = np.where(inside[..., None], patches, np.float32(0))
        return padded.reshape(len(places), -1, image.shape[2])

    def _find_positions(self, axis: int, side: int) -> NDArray[np.int64]:
        """Return the rows of the input that each row of the output reads, (positions, kernel).

        Axis 1 gives columns.
        """
        kernel = self.size[axis]
        stride = self.strides[axis]
        dilation = self.dilations[axis]
        reach = (kernel - 1) * dilation + 1
        count = (side - reach) // stride + 1
        before = 0
        if self.same:
            count = math.ceil(side / stride)
            # TensorFlow pads half of what is missing before the image,
            # and the larger half behind it.
            before = max((count - 1) * stride + reach - side, 0) // 2
        return np.arange(count)[:, None] * stride - before + np.arange(kernel) * dilation


def _is_within(places: NDArray[np.int64], side: int) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (places >= 0) & (places < side)
    return inside


def find_layers(model: Model) -> list[Layer]:
    """Return the layers of the main graph whose kernel and bias are their own float constants."""
    layers = []
    for operator in model.operators:
        layer = _read_layer(model, operator)
        if layer is not None:
            layers.append(layer)
    readers = Counter[int]()
    for layer in layers:
        readers.update((layer.kernel, layer.bias))
    # A constant that two layers share cannot be corrected for both.
    return [layer for layer in layers if readers[layer.kernel] == readers[layer.bias] == 1]


def _read_layer(model: Model, operator: Operator) -> Layer | None:
    kind = operator.name
    options = operator.options
    has_bias = len(operator.inputs) > 2 and operator.inputs[2] >= 0
    if kind not in (CONVOLUTION, DEPTHWISE, DENSE) or not has_bias:
        return None
    source, kernel, bias = operator.inputs[:3]
    constants = (model.tensors[kernel], model.tensors[bias])
    if any(tensor.dtype != "float32" or not tensor.is_constant for tensor in constants):
        return None
    shape = model.tensors[kernel].shape
    if kind == DENSE:
        return Layer(kind, source, kernel, bias, shape[1])
    return Layer(
        kind=kind,
        source=source,
        kernel=kernel,
        bias=bias,
        weights=math.prod(shape[1:3]) * (1 if kind == DEPTHWISE else shape[3]),
        size=(shape[1], shape[2]),
        strides=(int(options["stride_h"]), int(options["stride_w"])),
        dilations=(int(options["dilation_h_factor"]), int(options["dilation_w_factor"])),
        same=options["padding"] == _SAME,
    )


def read_values(tensor: Tensor) -> NDArray[np.float64]:
    """Return the content of a float constant, float64 in the tensor's shape."""
    return np.frombuffer(tensor.buffer, dtype="<f4").reshape(tensor.shape).astype(np.float64)
