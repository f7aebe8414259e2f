"""The operators of a ``.tflite`` in TensorFlow: differentiable, for batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ai_edge_litert import schema_py_generated as schema

if TYPE_CHECKING:
    import tensorflow as tf

Options = Any
"""The table of an operator's options, of the generated schema."""

Operation = Callable[[Any, Sequence[Any]], Any]
"""Maps an operator's options and input values to its output value."""

_PADDINGS = {schema.Padding.SAME: "SAME", schema.Padding.VALID: "VALID"}


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


def _convolution(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a convolution with a kernel (outputs, height, width, inputs)."""
    import tensorflow as tf

    value, kernel, *bias = inputs
    kernel = tf.transpose(kernel, (1, 2, 3, 0))
    strides, padding = (options.strideH, options.strideW), _PADDINGS[options.padding]
    dilations = (options.dilationHFactor, options.dilationWFactor)
    found = tf.nn.convolution(value, kernel, strides, padding, dilations=dilations)
    return _activated(found + bias[0] if bias else found, options.fusedActivationFunction)


def _depthwise(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a depthwise convolution with a kernel (1, height, width, channels x multiplier)."""
    import tensorflow as tf

    value, kernel, *bias = inputs
    height, width, outputs = kernel.shape[1:]
    kernel = tf.reshape(kernel, (height, width, value.shape[-1], outputs // value.shape[-1]))
    strides, padding = (1, options.strideH, options.strideW, 1), _PADDINGS[options.padding]
    dilations = (options.dilationHFactor, options.dilationWFactor)
    found = tf.nn.depthwise_conv2d(value, kernel, strides, padding, dilations=dilations)
    return _activated(found + bias[0] if bias else found, options.fusedActivationFunction)


def _dense(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return a dense layer with a kernel (outputs, inputs)."""
    import tensorflow as tf

    value, kernel, *bias = inputs
    found = tf.matmul(tf.reshape(value, (-1, kernel.shape[1])), kernel, transpose_b=True)
    return _activated(found + bias[0] if bias else found, options.fusedActivationFunction)


def _binary(name: str) -> Operation:
    def run(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        import tensorflow as tf

        return _activated(getattr(tf, name)(*inputs), options.fusedActivationFunction)

    return run


def _unary(name: str) -> Operation:
    def run(_options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        import tensorflow as tf

        return getattr(tf.nn, name)(inputs[0])

    return run


def _pooling(name: str) -> Operation:
    def run(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        import tensorflow as tf

        window, strides = (options.filterHeight, options.filterWidth), (options.strideH, options.strideW)
        found = getattr(tf.nn, name)(inputs[0], window, strides, _PADDINGS[options.padding])
        return _activated(found, options.fusedActivationFunction)

    return run


def _mean(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    return tf.reduce_mean(inputs[0], axis=[int(axis) for axis in inputs[1].reshape(-1)], keepdims=options.keepDims)


def _concatenation(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    return _activated(tf.concat(inputs, axis=options.axis), options.fusedActivationFunction)


def _pad(_options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    return tf.pad(inputs[0], inputs[1])


def _reshape(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    shape = inputs[1] if len(inputs) > 1 else options.newShape
    return tf.reshape(inputs[0], (-1, *(int(side) for side in shape[1:])))


def _softmax(options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    return tf.nn.softmax(inputs[0] * options.beta)


def _hard_swish(_options: Options, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    import tensorflow as tf

    return inputs[0] * tf.nn.relu6(inputs[0] + 3.0) / 6.0


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _depthwise,
        "FULLY_CONNECTED": _dense,
        "ADD": _binary("add"),
        "SUB": _binary("subtract"),
        "MUL": _binary("multiply"),
        "MEAN": _mean,
        "AVERAGE_POOL_2D": _pooling("avg_pool2d"),
        "MAX_POOL_2D": _pooling("max_pool2d"),
        "CONCATENATION": _concatenation,
        "PAD": _pad,
        "RESHAPE": _reshape,
        "SOFTMAX": _softmax,
        "HARD_SWISH": _hard_swish,
        "LOGISTIC": _unary("sigmoid"),
        "RELU": _unary("relu"),
        "RELU6": _unary("relu6"),
    }
)
