"""Weights put on the integer grid, and biases moved by what that shifts on average.

Rounding a kernel shifts each output channel by the kernel's rounding error times the mean input: a constant, and where
inputs are far from zero (as behind ReLU6) the largest part of the error by far. The bias can take it back. This is the
bias correction of Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019),
section 4.2, with input means measured on calibration pictures instead of derived from BatchNorm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_CHANNEL = 1e-3
"""Greatest weight of a channel over the median channel's, at least: so small that nobody sees it in the answer."""

PICTURES = 50
"""Means settle with few pictures: each gives thousands of positions."""


@dataclass(frozen=True)
class Grid:
    """The values that weights are stored as: symmetric, the largest magnitude on the last step.

    Attributes:
        bits: bits of a weight.
        per_channel: one step an output channel, else one a tensor.
        power_of_two: steps are powers of two: weights that stay float then end in zero bits, which deflate rewards.
    """

    bits: int
    per_channel: bool = True
    power_of_two: bool = False

    def round(self, kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Put a kernel whose output channels lie along ``axis`` on the grid."""
        import numpy as np

        others = tuple(other for other in range(kernel.ndim) if not self.per_channel or other != axis)
        step = np.abs(kernel).max(axis=others, keepdims=True) / (2 ** (self.bits - 1) - 1)
        step[step == 0] = 1.0
        if self.power_of_two:
            step = np.exp2(np.ceil(np.log2(step)))
        result: NDArray[np.float64] = np.rint(kernel / step) * step
        return result


@dataclass(frozen=True)
class Grids:
    """How each kind of kernel is stored; None leaves the kind as it is.

    Attributes:
        dense: convolutions and dense layers.
        depthwise: depthwise convolutions: few weights, and the most easily harmed.
    """

    dense: Grid
    depthwise: Grid | None


def correct(data: bytes, grids: Grids, pictures: NDArray[np.float32]) -> bytes:
    """Return the float model with its kernels on their grids and its biases corrected; quantizing it loses no more.

    Args:
        data: a float ``.tflite``.
        grids: what the kernels will be stored as.
        pictures: model inputs, float32 (n, S, S, 3); the first ``PICTURES`` are used.

    Raises:
        UsageError: the file is damaged.
    """
    from advisor.tflite.rewrite import drop_unused_buffers, pack, unpack

    model = unpack(data)
    graph = model.subgraphs[0]
    layers = _unshared([layer for operator in graph.operators if (layer := _layer(model, graph, operator))])
    means = _input_means(data, {layer.source for layer in layers}, pictures[:PICTURES])
    for layer in layers:
        grid = grids.depthwise if layer.depthwise else grids.dense
        if grid is not None:
            _put_on(grid, model, graph, layer, means[layer.source])
    drop_unused_buffers(model)
    return pack(model)


def _put_on(grid: Grid, model: Any, graph: Any, layer: _Layer, mean: NDArray[np.float64]) -> None:
    kernel, axis = _read(model, graph, layer.kernel), 3 if layer.depthwise else 0
    rounded = grid.round(_lifted(kernel, axis) if grid.per_channel else kernel, axis)
    _write(model, graph, layer.kernel, rounded)
    shift = _shift(kernel - rounded, mean, layer.depthwise)
    _write(model, graph, layer.bias, _read(model, graph, layer.bias) + shift)


def _lifted(kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Give each channel without weights worth the name one small weight, so that its bias survives quantizing.

    Training leaves some channels with weights of nearly nothing and a bias. A bias is stored in 32 bits in steps of
    (input step x weight step): where weights are nearly nothing so are these steps, the bias does not fit, and the
    channel answers 0. MobileNetV2 of Keras has nine such channels, EfficientNet-Lite0 more than fifty.
    """
    import numpy as np

    rows = np.moveaxis(kernel.copy(), axis, 0)
    largest = np.abs(rows).reshape(len(rows), -1).max(axis=1)
    least = LEAST_CHANNEL * np.median(largest)
    for channel in np.flatnonzero(largest < least):
        rows[channel].flat[0] = least
    return np.moveaxis(rows, 0, axis)


@dataclass(frozen=True)
class _Layer:
    """A convolution or dense layer by its tensors' indices."""

    source: int
    kernel: int
    bias: int
    depthwise: bool


def _layer(model: Any, graph: Any, operator: Any) -> _Layer | None:
    from ai_edge_litert import schema_py_generated as schema

    builtin = schema.BuiltinOperator
    code = model.operatorCodes[operator.opcodeIndex]
    kind = max(code.builtinCode, code.deprecatedBuiltinCode)
    known = kind in (builtin.CONV_2D, builtin.DEPTHWISE_CONV_2D, builtin.FULLY_CONNECTED)
    if not known or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    source, kernel, bias = operator.inputs[:3]
    constant = all(_is_float_constant(model, graph, index) for index in (kernel, bias))
    return _Layer(source, kernel, bias, kind == builtin.DEPTHWISE_CONV_2D) if constant else None


def _is_float_constant(model: Any, graph: Any, index: int) -> bool:
    from ai_edge_litert import schema_py_generated as schema

    tensor = graph.tensors[index]
    content = model.buffers[tensor.buffer].data
    return tensor.type == schema.TensorType.FLOAT32 and content is not None and len(content) > 0


def _unshared(layers: list[_Layer]) -> list[_Layer]:
    """Leave out layers that share a kernel or bias: one bias cannot make up for two shifts."""
    used = [index for layer in layers for index in (layer.kernel, layer.bias)]
    return [layer for layer in layers if used.count(layer.kernel) == used.count(layer.bias) == 1]


def _input_means(data: bytes, tensors: set[int], pictures: NDArray[np.float32]) -> dict[int, NDArray[np.float64]]:
    """Return each tensor's mean per channel over pictures and positions."""
    import warnings

    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        interpreter = Interpreter(model_content=data, num_threads=1, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    place = interpreter.get_input_details()[0]["index"]
    sums: dict[int, Any] = dict.fromkeys(tensors, 0.0)
    for picture in pictures:
        interpreter.set_tensor(place, picture[None])
        interpreter.invoke()
        for index in tensors:
            values = interpreter.get_tensor(index)
            sums[index] = sums[index] + values.reshape(-1, values.shape[-1]).mean(axis=0, dtype=np.float64)
    return {index: total / len(pictures) for index, total in sums.items()}


def _shift(error: NDArray[np.float64], mean: NDArray[np.float64], depthwise: bool) -> NDArray[np.float64]:
    """Return the mean of each output channel that the kernel's error takes away.

    A convolution's kernel is (outputs, height, width, inputs), a dense one's (outputs, inputs), a depthwise one's
    (1, height, width, outputs).
    """
    if depthwise:
        shift: NDArray[np.float64] = error.sum(axis=(0, 1, 2)) * _repeated(mean, error.shape[-1])
        return shift
    by_input: NDArray[np.float64] = error.reshape(error.shape[0], -1, error.shape[-1]).sum(axis=1)
    return by_input @ mean


def _repeated(mean: NDArray[np.float64], channels: int) -> NDArray[np.float64]:
    """Return the mean input of each depthwise output channel: ``multiplier`` outputs stand beside each other."""
    import numpy as np

    return np.repeat(mean, channels // len(mean))


def _read(model: Any, graph: Any, index: int) -> NDArray[np.float64]:
    import numpy as np

    tensor = graph.tensors[index]
    stored = np.frombuffer(bytes(bytearray(model.buffers[tensor.buffer].data)), dtype="<f4")
    return stored.reshape([int(side) for side in tensor.shape]).astype(np.float64)


def _write(model: Any, graph: Any, index: int, values: NDArray[np.float64]) -> None:
    """Give a tensor its own new content: a buffer may be shared."""
    import numpy as np

    from advisor.tflite.rewrite import add_buffer

    graph.tensors[index].buffer = add_buffer(model, np.ascontiguousarray(values, dtype="<f4").tobytes())
