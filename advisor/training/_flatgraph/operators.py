"""Compute one operator of a float ``.tflite`` in TensorFlow, so that gradients pass through it.

:class:`.Graph` runs its nodes with it. Kernels have the layouts of the runtime; the results are
those of the runtime but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ai_edge_litert import schema_py_generated as schema

if TYPE_CHECKING:
    import tensorflow as tf

# Names of functions in TensorFlow.
_ARITHMETIC = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide"}
_ACTIVATIONS = {"LOGISTIC": "sigmoid", "RELU": "relu", "RELU6": "relu6"}
_PADDINGS = {schema.Padding.SAME: "SAME", schema.Padding.VALID: "VALID"}


def run_operator(name: str, options: Any, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the output of one of the supported operators of :class:`.Graph`.

    ``options`` is the table of the generated schema.
    """
    import tensorflow as tf

    value = _compute_output(name, options, inputs)
    kinds = schema.ActivationFunctionType
    activation = getattr(options, "fusedActivationFunction", kinds.NONE)
    if activation == kinds.NONE:
        return value
    bounds = {kinds.RELU6: (0.0, 6.0), kinds.RELU_N1_TO_1: (-1.0, 1.0)}
    if activation in bounds:
        return tf.clip_by_value(value, *bounds[activation])
    if activation == kinds.RELU:
        return tf.nn.relu(value)
    return tf.tanh(value)


def _compute_output(name: str, options: Any, inputs: Sequence[Any]) -> tf.Tensor:
    """Return the output before a fused activation."""
    import tensorflow as tf

    first = inputs[0]
    match name:
        case "CONV_2D" | "DEPTHWISE_CONV_2D" | "FULLY_CONNECTED":
            product = _compute_linear(name, options, first, inputs[1])
            if len(inputs) > 2:
                return product + inputs[2]
            return product
        case "ADD" | "SUB" | "MUL" | "DIV":
            return getattr(tf, _ARITHMETIC[name])(*inputs)
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            pool = tf.nn.max_pool2d if name == "MAX_POOL_2D" else tf.nn.avg_pool2d
            window = (options.filterHeight, options.filterWidth)
            strides = (options.strideH, options.strideW)
            return pool(first, window, strides, _PADDINGS[options.padding])
        case "MEAN":
            axes = list(map(int, inputs[1].reshape(-1)))
            return tf.reduce_mean(first, axis=axes, keepdims=options.keepDims)
        case "CONCATENATION":
            return tf.concat(inputs, axis=options.axis)
        case "PAD":
            return tf.pad(first, inputs[1])
        case "PADV2":
            return tf.pad(first, inputs[1], constant_values=float(inputs[2].reshape(-1)[0]))
        case "SLICE":
            return tf.slice(first, inputs[1], [-1, *map(int, inputs[2][1:])])
        case "GATHER":
            return tf.gather(first, inputs[1], axis=options.axis)
        case "RESHAPE":
            shape = inputs[1] if len(inputs) > 1 else options.newShape
            # The file states a batch of one, and training uses larger ones.
            return tf.reshape(first, (-1, *map(int, shape[1:])))
        case "SOFTMAX":
            return tf.nn.softmax(first * options.beta)
        case "RESIZE_NEAREST_NEIGHBOR" | "RESIZE_BILINEAR":
            resize = tf.raw_ops.ResizeNearestNeighbor
            if name == "RESIZE_BILINEAR":
                resize = tf.raw_ops.ResizeBilinear
            return resize(
                images=first,
                size=inputs[1],
                align_corners=options.alignCorners,
                half_pixel_centers=options.halfPixelCenters,
            )
        case "HARD_SWISH":
            return first * tf.nn.relu6(first + 3.0) / 6.0
        case "LOGISTIC" | "RELU" | "RELU6":
            return getattr(tf.nn, _ACTIVATIONS[name])(first)
    raise ValueError(f"the operator {name} cannot be trained")


def _compute_linear(name: str, options: Any, value: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Return a dense layer or a convolution without bias, its kernel in the runtime's layout."""
    import tensorflow as tf

    from advisor.training._convolution import convolve_depthwise

    if name == "FULLY_CONNECTED":
        # The kernel in the file: outputs, inputs.
        rows = tf.reshape(value, (-1, kernel.shape[1]))
        return tf.matmul(rows, kernel, transpose_b=True)
    padding = _PADDINGS[options.padding]
    strides = (options.strideH, options.strideW)
    dilations = (options.dilationHFactor, options.dilationWFactor)
    if name == "CONV_2D":
        # The kernel in the file: outputs, height, width, inputs.
        kernel = tf.transpose(kernel, (1, 2, 3, 0))
        return tf.nn.convolution(value, kernel, strides, padding, dilations=dilations)
    # The kernel in the file: 1, height, width, channels x multiplier.
    height, width, outputs = kernel.shape[1:]
    channels = value.shape[-1]
    kernel = tf.reshape(kernel, (height, width, channels, outputs // channels))
    return convolve_depthwise(value, kernel, strides, padding, dilations)
