"""Train the graph of a float ``.tflite`` itself, for recipes that retrain weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core import UnsupportedRecipe
from advisor.tflite import add_buffer, drop_unused_buffers, pack, read, unpack

if TYPE_CHECKING:
    import tensorflow as tf

Change = Callable[[int, Any], Any]
"""Maps a tensor's index and value to another value, as quantization does."""

SUPPORTED = frozenset(
    {
        *(
            "CONV_2D",
            "DEPTHWISE_CONV_2D",
            "FULLY_CONNECTED",
            "ADD",
            "SUB",
            "MUL",
            "MEAN",
            "AVERAGE_POOL_2D",
        ),
        *(
            "MAX_POOL_2D",
            "CONCATENATION",
            "PAD",
            "RESHAPE",
            "SOFTMAX",
            "HARD_SWISH",
            "LOGISTIC",
            "RELU",
            "RELU6",
        ),
        *("DIV", "PADV2", "SLICE", "GATHER", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"),
    }
)
"""The names of the operators that can be trained."""

_PADDINGS = {schema.Padding.SAME: "SAME", schema.Padding.VALID: "VALID"}
_LAYERS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})


@dataclass(frozen=True)
class Node:
    """One operator of the graph."""

    name: str
    options: Any
    inputs: tuple[int, ...]
    output: int


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of a float model."""

    nodes: tuple[Node, ...]  # its operators in the order of execution
    constants: Mapping[int, NDArray[Any]]  # content of its constants by tensor index
    source: int  # tensor index of its input
    outputs: tuple[int, ...]  # tensor indices of its outputs
    tables: schema.ModelT  # the file's tables, to write it again

    @classmethod
    def read(cls, data: bytes) -> Graph:
        """Return the graph of a float ``.tflite``.

        Raises UsageError for a damaged file,
        and UnsupportedRecipe for an operator that cannot be trained.
        """
        model = read(data)
        tables = unpack(data)
        nodes = []
        for operator, table in zip(model.operators, tables.subgraphs[0].operators, strict=True):
            if operator.name not in SUPPORTED or len(operator.outputs) != 1:
                raise UnsupportedRecipe(
                    f"the model has the operator {operator.name}, which cannot be trained here"
                )
            inputs = tuple(index for index in operator.inputs if index >= 0)
            nodes.append(Node(operator.name, table.builtinOptions, inputs, operator.outputs[0]))
        graph = model.subgraphs[0]
        kinds = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}
        constants = {}
        for index, tensor in enumerate(model.tensors):
            if tensor.is_constant and tensor.dtype in kinds:
                constants[index] = np.frombuffer(tensor.buffer, kinds[tensor.dtype]).reshape(
                    tensor.shape
                )
        return cls(tuple(nodes), constants, graph.inputs[0], tuple(graph.outputs), tables)

    @property
    def kernels(self) -> Mapping[int, str]:
        """The operator's name of each float kernel, by tensor index."""
        kernels = {}
        for node in self.nodes:
            if node.name in _LAYERS:
                kernels[node.inputs[1]] = node.name
        return {index: name for index, name in kernels.items() if index in self.constants}

    @property
    def biases(self) -> tuple[int, ...]:
        """Tensor indices of the layers' biases."""
        biases = []
        for node in self.nodes:
            if node.name in _LAYERS and len(node.inputs) > 2 and node.inputs[2] in self.constants:
                biases.append(node.inputs[2])
        return tuple(biases)

    @property
    def logits(self) -> int | None:
        """Tensor index of the last softmax's input, or of an output of one row;
        None without such an answer.
        """
        for node in reversed(self.nodes):
            if node.name == "SOFTMAX":
                return node.inputs[0]
        output = self.outputs[0]
        if len(self.tables.subgraphs[0].tensors[output].shape) <= 2:
            return output
        return None

    @property
    def first(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and the input."""
        reached = {self.source}
        first_layers = []
        for node in self.nodes:
            if reached.isdisjoint(node.inputs):
                continue
            if node.name in _LAYERS:
                first_layers.append(node)
            else:
                reached.add(node.output)
        return tuple(first_layers)

    @property
    def last(self) -> tuple[Node, ...]:
        """Layers with no other layer between them and an output;
        a head on several levels has one for each.
        """
        reaching = set(self.outputs)
        last_layers = []
        for node in reversed(self.nodes):
            if node.output not in reaching:
                continue
            if node.name in _LAYERS:
                last_layers.append(node)
            else:
                reaching.update(node.inputs)
        return tuple(reversed(last_layers))

    @property
    def features(self) -> tuple[int, ...]:
        """Tensor indices of the last layers' inputs, or of the outputs."""
        return tuple(dict.fromkeys(node.inputs[0] for node in self.last)) or self.outputs

    def run(
        self, images: tf.Tensor, weights: Mapping[int, tf.Tensor], change: Change | None = None
    ) -> dict[int, tf.Tensor]:
        """Return every activation for normalised images (n, S, S, 3).

        ``weights`` replace constants, by tensor index.
        ``change`` is applied to the input and to each operator's output.
        """
        passed = change or (lambda _index, value: value)
        constants: dict[int, Any] = {**self.constants, **weights}
        activations: dict[int, Any] = {self.source: passed(self.source, images)}
        for node in self.nodes:
            inputs = [
                activations[index] if index in activations else constants[index]
                for index in node.inputs
            ]
            output = run_operator(node.name, node.options, inputs)
            activations[node.output] = passed(node.output, output)
        return activations

    def with_weights(self, weights: Mapping[int, NDArray[np.float32]]) -> bytes:
        """Return the file with these constants replaced."""
        for index, value in weights.items():
            content = np.ascontiguousarray(value, dtype="<f4").tobytes()
            self.tables.subgraphs[0].tensors[index].buffer = add_buffer(self.tables, content)
        drop_unused_buffers(self.tables)
        return pack(self.tables)


def run_operator(name: str, options: Any, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the output of one of :data:`SUPPORTED`;
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
            return {"ADD": tf.add, "SUB": tf.subtract, "MUL": tf.multiply, "DIV": tf.divide}[name](
                *inputs
            )
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            pool = tf.nn.max_pool2d if name == "MAX_POOL_2D" else tf.nn.avg_pool2d
            window = (options.filterHeight, options.filterWidth)
            strides = (options.strideH, options.strideW)
            return pool(first, window, strides, _PADDINGS[options.padding])
        case "MEAN":
            return tf.reduce_mean(
                first, axis=list(map(int, inputs[1].reshape(-1))), keepdims=options.keepDims
            )
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
            resize = (
                tf.raw_ops.ResizeBilinear
                if name == "RESIZE_BILINEAR"
                else tf.raw_ops.ResizeNearestNeighbor
            )
            how = {
                "align_corners": options.alignCorners,
                "half_pixel_centers": options.halfPixelCenters,
            }
            return resize(images=first, size=inputs[1], **how)
        case "HARD_SWISH":
            return first * tf.nn.relu6(first + 3.0) / 6.0
        case "LOGISTIC" | "RELU" | "RELU6":
            return {"LOGISTIC": tf.nn.sigmoid, "RELU": tf.nn.relu, "RELU6": tf.nn.relu6}[name](
                first
            )
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
