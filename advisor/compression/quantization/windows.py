"""Read the inputs that a layer multiplies with its weights at one position of its output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.layers import DENSE, Layer, layers

if TYPE_CHECKING:
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MOST_INPUTS = 2500
"""Largest number of weights of an output channel whose input products are summed (50 MB)."""


@dataclass(frozen=True)
class Window:
    """How a layer moves over its input.

    Attributes:
        layer: the layer.
        size: height and width of its kernel; (0, 0) for a dense layer, which reads the whole input.
        strides: down and across.
        dilations: down and across.
        same: whether the margins are padded with 0 (padding SAME).
        few: whether an output channel has at most ``MOST_INPUTS`` weights.
    """

    layer: Layer
    size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    same: bool = False
    few: bool = True

    def seen(self, value: Floats, count: int, draw: np.random.Generator) -> Floats:
        """Return the layer's inputs at ``count`` random positions of its output, float32 (n, kernel, channels).

        Args:
            value: its input, (1, height, width, channels), or (n, features) for a dense layer.
            count: positions at most.
            draw: draws the positions.
        """
        import numpy as np

        if self.layer.kind == DENSE:
            return value.reshape(1, -1, value.shape[-1])
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


def windows(model: schema.ModelT) -> list[Window]:
    """Return the windows of a float model's layers, see :func:`advisor.compression.quantization.layers.layers`."""
    graph = model.subgraphs[0]
    by_output = {operator.outputs[0]: operator.builtinOptions for operator in graph.operators}
    return [_window(graph, layer, by_output[layer.output]) for layer in layers(model)]


def _window(graph: schema.SubGraphT, layer: Layer, options: Any) -> Window:
    from ai_edge_litert import schema_py_generated as schema

    shape = [int(side) for side in graph.tensors[layer.kernel].shape]
    weights = math.prod(shape) // shape[layer.output_axis]
    if layer.kind == DENSE:
        return Window(layer, (0, 0), few=weights <= MOST_INPUTS)
    height, width = shape[1:3]
    return Window(
        layer,
        (height, width),
        (options.strideH, options.strideW),
        (options.dilationHFactor, options.dilationWFactor),
        options.padding == schema.Padding.SAME,
        weights <= MOST_INPUTS,
    )
