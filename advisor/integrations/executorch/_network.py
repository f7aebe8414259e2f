"""Compute a float ``.tflite`` file in PyTorch, operator by operator, for ExecuTorch to compile.

``executorch/__init__.py`` exports a :class:`FileNetwork`. Values of images stay in (N, C, H, W)
from one convolution to the next, as PyTorch wants them, and through the operators that can work
so. Each other one sees the order of the file. A new operator is a line of ``_ELEMENTWISE`` or
``_UNARY``, or one function in ``_map_operators``; results that change need a new ``VERSION`` of
the exporter. This module needs PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from advisor.core import StageError
from advisor.tflite import Model, Tensor, slices_of

# Axes that bring channels to the second place, as PyTorch wants them, and back to the last.
_FIRST = (0, 3, 1, 2)
_LAST = (0, 2, 3, 1)
_ELEMENTWISE: Mapping[str, Callable[[Any, Any], Any]] = {
    "ADD": torch.add,
    "SUB": torch.sub,
    "MUL": torch.mul,
    "DIV": torch.div,
    "MAXIMUM": torch.maximum,
    "POW": torch.pow,
    "MINIMUM": torch.minimum,
    "FLOOR_DIV": torch.floor_divide,
    "SQUARED_DIFFERENCE": lambda left, right: (left - right).square(),
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "RELU": functional.relu,
    "RELU6": functional.relu6,
    "HARD_SWISH": functional.hardswish,
    "LOGISTIC": torch.sigmoid,
    "RSQRT": torch.rsqrt,
    "SQRT": torch.sqrt,
    "TANH": torch.tanh,
    "SQUARE": torch.square,
    "ABS": torch.abs,
    "SIN": torch.sin,
    "COS": torch.cos,
    "EXP": torch.exp,
}
_KERNELS = {"CONV_2D": _FIRST, "DEPTHWISE_CONV_2D": (3, 0, 1, 2)}
"""Axes of a kernel in the order of PyTorch: (outputs, inputs of a group, H, W)."""
_BIASED = (*_KERNELS, "FULLY_CONNECTED")
_FUSED = {"NONE": None, "RELU": functional.relu, "RELU6": functional.relu6}


class FileNetwork(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Computes what a file computes, for one image.

    Its input and its outputs have the shapes of the file.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        known = {*_map_operators(), *_ELEMENTWISE, *_UNARY}
        for operator in model.operators:
            if operator.name not in known:
                raise StageError(f"ExecuTorch is not given the operator {operator.name}")
            for place, index in enumerate(operator.inputs):
                # The schema writes -1 for an operand that is left out.
                if index < 0:
                    continue
                tensor = model.tensors[index]
                if not tensor.is_constant or not tensor.dtype.startswith("float"):
                    continue
                values = _read_array(tensor)
                if place == 1 and operator.name in _KERNELS:
                    values = values.transpose(_KERNELS[operator.name])
                elif place == 2 and operator.name in _BIASED:
                    values = values.reshape(-1)
                self.register_buffer(
                    f"constant{index}", torch.from_numpy(np.ascontiguousarray(values))
                )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs of the file for its input."""
        graph = self._model.subgraphs[0]
        values: dict[int, _Value] = {graph.inputs[0]: _Value(image)}
        for operator in self._model.operators:
            operands = [
                values[index] if index in values else self._constant(index)
                for index in operator.inputs
            ]
            name = operator.name
            shape = self._model.tensors[operator.outputs[0]].shape
            if name in _UNARY:
                outputs = [_Value(_UNARY[name](operands[0].tensor), operands[0].first)]
            elif name in _ELEMENTWISE:
                outputs = [_combine_values(_ELEMENTWISE[name], operands)]
            else:
                outputs = list(_map_operators()[name](operands, operator.options, shape))
            fused = _FUSED[str(operator.options.get("fused_activation_function", "NONE"))]
            for index, value in zip(operator.outputs, outputs, strict=True):
                values[index] = _Value(fused(value.tensor), value.first) if fused else value
        return tuple(values[index].last for index in graph.outputs)

    def _constant(self, index: int) -> _Value:
        # The schema writes -1 for an operand that is left out.
        if index < 0:
            return _Value(None)
        tensor = self._model.tensors[index]
        if tensor.dtype.startswith("float"):
            return _Value(getattr(self, f"constant{index}"))
        # Axes and shapes must be numbers when PyTorch traces the graph, not tensors.
        return _Value(_read_array(tensor))


class _Value:
    """A value of the run: a tensor, in (N, C, H, W) if ``first``; integers of the
    file are arrays.
    """

    def __init__(self, tensor: Any, first: bool = False) -> None:
        self.tensor = tensor
        self.first = first

    @property
    def last(self) -> Any:
        """The tensor in the order of the file."""
        return self.tensor.permute(_LAST) if self.first else self.tensor

    @property
    def image(self) -> Any:
        """The tensor in (N, C, H, W)."""
        return self.tensor if self.first else self.tensor.permute(_FIRST)


def _read_array(tensor: Tensor) -> Any:
    values = tensor.real_values()
    if values is None:
        raise StageError("a constant of the file has no values")
    dtype = np.float32 if tensor.dtype.startswith("float") else np.int64
    return np.asarray(values, dtype).reshape(tensor.shape)


Operands = Sequence[_Value]
Options = Mapping[str, Any]
Shape = tuple[int, ...]


def _combine_values(compute: Callable[[Any, Any], Any], operands: Operands) -> _Value:
    """Return an operation on two values,
    the smaller of which is repeated along the axes that it lacks.
    """
    left, right = operands
    if not (left.first or right.first):
        return _Value(compute(left.tensor, right.tensor))
    moved = [value.tensor if value.first else _as_image(value.tensor) for value in operands]
    return _Value(compute(*moved), first=True)


def _as_image(tensor: torch.Tensor) -> torch.Tensor:
    """Return a value of at most four axes, the last of which are channels, as (N, C, H, W)."""
    return tensor.reshape((*[1] * (4 - tensor.dim()), *tensor.shape)).permute(_FIRST)


def _convolve_image(operands: Operands, options: Options, _: Shape) -> list[_Value]:
    kernel = operands[1].tensor
    bias = None
    if len(operands) > 2:
        bias = operands[2].tensor
    dilation = int(options.get("dilation_h_factor", 1)), int(options.get("dilation_w_factor", 1))
    strides = int(options["stride_h"]), int(options["stride_w"])
    data, even = _pad_data(operands[0].image, kernel.shape[2:], strides, dilation, options, 0.0)
    groups = data.shape[1] // kernel.shape[1]
    return [
        _Value(functional.conv2d(data, kernel, bias, strides, even, dilation, groups), first=True)
    ]


Pair = tuple[int, int]


def _pad_data(
    data: torch.Tensor,
    size: Sequence[int],
    strides: Pair,
    dilation: Pair,
    options: Options,
    value: float,
) -> tuple[torch.Tensor, Pair]:
    """Return the data and the padding that an operator takes itself,
    which has as many rows before as after.

    ``padding`` 1 is VALID; the rows before and after are those of TensorFlow's SAME.
    """
    if options.get("padding") == 1:
        return data, (0, 0)
    # From shapes alone: torch.export refuses a padding that is computed from data.
    added = []
    for side, kernel, stride, step in zip(data.shape[2:], size, strides, dilation, strict=True):
        reach = (math.ceil(side / stride) - 1) * stride + (kernel - 1) * step + 1
        added.append(max(reach - side, 0))
    rows, columns = added
    if rows % 2 == 0 and columns % 2 == 0:
        return data, (rows // 2, columns // 2)
    top = rows // 2
    left = columns // 2
    # The operator pads both sides alike, so an odd number needs an operator of its own before it.
    return functional.pad(data, (left, columns - left, top, rows - top), value=value), (0, 0)


def _apply_dense(operands: Operands, _: Options, shape: Shape) -> list[_Value]:
    kernel = operands[1].tensor
    bias = None
    if len(operands) > 2:
        bias = operands[2].tensor
    data = operands[0].last.reshape(-1, kernel.shape[1])
    return [_Value(functional.linear(data, kernel, bias).reshape(shape))]


def _apply_pool(largest: bool, operands: Operands, options: Options, _: Shape) -> list[_Value]:
    image = operands[0].image
    size = (int(options["filter_height"]), int(options["filter_width"]))
    strides = int(options["stride_h"]), int(options["stride_w"])
    # A padded value must never be the largest of its window.
    data, even = _pad_data(
        image, size, strides, (1, 1), options, float("-inf") if largest else 0.0
    )
    if largest:
        return [_Value(functional.max_pool2d(data, size, strides, even), first=True)]
    # The average would count zeros of a separate padding, which TensorFlow leaves out.
    if data is not image:
        raise StageError(
            "ExecuTorch is not given an average with more rows beyond one side of an image than"
            " the other"
        )
    return [
        _Value(
            functional.avg_pool2d(data, size, strides, even, count_include_pad=False), first=True
        )
    ]


def _apply_padding(operands: Operands, _: Options, __: Shape) -> list[_Value]:
    rows = operands[1].tensor.reshape(-1, 2)
    value = 0.0
    if len(operands) > 2:
        value = operands[2].tensor
    order = _FIRST if operands[0].first else range(len(rows))
    # PyTorch counts from the last axis: two numbers for it, then two for the one before.
    flat = list[int]()
    for axis in reversed(list(order)):
        flat += map(int, rows[axis])
    return [
        _Value(functional.pad(operands[0].tensor, flat, value=float(value)), operands[0].first)
    ]


def _reduce_axes(
    compute: Callable[..., Any], operands: Operands, options: Options, _: Shape
) -> list[_Value]:
    keeps_axes = bool(options.get("keep_dims"))
    axes = list(map(int, operands[1].tensor.reshape(-1)))
    if operands[0].first and axes == [1, 2]:
        # XNNPACK takes no other mean.
        reduced = compute(operands[0].tensor, (2, 3), keepdim=True)
        return [_Value(reduced, first=True) if keeps_axes else _Value(reduced.flatten(1))]
    return [_Value(compute(operands[0].last, axes, keepdim=keeps_axes))]


def _join_values(operands: Operands, options: Options, shape: Shape) -> list[_Value]:
    axis = int(options["axis"]) % len(shape)
    if any(value.first for value in operands):
        return [
            _Value(torch.cat([value.image for value in operands], _FIRST.index(axis)), first=True)
        ]
    return [_Value(torch.cat([value.tensor for value in operands], axis))]


def _split_value(operands: Operands, options: Options, _: Shape) -> list[_Value]:
    axis_of_file, value = operands
    axis = int(axis_of_file.tensor.reshape(-1)[0]) % value.tensor.dim()
    if value.first:
        axis = _FIRST.index(axis)
    return [
        _Value(part, value.first)
        for part in torch.chunk(value.tensor, int(options["num_splits"]), axis)
    ]


def _slice_value(operands: Operands, options: Options, shape: Shape) -> list[_Value]:
    value, *bounds = operands
    parts = slices_of(options, *(bound.tensor.reshape(-1).tolist() for bound in bounds))
    if value.first and len(parts) == 4:
        parts_of_image = tuple(parts[axis] for axis in _FIRST)
        return [_Value(value.tensor[parts_of_image], first=True)]
    return [_Value(value.last[parts].reshape(shape))]


def _resize_image(operands: Operands, options: Options, shape: Shape) -> list[_Value]:
    aligned = bool(options.get("align_corners"))
    if not (aligned or options.get("half_pixel_centers")):
        raise StageError("ExecuTorch is not given a resize by the corners of pixels")
    resized = functional.interpolate(
        operands[0].image, shape[1:3], mode="bilinear", align_corners=aligned
    )
    return [_Value(resized, first=True)]


def _multiply_matrices(operands: Operands, options: Options, _: Shape) -> list[_Value]:
    left, right = (value.last for value in operands)
    if options.get("adj_x"):
        left = left.transpose(-1, -2)
    if options.get("adj_y"):
        right = right.transpose(-1, -2)
    return [_Value(torch.matmul(left, right))]


def _transpose_axes(operands: Operands, _: Options, __: Shape) -> list[_Value]:
    order = operands[1].tensor.reshape(-1).tolist()
    return [_Value(operands[0].last.permute(order))]


@cache
def _map_operators() -> Mapping[str, Callable[[Operands, Options, Shape], list[_Value]]]:
    """Return the function that computes each operator."""
    return {
        "CONV_2D": _convolve_image,
        "DEPTHWISE_CONV_2D": _convolve_image,
        "FULLY_CONNECTED": _apply_dense,
        "PAD": _apply_padding,
        "PADV2": _apply_padding,
        "AVERAGE_POOL_2D": partial(_apply_pool, False),
        "MAX_POOL_2D": partial(_apply_pool, True),
        "MEAN": partial(_reduce_axes, torch.mean),
        "SUM": partial(_reduce_axes, torch.sum),
        "REDUCE_MAX": partial(_reduce_axes, torch.amax),
        "CONCATENATION": _join_values,
        "SPLIT": _split_value,
        "RESIZE_BILINEAR": _resize_image,
        "SLICE": _slice_value,
        "STRIDED_SLICE": _slice_value,
        "BATCH_MATMUL": _multiply_matrices,
        "RESHAPE": lambda operands, _, shape: [_Value(operands[0].last.reshape(shape))],
        "TRANSPOSE": _transpose_axes,
        "SOFTMAX": lambda operands, _, __: [_Value(torch.softmax(operands[0].last, -1))],
        "GELU": lambda operands, _, __: [
            _Value(functional.gelu(operands[0].tensor), operands[0].first)
        ],
    }
