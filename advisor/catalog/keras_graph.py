"""Build the Keras graph of a float ``.tflite`` of one image, so that the network can be trained again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core.errors import StageError
from advisor.tflite.model import Model, Operator, Tensor, read
from advisor.tflite.values import real_values

if TYPE_CHECKING:
    import keras

_ELEMENTWISE = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide", "MAXIMUM": "maximum"}
_UNARY = {
    "RELU": "relu", "RELU6": "relu6", "HARD_SWISH": "hard_swish", "LOGISTIC": "sigmoid", "RSQRT": "rsqrt",
    "SQRT": "sqrt", "TANH": "tanh", "SQUARE": "square",
}  # fmt: skip
_FUSED = {"NONE": "", "RELU": "relu", "RELU6": "relu6"}


def keras_graph(data: bytes, name: str) -> keras.Model:
    """Return the Keras model of a file with one input and named outputs, with its weights.

    Convolutions and dense layers are layers that can be trained; other constants stay. Raises StageError if the file
    has an operator that this version does not know.
    """
    import keras

    model = read(data, name)
    graph, (signature,) = model.subgraphs[0], model.signatures
    image = model.inputs[0]
    values: dict[int, Any] = {graph.inputs[0]: keras.Input(image.shape[1:], batch_size=1, name="image")}
    first = values[graph.inputs[0]]
    for number, operator in enumerate(model.operators):
        inputs = [values.get(index, graph.tensors[index] if index >= 0 else None) for index in operator.inputs]
        make = _MAKERS.get(operator.name)
        if make is None or graph.tensors[operator.outputs[0]].shape[:1] != (1,):
            lost = "" if make is None else ", which leaves no batch,"
            raise StageError(f"{name}: training a file with the operator {operator.name}{lost} is not supported")
        values[operator.outputs[0]] = make(_Node(model, operator, inputs, f"{operator.name.lower()}_{number}"))
    return keras.Model(first, {output: values[index] for output, index in signature.outputs})


@dataclass(frozen=True)
class _Node:
    """One operator, its inputs as Keras tensors or constants of the file, and the name of its layer."""

    model: Model
    operator: Operator
    inputs: list[Any]
    name: str


def _constant(tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        return tensor
    value = real_values(tensor)
    if value is None:
        raise StageError("a constant of the file has no values")
    return np.asarray(value, np.float32 if tensor.dtype.startswith("float") else np.int32).reshape(tensor.shape)


def _activated(value: Any, operator: Operator) -> Any:
    from keras import ops

    fused = _FUSED[str(operator.options.get("fused_activation_function", "NONE"))]
    return getattr(ops, fused)(value) if fused else value


def _pads(operator: Operator) -> str:
    return "valid" if operator.options.get("padding") == 1 else "same"


def _strides(operator: Operator) -> tuple[int, int]:
    return int(operator.options["stride_h"]), int(operator.options["stride_w"])


def _moved(node: _Node, bias: Any) -> dict[str, Any]:
    """Return how a kernel moves over the image, as arguments of a layer."""
    options = node.operator.options
    dilation = int(options.get("dilation_h_factor", 1)), int(options.get("dilation_w_factor", 1))
    return {
        "strides": _strides(node.operator), "padding": _pads(node.operator), "dilation_rate": dilation,
        "use_bias": bias is not None, "name": node.name,
    }  # fmt: skip


def _with(layer: Any, node: _Node, arrays: list[Any]) -> Any:
    """Return the layer's output with its weights set; a bias may be missing."""
    value = layer(node.inputs[0])
    layer.set_weights([np.asarray(array, np.float32) for array in arrays if array is not None])
    return _activated(value, node.operator)


def _bias(node: _Node) -> Any:
    return _constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None


def _convolution(node: _Node) -> Any:
    from keras import layers

    kernel, bias = _constant(node.inputs[1]).transpose(1, 2, 3, 0), _bias(node)
    groups = node.inputs[0].shape[3] // kernel.shape[2]
    layer = layers.Conv2D(kernel.shape[3], kernel.shape[:2], groups=groups, **_moved(node, bias))
    return _with(layer, node, [kernel, bias])


def _depthwise(node: _Node) -> Any:
    from keras import layers

    kernel, bias, channels = _constant(node.inputs[1])[0], _bias(node), node.inputs[0].shape[3]
    layer = layers.DepthwiseConv2D(kernel.shape[:2], depth_multiplier=kernel.shape[2] // channels, **_moved(node, bias))
    return _with(layer, node, [kernel.reshape(*kernel.shape[:2], channels, -1), bias])


def _dense(node: _Node) -> Any:
    from keras import layers

    kernel, bias = _constant(node.inputs[1]).T, _bias(node)
    return _with(layers.Dense(kernel.shape[1], use_bias=bias is not None, name=node.name), node, [kernel, bias])


def _pad(node: _Node) -> Any:
    from keras import layers

    sides = tuple((int(before), int(after)) for before, after in _constant(node.inputs[1])[1:3])
    return layers.ZeroPadding2D(sides, name=node.name)(node.inputs[0])


def _elementwise(node: _Node) -> Any:
    from keras import layers, ops

    both = [_constant(each) for each in node.inputs]
    whole = not any(isinstance(each, np.ndarray) for each in both)
    merged = {"ADD": layers.Add, "MUL": layers.Multiply}.get(node.operator.name) if whole else None
    value = merged(name=node.name)(both) if merged else getattr(ops, _ELEMENTWISE[node.operator.name])(*both)
    return _activated(value, node.operator)


def _unary(node: _Node) -> Any:
    from keras import layers, ops

    function = _UNARY[node.operator.name]
    return layers.ReLU(name=node.name)(node.inputs[0]) if function == "relu" else getattr(ops, function)(node.inputs[0])


def _gelu(node: _Node) -> Any:
    from keras import ops

    return ops.gelu(node.inputs[0], approximate=False)


def _mean(node: _Node) -> Any:
    from keras import layers, ops

    axes, kept = (
        tuple(int(axis) for axis in _constant(node.inputs[1]).reshape(-1)),
        bool(node.operator.options.get("keep_dims")),
    )
    if axes == (1, 2):
        return layers.GlobalAveragePooling2D(keepdims=kept, name=node.name)(node.inputs[0])
    return ops.mean(node.inputs[0], axes, keepdims=kept)


def _reshape(node: _Node) -> Any:
    from keras import layers

    return layers.Reshape(node.model.subgraphs[0].tensors[node.operator.outputs[0]].shape[1:], name=node.name)(
        node.inputs[0]
    )


def _pool(node: _Node) -> Any:
    from keras import layers

    kind = layers.AveragePooling2D if node.operator.name == "AVERAGE_POOL_2D" else layers.MaxPooling2D
    size = int(node.operator.options["filter_height"]), int(node.operator.options["filter_width"])
    return kind(size, _strides(node.operator), _pads(node.operator), name=node.name)(node.inputs[0])


def _softmax(node: _Node) -> Any:
    from keras import ops

    return ops.softmax(node.inputs[0], axis=-1)


_MAKERS: dict[str, Callable[[_Node], Any]] = {
    "CONV_2D": _convolution, "DEPTHWISE_CONV_2D": _depthwise, "FULLY_CONNECTED": _dense, "PAD": _pad, "GELU": _gelu,
    "MEAN": _mean, "RESHAPE": _reshape, "SOFTMAX": _softmax, "AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool,
    **dict.fromkeys(_ELEMENTWISE, _elementwise), **dict.fromkeys(_UNARY, _unary),
}  # fmt: skip
