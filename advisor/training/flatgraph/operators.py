"""The operators of a ``.tflite`` in TensorFlow: differentiable, for batches of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ai_edge_litert import schema_py_generated as schema

if TYPE_CHECKING:
    import tensorflow as tf

SUPPORTED = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "MEAN", "AVERAGE_POOL_2D"),
        *("MAX_POOL_2D", "CONCATENATION", "PAD", "RESHAPE", "SOFTMAX", "HARD_SWISH", "LOGISTIC", "RELU", "RELU6"),
        *("DIV", "PADV2", "SLICE", "GATHER"),
    }
)
"""The names of the operators that can be trained."""

_PADDINGS = {schema.Padding.SAME: "SAME", schema.Padding.VALID: "VALID"}


def run_operator(name: str, options: Any, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the output of one of :data:`SUPPORTED`.

    Args:
        name: the operator.
        options: the table of its options, of the generated schema.
        inputs: the values of its inputs.
    """
    value = _computed(name, options, inputs)
    return _activated(value, getattr(options, "fusedActivationFunction", schema.ActivationFunctionType.NONE))


def _computed(name: str, options: Any, inputs: Sequence[Any]) -> tf.Tensor:
    """Return the output before a fused activation."""
    import tensorflow as tf

    first = inputs[0]
    match name:
        case "CONV_2D" | "DEPTHWISE_CONV_2D" | "FULLY_CONNECTED":
            found = _linear(name, options, first, inputs[1])
            return found + inputs[2] if len(inputs) > 2 else found
        case "ADD":
            return tf.add(*inputs)
        case "SUB":
            return tf.subtract(*inputs)
        case "MUL":
            return tf.multiply(*inputs)
        case "DIV":
            return tf.divide(*inputs)
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            pool = tf.nn.max_pool2d if name == "MAX_POOL_2D" else tf.nn.avg_pool2d
            window, strides = (options.filterHeight, options.filterWidth), (options.strideH, options.strideW)
            return pool(first, window, strides, _PADDINGS[options.padding])
        case "MEAN":
            return tf.reduce_mean(first, axis=[int(axis) for axis in inputs[1].reshape(-1)], keepdims=options.keepDims)
        case "CONCATENATION":
            return tf.concat(inputs, axis=options.axis)
        case "PAD":
            return tf.pad(first, inputs[1])
        case "PADV2":
            return tf.pad(first, inputs[1], constant_values=float(inputs[2].reshape(-1)[0]))
        case "SLICE":
            return tf.slice(first, inputs[1], [-1, *(int(side) for side in inputs[2][1:])])
        case "GATHER":
            return tf.gather(first, inputs[1], axis=options.axis)
        case "RESHAPE":
            shape = inputs[1] if len(inputs) > 1 else options.newShape
            return tf.reshape(first, (-1, *(int(side) for side in shape[1:])))
        case "SOFTMAX":
            return tf.nn.softmax(first * options.beta)
        case "HARD_SWISH":
            return first * tf.nn.relu6(first + 3.0) / 6.0
        case "LOGISTIC":
            return tf.nn.sigmoid(first)
        case "RELU":
            return tf.nn.relu(first)
        case "RELU6":
            return tf.nn.relu6(first)
    raise ValueError(f"the operator {name} cannot be trained")


def _linear(name: str, options: Any, value: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Return a dense layer or a convolution without bias, its kernel in the runtime's layout."""
    import tensorflow as tf

    if name == "FULLY_CONNECTED":  # kernel: outputs, inputs
        return tf.matmul(tf.reshape(value, (-1, kernel.shape[1])), kernel, transpose_b=True)
    padding, dilations = _PADDINGS[options.padding], (options.dilationHFactor, options.dilationWFactor)
    if name == "CONV_2D":  # kernel: outputs, height, width, inputs
        kernel = tf.transpose(kernel, (1, 2, 3, 0))
        return tf.nn.convolution(value, kernel, (options.strideH, options.strideW), padding, dilations=dilations)
    height, width, outputs = kernel.shape[1:]  # kernel: 1, height, width, channels x multiplier
    kernel = tf.reshape(kernel, (height, width, value.shape[-1], outputs // value.shape[-1]))
    strides = (1, options.strideH, options.strideW, 1)
    return tf.nn.depthwise_conv2d(value, kernel, strides, padding, dilations=dilations)


def _activated(value: tf.Tensor, activation: int) -> tf.Tensor:
    import tensorflow as tf

    kinds = schema.ActivationFunctionType
    if activation == kinds.NONE:
        return value
    if activation == kinds.RELU:
        return tf.nn.relu(value)
    if activation == kinds.RELU6:
        return tf.clip_by_value(value, 0.0, 6.0)
    if activation == kinds.RELU_N1_TO_1:
        return tf.clip_by_value(value, -1.0, 1.0)
    return tf.tanh(value)
