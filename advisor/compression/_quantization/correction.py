"""Put a float model's weights on the grid of a recipe, and correct its biases.

In a search and in ``advisor compress``, the stage of calibration calls :func:`correct_model` for
all recipes (`prepared.py`). A recipe calls it if that stage did not run, and ``qat_int8`` after
its training. The quantizer then stores the weights without a further loss.

Equal inputs must give equal files: sums are added in one order whatever the number of cores. If
the values change, raise ``version`` of the stage of calibration and of the recipes that round
weights. The key of a compressed file does not contain the result of calibration, so neither
version is enough alone (``docs/extend-stages.md``, "Which version to raise").

Rounding a kernel shifts each output channel by the kernel's rounding error times the mean input.
The shift is constant. If inputs are far from zero (as behind ReLU6), it is by far the largest
part of the error. The bias can undo it. This is the bias correction of Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction" (2019), section 4.2, with input
means measured on calibration images instead of derived from BatchNorm.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.compression._quantization.layers import Layer, find_layers, read_values
from advisor.isolation import usable_cores
from advisor.tflite import (
    Model,
    open_model,
)

if TYPE_CHECKING:
    from advisor.compression._quantization.grid import Grid, Grids
    from advisor.compression._quantization.observe import Activation, Observation

LEAST_CHANNEL = 1e-3
"""Least ratio of a channel's greatest weight to the median's, too small to change an answer."""

MOST_OF_BIAS = 2**30
"""Half the range of 32 bits, so that a bias still fits after its correction."""


def correct_model(
    data: bytes,
    grids: Grids,
    observation: Observation,
    shifted: bool = True,
    known: Mapping[int, Mapping[int, NDArray[np.float64]]] | None = None,
) -> bytes:
    """Return the float model with its kernels on their grids and its biases corrected.

    Storing the weights as integers then loses nothing more. Weights that were trained as
    integers are not ``shifted``: their errors are not spread, and their biases not corrected.
    ``known`` are kernel and bias, by tensor index, of layers that are corrected already, by
    their kernel's index.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

    tables, model = open_model(data)
    tables.make_editable()

    def correct_once(layer: Layer) -> Mapping[int, NDArray[np.float64]]:
        grid = grids.of(layer.depthwise)
        if grid is None:
            return {}
        if known and layer.kernel in known:
            return known[layer.kernel]
        return _correct_layer(grid, model, layer, observation, shifted)

    # The order of additions must not depend on the machine. Layers do not depend on each other.
    with (
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(usable_cores(for_job=True)) as pool,
    ):
        for corrected in pool.map(correct_once, find_layers(model)):
            for index, values in corrected.items():
                content = np.asarray(values, "<f4").tobytes()
                tables.subgraphs[0].tensors[index].buffer = tables.add_buffer(content)
    tables.drop_unused_buffers()
    return tables.pack()


def _correct_layer(
    grid: Grid,
    model: Model,
    layer: Layer,
    observation: Observation,
    shifted: bool,
) -> dict[int, NDArray[np.float64]]:
    """Return the layer's kernel on the grid and its corrected bias, by tensor index."""
    kernel = read_values(model.tensors[layer.kernel])
    bias = read_values(model.tensors[layer.bias])
    activation = observation.activations[layer.source]
    axis = layer.output_axis
    # One step for the whole kernel follows from the greatest channel: none needs lifting.
    lifted = _lift_channels(kernel, bias, activation, axis) if grid.per_channel else kernel
    if not shifted:
        return {layer.kernel: grid.round(lifted, axis), layer.bias: bias}
    rounded = grid.spread(lifted, axis, observation.moments.get(layer.kernel))
    shift = shift_of_mean(kernel - rounded, activation.means, layer.depthwise)
    return {layer.kernel: rounded, layer.bias: bias + shift}


def _lift_channels(
    kernel: NDArray[np.float64], bias: NDArray[np.float64], activation: Activation, axis: int
) -> NDArray[np.float64]:
    """Give each channel with almost no weights a small one, so that its bias survives.

    Training leaves some channels with weights near zero and a bias. A bias is stored in 32 bits in
    steps of (input step x weight step). With weights near zero the step is too small, the bias
    does not fit, and the channel gives 0. MobileNetV2 of Keras has nine such channels,
    EfficientNet-Lite0 more than fifty. The weight is computed for 16-bit activations: their step
    is smaller, and the result also holds for 8 bits.
    """
    rows = np.moveaxis(kernel.copy(), axis, 0)
    largest = np.abs(rows).reshape(len(rows), -1).max(axis=1)
    lowest = float(np.abs(activation.lows).max())
    highest = float(np.abs(activation.highs).max())
    step = max(lowest, highest, 1e-9) / 32767
    # The step of the bias is that of the input times that of the weights, the largest over 127.
    least_for_bias = 127 * np.abs(bias) / (step * MOST_OF_BIAS)
    least = np.maximum(LEAST_CHANNEL * np.median(largest), least_for_bias)
    for channel in np.flatnonzero(largest < least):
        rows[channel].flat[0] = least[channel]
    return np.moveaxis(rows, 0, axis)


def shift_of_mean(
    error: NDArray[np.float64], mean: NDArray[np.float64], depthwise: bool
) -> NDArray[np.float64]:
    """Return the shift of each output channel's mean by an error of the kernel.

    The error has the shape of a kernel of :class:`.Layer`. ``mean`` is that of each input channel;
    a dense kernel on a flattened map has several inputs a channel.
    """
    if depthwise:
        # The ``multiplier`` outputs of one input channel are adjacent.
        inputs = np.repeat(mean, error.shape[-1] // len(mean))
        depthwise_shift: NDArray[np.float64] = error.sum(axis=(0, 1, 2)) * inputs
        return depthwise_shift
    by_input = error.reshape(error.shape[0], -1, error.shape[-1]).sum(axis=1)
    result: NDArray[np.float64] = by_input @ np.tile(mean, by_input.shape[1] // len(mean))
    return result
