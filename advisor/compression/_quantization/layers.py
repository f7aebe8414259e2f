"""Find the layers with weights, read their inputs, and correct biases for rounded weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.isolation import usable_cores
from advisor.tflite import (
    Model,
    Operator,
    Tensor,
    add_buffer,
    drop_unused_buffers,
    make_editable,
    open_model,
    pack,
)

if TYPE_CHECKING:
    from advisor.compression._quantization.grid import Grid, Grids
    from advisor.compression._quantization.observe import Activation, Observation

Floats = NDArray[np.float32]

CONVOLUTION = "CONV_2D"
DEPTHWISE = "DEPTHWISE_CONV_2D"
DENSE = "FULLY_CONNECTED"

_SAME = 0
"""The schema's number of the padding that keeps the size."""

LEAST_CHANNEL = 1e-3
"""Least ratio of a channel's greatest weight to the median channel's;
too small to change an answer.
"""

MOST_OF_BIAS = 2**30
"""Half the range of 32 bits, so that a bias still fits after its correction."""


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer: its tensors by index, and how its kernel moves over its input,
    down and across.

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
        """Return the layer's inputs at ``count`` random positions of its output at most,
        float32 (n, kernel, channels).

        ``value`` is its input, (1, height, width, channels), or (n, features) for a dense layer.
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
        flat: Floats = np.where(inside[..., None], patches, np.float32(0)).reshape(
            len(places), -1, image.shape[2]
        )
        return flat

    def _find_positions(self, axis: int, side: int) -> NDArray[np.int64]:
        """Return the rows (or columns) of the input that each row of the output reads,
        (positions, kernel).
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
    """Return the layers of the main graph whose kernel
    and bias are float constants of that layer alone.
    """
    layers = list(filter(None, (_read_layer(model, operator) for operator in model.operators)))
    readers = Counter[int]()
    for layer in layers:
        readers.update((layer.kernel, layer.bias))
    # A constant that two layers share cannot be corrected for both.
    return [layer for layer in layers if readers[layer.kernel] == readers[layer.bias] == 1]


def _read_layer(model: Model, operator: Operator) -> Layer | None:
    kind = operator.name
    options = operator.options
    if (
        kind not in (CONVOLUTION, DEPTHWISE, DENSE)
        or len(operator.inputs) < 3
        or operator.inputs[2] < 0
    ):
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


# Put weights on the integer grid and correct the biases for the mean error.
#
# Rounding a kernel shifts each output channel by the kernel's rounding error times the mean input.
# The shift is constant. If inputs are far from zero (as behind ReLU6), it is by far the largest
# part of the error. The bias can undo it. This is the bias correction of Nagel et al., "Data-Free
# Quantization Through Weight Equalization and Bias Correction" (2019), section 4.2, with input
# means measured on calibration images instead of derived from BatchNorm.


def correct_model(
    data: bytes,
    grids: Grids,
    observation: Observation,
    shifted: bool = True,
    known: Mapping[int, Mapping[int, NDArray[np.float64]]] | None = None,
) -> bytes:
    """Return the float model with its kernels on their grids and its biases corrected.

    Storing the weights as integers then loses nothing more. Weights that were trained as integers
    are not ``shifted``: their errors are not spread, and their biases not corrected. ``known`` are
    kernel and bias, by tensor index, of layers that are corrected already, by their kernel's
    index.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    tables, model = open_model(data)
    make_editable(tables)

    def correct_layer(layer: Layer) -> Mapping[int, NDArray[np.float64]]:
        grid = grids.of(layer.depthwise)
        if grid is None:
            return {}
        return (known or {}).get(layer.kernel) or _put_on(grid, model, layer, observation, shifted)

    # The order of additions must not depend on the machine. Layers do not depend on each other.
    with (
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(usable_cores(for_job=True)) as pool,
    ):
        for corrected in pool.map(correct_layer, find_layers(model)):
            for index, values in corrected.items():
                content = np.asarray(values, "<f4").tobytes()
                tables.subgraphs[0].tensors[index].buffer = add_buffer(tables, content)
    drop_unused_buffers(tables)
    return pack(tables)


def _put_on(
    grid: Grid, model: Model, layer: Layer, observation: Observation, shifted: bool
) -> dict[int, NDArray[np.float64]]:
    """Return the layer's kernel on the grid and its corrected bias, by tensor index."""
    kernel = read_values(model.tensors[layer.kernel])
    bias = read_values(model.tensors[layer.bias])
    activation = observation.activations[layer.source]
    axis = layer.output_axis
    # With one step for the kernel, its size follows from the greatest channel,
    # and no channel needs lifting.
    lifted = _lift_channels(kernel, bias, activation, axis) if grid.per_channel else kernel
    if not shifted:
        return {layer.kernel: grid.round(lifted, axis), layer.bias: bias}
    rounded = grid.spread(lifted, axis, observation.moments.get(layer.kernel))
    shift = shift_of_mean(kernel - rounded, activation.means, layer.depthwise)
    return {layer.kernel: rounded, layer.bias: bias + shift}


def _lift_channels(
    kernel: NDArray[np.float64], bias: NDArray[np.float64], activation: Activation, axis: int
) -> NDArray[np.float64]:
    """Give each channel with almost no weights one small weight,
    so that its bias survives quantization.

    Training leaves some channels with weights near zero and a bias. A bias is stored in 32 bits in
    steps of (input step x weight step). With weights near zero the step is too small, the bias
    does not fit, and the channel gives 0. MobileNetV2 of Keras has nine such channels,
    EfficientNet-Lite0 more than fifty. The weight is computed for 16-bit activations: their step
    is smaller, and the result also holds for 8 bits.
    """
    rows = np.moveaxis(kernel.copy(), axis, 0)
    largest = np.abs(rows).reshape(len(rows), -1).max(axis=1)
    step = (
        max(float(np.abs(activation.lows).max()), float(np.abs(activation.highs).max()), 1e-9)
        / 32767
    )
    # The step of the bias is that of the input times that of the weights,
    # which is their largest over 127.
    least_for_bias = 127 * np.abs(bias) / (step * MOST_OF_BIAS)
    least = np.maximum(LEAST_CHANNEL * np.median(largest), least_for_bias)
    for channel in np.flatnonzero(largest < least):
        rows[channel].flat[0] = least[channel]
    return np.moveaxis(rows, 0, axis)


def shift_of_mean(
    error: NDArray[np.float64], mean: NDArray[np.float64], depthwise: bool
) -> NDArray[np.float64]:
    """Return the shift of each output channel's mean by an error of the kernel,
    which has the shape of :class:`Layer`.

    ``mean`` is that of each input channel;
    a dense kernel on a flattened map has several inputs per channel.
    """
    if depthwise:
        # The ``multiplier`` outputs of one input channel are adjacent.
        inputs = np.repeat(mean, error.shape[-1] // len(mean))
        depthwise_shift: NDArray[np.float64] = error.sum(axis=(0, 1, 2)) * inputs
        return depthwise_shift
    by_input = error.reshape(error.shape[0], -1, error.shape[-1]).sum(axis=1)
    result: NDArray[np.float64] = by_input @ np.tile(mean, by_input.shape[1] // len(mean))
    return result
