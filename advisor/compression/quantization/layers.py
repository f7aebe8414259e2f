"""Find the layers with weights in a float graph, and read the inputs that they multiply with their weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.tflite.model import Model, Operator, Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

CONVOLUTION, DEPTHWISE, DENSE = "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"

_SAME = 0
"""The schema's number of the padding that keeps the size."""


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer: its tensors by index, and how its kernel moves over its input.

    Attributes:
        kind: ``CONV_2D`` (kernel: outputs, height, width, inputs), ``DEPTHWISE_CONV_2D`` (1, height, width, outputs) or
            ``FULLY_CONNECTED`` (outputs, inputs).
        source: its input.
        kernel: float32 constant.
        bias: float32 constant.
        weights: weights of an output channel.
        size: height and width of its kernel; (0, 0) for a dense layer, which reads the whole input.
        strides: down and across.
        dilations: down and across.
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

    def seen(self, value: Floats, count: int, draw: np.random.Generator) -> Floats:
        """Return the layer's inputs at ``count`` random positions of its output, float32 (n, kernel, channels).

        Args:
            value: its input, (1, height, width, channels), or (n, features) for a dense layer.
            count: positions at most.
            draw: draws the positions.
        """
        import numpy as np

        if self.kind == DENSE:
            channels = min(value.shape[-1], self.weights)
            return value.reshape(-1, self.weights // channels, channels)
        image = value[0]
        rows, columns = (self._positions(axis, side) for axis, side in enumerate(image.shape[:2]))
        places = draw.choice(len(rows) * len(columns), min(count, len(rows) * len(columns)), replace=False)
        down, across = rows[places // len(columns)], columns[places % len(columns)]
        inside = _within(down, image.shape[0])[:, :, None] & _within(across, image.shape[1])[:, None, :]
        found = image[
            np.clip(down, 0, image.shape[0] - 1)[:, :, None], np.clip(across, 0, image.shape[1] - 1)[:, None, :]
        ]
        flat: Floats = np.where(inside[..., None], found, np.float32(0)).reshape(len(places), -1, image.shape[2])
        return flat

    def _positions(self, axis: int, side: int) -> NDArray[np.int64]:
        """Return the rows (or columns) of the input that each row of the output reads, (positions, kernel)."""
        import numpy as np

        kernel, stride, dilation = self.size[axis], self.strides[axis], self.dilations[axis]
        reach = (kernel - 1) * dilation + 1
        count = -(-side // stride) if self.same else (side - reach) // stride + 1
        before = max((count - 1) * stride + reach - side, 0) // 2 if self.same else 0
        return np.arange(count)[:, None] * stride - before + np.arange(kernel) * dilation


def _within(places: NDArray[np.int64], side: int) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (places >= 0) & (places < side)
    return inside


def layers(model: Model) -> list[Layer]:
    """Return the layers of the main graph whose kernel and bias are float constants of that layer alone."""
    found = [layer for operator in model.operators if (layer := _layer(model, operator))]
    used = [index for layer in found for index in (layer.kernel, layer.bias)]
    return [layer for layer in found if used.count(layer.kernel) == used.count(layer.bias) == 1]


def _layer(model: Model, operator: Operator) -> Layer | None:
    kind, options = operator.name, operator.options
    if kind not in (CONVOLUTION, DEPTHWISE, DENSE) or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    source, kernel, bias = operator.inputs[:3]
    if any(model.tensors[index].dtype != "float32" or not model.tensors[index].is_constant for index in (kernel, bias)):
        return None
    shape = model.tensors[kernel].shape
    if kind == DENSE:
        return Layer(kind, source, kernel, bias, shape[1])
    strides, dilations = (
        (int(options[f"{name}_h{end}"]), int(options[f"{name}_w{end}"]))
        for name, end in (("stride", ""), ("dilation", "_factor"))
    )
    weights = math.prod(shape[1:3]) * (1 if kind == DEPTHWISE else shape[3])
    return Layer(
        kind, source, kernel, bias, weights, (shape[1], shape[2]), strides, dilations, options["padding"] == _SAME
    )


def values(tensor: Tensor) -> NDArray[np.float64]:
    """Return the content of a float constant, float64 in the tensor's shape."""
    import numpy as np

    return np.frombuffer(tensor.buffer, dtype="<f4").reshape(tensor.shape).astype(np.float64)
