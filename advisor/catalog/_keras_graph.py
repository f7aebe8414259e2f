"""Build the Keras graph of a float ``.tflite`` of one image, so that it can be trained again.

`_convert.py` calls :func:`keras_graph` for cards whose graph is a file, and for users' own files;
fine-tuning and detectors train the result. A table at the end has the function of each operator:
one on values of an image, or one on values that lose their batch axis in the file. Names of layers
are made of operators and their places, and a trained network is found again by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import StageError, UnsupportedRecipe
from advisor.tflite import Model, Operator, Tensor, read, slices_of

if TYPE_CHECKING:
    import keras

_ELEMENTWISE = {
    "ADD": "add",
    "SUB": "subtract",
    "MUL": "multiply",
    "DIV": "divide",
    "MAXIMUM": "maximum",
    "POW": "power",
    "FLOOR_DIV": "floor_divide",
    "SQUARED_DIFFERENCE": "subtract",
}
_UNARY = {
    "RELU": "relu",
    "RELU6": "relu6",
    "HARD_SWISH": "hard_swish",
    "LOGISTIC": "sigmoid",
    "RSQRT": "rsqrt",
    "SQRT": "sqrt",
    "TANH": "tanh",
    "SQUARE": "square",
    "ABS": "abs",
    "SIN": "sin",
    "COS": "cos",
    "EXP": "exp",
}
_FUSED = {"NONE": "", "RELU": "relu", "RELU6": "relu6"}


def keras_graph(data: bytes, name: str) -> keras.Model:
    """Return the Keras model of a file with one input and named outputs, with its weights.

    Convolutions and dense layers are layers that can be trained; other constants stay. Raises
    UnsupportedRecipe if it has an operator that this version does not know.
    """
    import keras

    model = read(data, name)
    graph = model.subgraphs[0]
    (signature,) = model.signatures
    image = model.inputs[0]
    first = keras.Input(image.shape[1:], batch_size=1, name="image")
    values: dict[int, Any] = {graph.inputs[0]: first}
    for number, operator in enumerate(model.operators):
        inputs = []
        for index in operator.inputs:
            # -1 stands for a missing optional input; a tensor that nothing computes is a constant.
            constant = graph.tensors[index] if index >= 0 else None
            inputs.append(values.get(index, constant))
        node = _Node(model, operator, inputs, f"{operator.name.lower()}.{number}")
        make = _build_with_batch if node.loses_batch else _map_layer_makers().get(operator.name)
        if make is None:
            raise UnsupportedRecipe(
                f"{name}: training a file with the operator {operator.name} is not supported"
            )
        value = make(node)
        if all(source is None or _is_constant(source) for source in inputs):
            value = keras.ops.convert_to_numpy(value).reshape(node.shape)
        elif not isinstance(value._keras_history.operation, keras.layers.Layer):
            # Fine-tuning names layers: those with cached maps, and levels that the head reads.
            value = keras.layers.Activation("linear", name=f"{node.name}.out")(value)
        values[operator.outputs[0]] = value
    return keras.Model(first, {output: values[index] for output, index in signature.outputs})


@dataclass(frozen=True)
class _Node:
    """One operator, its inputs (Keras tensors or constants), and the name of its layer."""

    model: Model
    operator: Operator
    inputs: list[Any]
    name: str

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the inputs in the file, whose first axis may be the batch, 1."""
        tensors = self.model.subgraphs[0].tensors
        return [tensors[index].shape for index in self.operator.inputs if index >= 0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the output in the file."""
        return self.model.subgraphs[0].tensors[self.operator.outputs[0]].shape

    @property
    def loses_batch(self) -> bool:
        """True if an activation lacks the batch axis, or has other axes than the output."""
        if self.operator.name not in (*_ELEMENTWISE, "MEAN"):
            return False
        shapes = []
        for shape, value in zip(self.shapes, self.inputs, strict=True):
            if not _is_constant(value):
                shapes.append(shape)
        if not shapes:
            return True
        for shape in (*shapes, self.shape):
            if shape[:1] != (1,) or len(shape) != len(self.shape):
                return True
        return False


def _is_constant(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _read_constant(tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        return tensor
    value = tensor.real_values()
    if value is None:
        raise StageError("a constant of the file has no values")
    dtype = np.float32 if tensor.dtype.startswith("float") else np.int32
    return np.asarray(value, dtype).reshape(tensor.shape)


def _activate(value: Any, operator: Operator) -> Any:
    from keras import ops

    fused = _FUSED[str(operator.options.get("fused_activation_function", "NONE"))]
    return getattr(ops, fused)(value) if fused else value


def _read_padding(operator: Operator) -> str:
    if operator.options.get("padding") == 1:
        return "valid"
    return "same"


def _read_strides(operator: Operator) -> tuple[int, int]:
    return int(operator.options["stride_h"]), int(operator.options["stride_w"])


def _read_window(node: _Node, bias: Any) -> dict[str, Any]:
    """Return how a kernel moves over the image, as arguments of a layer."""
    options = node.operator.options
    dilation = int(options.get("dilation_h_factor", 1)), int(options.get("dilation_w_factor", 1))
    return {
        "strides": _read_strides(node.operator),
        "padding": _read_padding(node.operator),
        "dilation_rate": dilation,
        "use_bias": bias is not None,
        "name": node.name,
    }


def _apply_layer(layer: Any, node: _Node, arrays: list[Any]) -> Any:
    """Return the layer's output with its weights set; a bias may be missing."""
    source = _read_constant(node.inputs[0])
    # The call makes the weights, so that they can be set.
    value = layer(source)
    layer.set_weights([np.asarray(array, np.float32) for array in arrays if array is not None])
    # Keras computed with a constant at once, before the weights were set.
    if isinstance(source, np.ndarray):
        value = layer(source)
    return _activate(value, node.operator)


def _read_bias(node: _Node) -> Any:
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return _read_constant(node.inputs[2])
    return None


def _build_convolution(node: _Node) -> Any:
    from keras import layers

    kernel = _read_constant(node.inputs[1]).transpose(1, 2, 3, 0)
    bias = _read_bias(node)
    groups = node.inputs[0].shape[3] // kernel.shape[2]
    layer = layers.Conv2D(
        kernel.shape[3], kernel.shape[:2], groups=groups, **_read_window(node, bias)
    )
    return _apply_layer(layer, node, [kernel, bias])


def _build_depthwise(node: _Node) -> Any:
    from keras import layers

    kernel = _read_constant(node.inputs[1])[0]
    bias = _read_bias(node)
    channels = node.inputs[0].shape[3]
    layer = layers.DepthwiseConv2D(
        kernel.shape[:2],
        depth_multiplier=kernel.shape[2] // channels,
        **_read_window(node, bias),
    )
    return _apply_layer(layer, node, [kernel.reshape(*kernel.shape[:2], channels, -1), bias])


def _build_dense(node: _Node) -> Any:
    from keras import layers

    # Attention can multiply two activations so.
    if not _is_constant(node.inputs[1]):
        return _build_with_batch(node)
    kernel = _read_constant(node.inputs[1]).T
    bias = _read_bias(node)
    bias = None if bias is None else bias.reshape(-1)
    layer = layers.Dense(kernel.shape[1], use_bias=bias is not None, name=node.name)
    value = _apply_layer(layer, node, [kernel, bias])
    # The operator of the file may join axes of its input, which the layer keeps.
    if len(value.shape) == len(_strip_batch(node.shape)) + 1:
        return value
    return _reshape_value(value, node.shape)


def _build_padding(node: _Node) -> Any:
    from keras import layers, ops

    sides = tuple(
        (int(before), int(after)) for before, after in _read_constant(node.inputs[1])[1:3]
    )
    # The value to pad with, such as the least number before a maximum.
    if len(node.inputs) > 2:
        margin = float(_read_constant(node.inputs[2]))
        return ops.pad(node.inputs[0], ((0, 0), *sides, (0, 0)), constant_values=margin)
    return layers.ZeroPadding2D(sides, name=node.name)(node.inputs[0])


def _build_elementwise(node: _Node) -> Any:
    from keras import layers, ops

    both = list(map(_read_constant, node.inputs))
    if node.operator.name == "ADD" and len(node.shape) == 3:
        # Keras adds a second value with one long axis as a bias, which the converter refuses.
        both.sort(key=lambda value: prod(value.shape[1:]))
    # Layers merge two activations; with a constant it is an operation.
    has_constant = any(isinstance(operand, np.ndarray) for operand in both)
    merging_layer = {"ADD": layers.Add, "MUL": layers.Multiply}.get(node.operator.name)
    if merging_layer is not None and not has_constant:
        value = merging_layer(name=node.name)(both)
    else:
        value = getattr(ops, _ELEMENTWISE[node.operator.name])(*both)
    if node.operator.name == "SQUARED_DIFFERENCE":
        value = ops.square(value)
    return _activate(value, node.operator)


def _build_unary(node: _Node) -> Any:
    from keras import ops

    return getattr(ops, _UNARY[node.operator.name])(_read_constant(node.inputs[0]))


def _build_gelu(node: _Node) -> Any:
    from keras import ops

    return ops.gelu(node.inputs[0], approximate=False)


def _build_mean(node: _Node) -> Any:
    from keras import layers, ops

    axes = tuple(map(int, _read_constant(node.inputs[1]).reshape(-1)))
    keeps_axes = bool(node.operator.options.get("keep_dims"))
    # The layer, not the operation: fine-tuning finds the pooled features by it.
    if axes == (1, 2):
        return layers.GlobalAveragePooling2D(keepdims=keeps_axes, name=node.name)(node.inputs[0])
    return ops.mean(node.inputs[0], axes, keepdims=keeps_axes)


def _build_reshape(node: _Node) -> Any:
    from keras import layers

    if _is_constant(node.inputs[0]):
        return _read_constant(node.inputs[0])
    return layers.Reshape(_strip_batch(node.shape), name=node.name)(node.inputs[0])


def _build_pool(node: _Node) -> Any:
    from keras import layers

    kind = layers.MaxPooling2D
    if node.operator.name == "AVERAGE_POOL_2D":
        kind = layers.AveragePooling2D
    options = node.operator.options
    size = int(options["filter_height"]), int(options["filter_width"])
    strides = _read_strides(node.operator)
    layer = kind(size, strides, _read_padding(node.operator), name=node.name)
    return layer(node.inputs[0])


def _build_resize(node: _Node) -> Any:
    from keras import ops

    options = node.operator.options
    value = node.inputs[0]
    name = node.operator.name
    # Keras resizes with half-pixel centres only; the nearest neighbour is a choice of rows, which
    # any centre allows.
    half = 0.5 if options.get("half_pixel_centers") else 0.0
    if options.get("align_corners") or (name == "RESIZE_BILINEAR" and not half):
        raise UnsupportedRecipe(
            f"training a file with {name} that aligns pixels otherwise is not supported"
        )
    if name == "RESIZE_BILINEAR":
        return ops.image.resize(value, node.shape[1:3], data_format="channels_last")
    sides = [(value.shape[axis], node.shape[axis]) for axis in (1, 2)]
    if all(_choose_rows(*side, half) == _choose_rows(*side, 0.5) for side in sides):
        # One operator, which a delegate computes with those around it.
        return ops.image.resize(
            value, node.shape[1:3], interpolation="nearest", data_format="channels_last"
        )
    for axis, side in enumerate(sides, start=1):
        value = ops.take(value, np.asarray(_choose_rows(*side, half), np.int32), axis=axis)
    return value


def _choose_rows(before: int, after: int, half: float) -> list[int]:
    """Return the row of a map of ``before`` rows that each of ``after`` rows is a copy of."""
    return [int((row + half) * before / after) for row in range(after)]


def _build_softmax(node: _Node) -> Any:
    from keras import ops

    return ops.softmax(node.inputs[0], axis=-1)


def _strip_batch(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of a value of one image, without a batch axis that the file has first."""
    if shape[:1] == (1,):
        return shape[1:]
    return shape


def _reshape_value(value: Any, shape: tuple[int, ...]) -> Any:
    from keras import ops

    return ops.reshape(value, (-1, *_strip_batch(shape)))


def _build_with_batch(node: _Node) -> Any:
    """Return the result of an operator for each image, with a batch before all axes of the file.

    Attention moves an axis of the file to where a batch would be, and multiplies matrices there.
    """
    from keras import ops

    rank = 0
    if node.operator.name in _ELEMENTWISE:
        rank = len(node.shape)
    operands = list[Any]()
    inputs = [value for value in node.inputs if value is not None]
    for value, shape in zip(inputs, node.shapes, strict=True):
        # Broadcasting adds axes in front, where the batch is now.
        all_axes = (*[1] * (rank - len(shape)), *shape)
        if _is_constant(value):
            operands.append(_read_constant(value).reshape(1, *all_axes))
        else:
            operands.append(ops.reshape(value, (-1, *all_axes)))
    if rank:
        result = _build_elementwise(replace(node, inputs=operands))
    else:
        result = _map_tensor_makers()[node.operator.name](operands, node.operator.options)
    if tuple(result.shape[1:]) != node.shape:
        raise StageError(
            f"{node.name} has the shape {tuple(result.shape[1:])}, and {node.shape} in the file"
        )
    return _reshape_value(result, node.shape)


def _behind_batch(axis: Any) -> int:
    """Return an axis of the file behind a new batch axis; one that counts from the end stays."""
    if axis >= 0:
        return int(axis) + 1
    return int(axis)


def _transpose_axes(operands: list[Any], _: Mapping[str, Any]) -> Any:
    from keras import ops

    value, order = operands
    return ops.transpose(value, (0, *(int(axis) + 1 for axis in order[0])))


def _take_slice(operands: list[Any], options: Mapping[str, Any]) -> Any:
    value, *bounds = operands
    # The bounds have a batch of one before their own axis.
    slices = slices_of(options, *(bound[0] for bound in bounds))
    return value[(slice(None), *slices)]


def _multiply_matrices(operands: list[Any], options: Mapping[str, Any]) -> Any:
    from keras import ops

    left, right = operands
    if options.get("adj_x"):
        left = ops.swapaxes(left, -1, -2)
    if options.get("adj_y"):
        right = ops.swapaxes(right, -1, -2)
    return ops.matmul(left, right)


def _multiply_by_rows(operands: list[Any], _: Mapping[str, Any]) -> Any:
    from keras import ops

    value, rows = operands[:2]
    width = rows.shape[-1]
    flat = ops.reshape(value, (-1, prod(value.shape[1:]) // width, width))
    products = ops.matmul(flat, ops.swapaxes(rows, -1, -2))
    return ops.reshape(products, (-1, *value.shape[1:-1], rows.shape[-2]))


def _concatenate(operands: list[Any], options: Mapping[str, Any]) -> Any:
    from keras import ops

    return ops.concatenate(operands, axis=_behind_batch(int(options["axis"])))


def _reduce_axes(kind: str, operands: list[Any], options: Mapping[str, Any]) -> Any:
    from keras import ops

    axes = tuple(map(_behind_batch, operands[1].reshape(-1)))
    return getattr(ops, kind)(operands[0], axes, keepdims=bool(options.get("keep_dims")))


@cache
def _map_tensor_makers() -> Mapping[str, Callable[[list[Any], Mapping[str, Any]], Any]]:
    """Return the functions for values with a batch before all axes of the file, by operator."""
    return {
        "TRANSPOSE": _transpose_axes,
        "SLICE": _take_slice,
        "STRIDED_SLICE": _take_slice,
        "BATCH_MATMUL": _multiply_matrices,
        "CONCATENATION": _concatenate,
        "SUM": partial(_reduce_axes, "sum"),
        "MEAN": partial(_reduce_axes, "mean"),
        "REDUCE_MAX": partial(_reduce_axes, "max"),
        "FULLY_CONNECTED": _multiply_by_rows,
    }


@cache
def _map_layer_makers() -> Mapping[str, Callable[[_Node], Any]]:
    """Return the function that builds the layers of each operator."""
    return {
        **dict.fromkeys(_map_tensor_makers(), _build_with_batch),
        "CONV_2D": _build_convolution,
        "DEPTHWISE_CONV_2D": _build_depthwise,
        "FULLY_CONNECTED": _build_dense,
        "PAD": _build_padding,
        "PADV2": _build_padding,
        "GELU": _build_gelu,
        "MEAN": _build_mean,
        "RESHAPE": _build_reshape,
        "SOFTMAX": _build_softmax,
        "AVERAGE_POOL_2D": _build_pool,
        "MAX_POOL_2D": _build_pool,
        "RESIZE_NEAREST_NEIGHBOR": _build_resize,
        "RESIZE_BILINEAR": _build_resize,
        **dict.fromkeys(_ELEMENTWISE, _build_elementwise),
        **dict.fromkeys(_UNARY, _build_unary),
    }
