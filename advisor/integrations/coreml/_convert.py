"""Write a Core ML package of a float ``.tflite`` classifier, operator by operator.

``coreml/__init__.py`` calls :func:`write` in a child process, by module and name, because
coremltools is loaded here. A tensor of four dimensions is (batch, height, width, channels) in the
file and (batch, channels, height, width) in Core ML. :class:`Network` keeps it in Core ML's order;
operators that mix dimensions take it back first. A new operator is one function in
:func:`map_operators`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.integrations.coreml import without_frameworks

without_frameworks()

import coremltools as ct  # noqa: E402
from coremltools.converters.mil import Builder  # noqa: E402

from advisor.core import UsageError  # noqa: E402
from advisor.tflite import (  # noqa: E402
    Model,
    Operator,
    Tensor,
    read,
    to_float32,
)

IMAGE_RANK = 4
TO_CORE = (0, 3, 1, 2)
TO_FILE = (0, 2, 3, 1)
PLACE = (0, 2, 3, 1)
"""Core ML's dimension for each dimension of the file, of four."""

SAME = 0
"""The schema's number of the padding that keeps the size."""

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "NONE": lambda value: value,
    "RELU": lambda value: Builder.relu(x=value),
    "RELU6": lambda value: Builder.relu6(x=value),
    "RELU_N1_TO_1": lambda value: Builder.clip(x=value, alpha=-1.0, beta=1.0),
    "TANH": lambda value: Builder.tanh(x=value),
}

_ARRAY_TYPES = {"float32": "<f4", "int32": "<i4", "int64": "<i8"}

NOT_RUN = (
    "Not run here: Core ML runs on Apple devices only. Check it there with the test vectors of the"
    " bundle."
)
OLDEST = ct.target.iOS16
_DATE = "com.github.apple.coremltools.conversion_date"


class Network:
    """A graph under construction: the values of tensors by their index in the file."""

    def __init__(self, model: Model, image: Any) -> None:
        self._model = model
        self._values: dict[int, Any] = {model.subgraphs[0].inputs[0]: image}

    def run(self) -> Any:
        """Add every operator and return the value of the first output;
        UsageError if one has no counterpart here.
        """
        for operator in self._model.operators:
            if operator.name not in map_operators():
                raise UsageError(
                    f"--coreml: the model has a {operator.name}, which is not translated",
                    f"operators that are: {', '.join(sorted(map_operators()))}",
                )
            outputs = map_operators()[operator.name](self, operator)
            activation = str(operator.options.get("fused_activation_function", "NONE"))
            for index, value in zip(operator.outputs, outputs, strict=True):
                self._values[index] = ACTIVATIONS[activation](value)
        return self._values[self._model.subgraphs[0].outputs[0]]

    def tensor(self, index: int) -> Tensor:
        """Return the description of a tensor."""
        return self._model.tensors[index]

    def value(self, index: int) -> Any:
        """Return a tensor that is computed, in Core ML's order of dimensions."""
        if index not in self._values:
            self._values[index] = Builder.const(val=_in_order(self.constant(index)))
        return self._values[index]

    def constant(self, index: int) -> NDArray[Any]:
        """Return a constant of numbers in the file's order of dimensions;
        UsageError for another tensor.
        """
        tensor = self.tensor(index)
        if not tensor.is_constant or tensor.dtype not in _ARRAY_TYPES:
            raise UsageError(
                f"--coreml: '{tensor.name}' is not a constant of floats or whole numbers",
                "leave it out",
            )
        return np.frombuffer(tensor.buffer, _ARRAY_TYPES[tensor.dtype]).reshape(tensor.shape)

    def plain(self, index: int) -> Any:
        """Return a computed tensor in the file's order of dimensions."""
        value = self.value(index)
        if len(self.tensor(index).shape) == IMAGE_RANK:
            return Builder.transpose(x=value, perm=TO_FILE)
        return value


def _in_order(values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim == IMAGE_RANK:
        return values.transpose(TO_CORE)
    return values


def _order_axes(value: Any, rank: int) -> Any:
    if rank == IMAGE_RANK:
        return Builder.transpose(x=value, perm=TO_CORE)
    return value


def _padding_of(network: Network, operator: Operator, kernel: Sequence[int]) -> list[int]:
    """Return the rows and columns that are added: top, bottom, left, right."""
    if operator.options["padding"] != SAME:
        return [0, 0, 0, 0]
    sides = network.tensor(operator.inputs[0]).shape[1:3]
    added = []
    for side, size, axis in zip(sides, kernel, "hw", strict=True):
        stride = int(operator.options[f"stride_{axis}"])
        dilation = _dilation_of(operator, axis)
        whole = max((math.ceil(side / stride) - 1) * stride + (size - 1) * dilation + 1 - side, 0)
        # An odd row or column comes at the bottom or at the right, as TensorFlow pads.
        added += [whole // 2, whole - whole // 2]
    return added


def _dilation_of(operator: Operator, axis: str) -> int:
    return int(operator.options.get(f"dilation_{axis}_factor", 1))


def _strides_of(operator: Operator) -> list[int]:
    return [int(operator.options["stride_h"]), int(operator.options["stride_w"])]


def _add_convolution(network: Network, operator: Operator, depthwise: bool = False) -> list[Any]:
    kernel = network.constant(operator.inputs[1])
    channels = network.tensor(operator.inputs[0]).shape[3]
    # A depthwise kernel is (1, height, width, channels) in the file,
    # others begin with the output channels.
    weight = kernel.transpose(3, 0, 1, 2) if depthwise else kernel.transpose(0, 3, 1, 2)
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    more = {}
    if bias >= 0:
        more = {"bias": network.constant(bias)}
    convolved = Builder.conv(
        x=network.value(operator.inputs[0]),
        weight=weight,
        strides=_strides_of(operator),
        pad_type="custom",
        pad=_padding_of(network, operator, kernel.shape[1:3]),
        groups=channels // weight.shape[1],
        dilations=[_dilation_of(operator, "h"), _dilation_of(operator, "w")],
        **more,
    )
    return [convolved]


def _add_dense(network: Network, operator: Operator) -> list[Any]:
    weight = network.constant(operator.inputs[1])
    bias = operator.inputs[2] if len(operator.inputs) > 2 else -1
    more = {}
    if bias >= 0:
        more = {"bias": network.constant(bias)}
    rows = Builder.reshape(x=_read_flat(network, operator.inputs[0]), shape=[-1, weight.shape[1]])
    shape = network.tensor(operator.outputs[0]).shape
    scores = Builder.linear(x=rows, weight=weight, **more)
    if len(shape) == 2:
        return [scores]
    return [_order_axes(Builder.reshape(x=scores, shape=shape), len(shape))]


def _read_flat(network: Network, index: int) -> Any:
    """Return a tensor whose values are in the file's order; one of a single position is
    as it is.
    """
    if _has_one_position(network.tensor(index).shape):
        return network.value(index)
    return network.plain(index)


def _has_one_position(shape: Sequence[int]) -> bool:
    # With one row and one column, the values stand in one order, wherever the channels are.
    return len(shape) == IMAGE_RANK and tuple(shape[1:3]) == (1, 1)


def _add_reshape(network: Network, operator: Operator) -> list[Any]:
    shape = network.tensor(operator.outputs[0]).shape
    value = _read_flat(network, operator.inputs[0])
    if _has_one_position(shape):
        return [Builder.reshape(x=value, shape=[shape[axis] for axis in TO_CORE])]
    return [_order_axes(Builder.reshape(x=value, shape=shape), len(shape))]


def _add_pool(make: Callable[..., Any], network: Network, operator: Operator) -> list[Any]:
    size = [int(operator.options["filter_height"]), int(operator.options["filter_width"])]
    pad = _padding_of(network, operator, size)
    value = network.value(operator.inputs[0])
    return [
        make(x=value, kernel_sizes=size, strides=_strides_of(operator), pad_type="custom", pad=pad)
    ]


def _add_combination(make: Callable[..., Any], network: Network, operator: Operator) -> list[Any]:
    left, right = operator.inputs
    rank = max(len(network.tensor(left).shape), len(network.tensor(right).shape))
    return [make(x=_read_wide(network, left, rank), y=_read_wide(network, right, rank))]


def _read_wide(network: Network, index: int, rank: int) -> Any:
    """Return an operand; one of fewer dimensions than the other gets leading ones."""
    shape = network.tensor(index).shape
    if len(shape) == rank or rank != IMAGE_RANK or not shape:
        return network.value(index)
    wide = (1,) * (rank - len(shape)) + shape
    if network.tensor(index).is_constant:
        return _in_order(network.constant(index).reshape(wide))
    return _order_axes(Builder.reshape(x=network.value(index), shape=wide), rank)


def _add_reduction(make: Callable[..., Any], network: Network, operator: Operator) -> list[Any]:
    rank = len(network.tensor(operator.inputs[0]).shape)
    axes = sorted(int(axis) % rank for axis in network.constant(operator.inputs[1]).reshape(-1))
    keep = bool(operator.options.get("keep_dims", 0))
    if rank == IMAGE_RANK and (keep or axes == [1, 2]):
        axes = [PLACE[axis] for axis in axes]
        return [make(x=network.value(operator.inputs[0]), axes=axes, keep_dims=keep)]
    reduced = make(x=network.plain(operator.inputs[0]), axes=axes, keep_dims=keep)
    return [_order_axes(reduced, len(network.tensor(operator.outputs[0]).shape))]


def _add_padding(network: Network, operator: Operator) -> list[Any]:
    added = network.constant(operator.inputs[1]).astype(np.int32)
    value = 0.0
    if len(operator.inputs) > 2:
        value = float(network.constant(operator.inputs[2]).reshape(-1)[0])
    ordered = added
    if len(added) == IMAGE_RANK:
        ordered = added[list(TO_CORE)]
    # Core ML pads the last dimensions.
    while len(ordered) > 1 and not ordered[0].any():
        ordered = ordered[1:]
    return [
        Builder.pad(
            x=network.value(operator.inputs[0]), pad=ordered.reshape(-1), constant_val=value
        )
    ]


def _add_concatenation(network: Network, operator: Operator) -> list[Any]:
    axis = _place_axis(network, operator.inputs[0], int(operator.options["axis"]))
    return [Builder.concat(values=list(map(network.value, operator.inputs)), axis=axis)]


def _place_axis(network: Network, index: int, axis: int) -> int:
    rank = len(network.tensor(index).shape)
    if rank == IMAGE_RANK:
        return PLACE[axis % rank]
    return axis % rank


def _add_split(network: Network, operator: Operator) -> list[Any]:
    axis = _place_axis(
        network, operator.inputs[1], int(network.constant(operator.inputs[0]).reshape(-1)[0])
    )
    parts = Builder.split(
        x=network.value(operator.inputs[1]), num_splits=len(operator.outputs), axis=axis
    )
    if isinstance(parts, (list, tuple)):
        return list(parts)
    return [parts]


def _add_transposition(network: Network, operator: Operator) -> list[Any]:
    transposed = Builder.transpose(
        x=network.plain(operator.inputs[0]), perm=network.constant(operator.inputs[1])
    )
    return [_order_axes(transposed, len(network.tensor(operator.outputs[0]).shape))]


def _add_slice(network: Network, operator: Operator) -> list[Any]:
    """Add a slice.

    The description of an operator has no masks of open ends; the shape of the output tells them.
    """
    shape = network.tensor(operator.inputs[0]).shape
    section_shape = network.tensor(operator.outputs[0]).shape
    first, last, steps = (network.constant(index).tolist() for index in operator.inputs[1:])
    if len(section_shape) != len(shape) or len(first) != len(shape):
        raise UsageError(
            "--coreml: the model has a STRIDED_SLICE that drops or adds dimensions", "leave it out"
        )
    begin = []
    end = []
    for numbers in zip(shape, first, last, steps, section_shape, strict=True):
        begin_of_axis, end_of_axis = _ends_of(*numbers)
        begin.append(begin_of_axis)
        end.append(end_of_axis)
    section = Builder.slice_by_index(
        x=network.plain(operator.inputs[0]), begin=begin, end=end, stride=steps
    )
    return [_order_axes(section, len(section_shape))]


def _ends_of(side: int, first: int, last: int, step: int, count: int) -> tuple[int, int]:
    """Return the first and the last place of a slice of ``count`` values;
    an open end is that of the tensor.
    """
    for begin in (first % side, 0):
        for end in (last % side if last != side else side, side):
            if len(range(begin, end, step)) == count:
                return begin, end
    raise UsageError("--coreml: the model has a STRIDED_SLICE that runs backwards", "leave it out")


def _add_softmax(network: Network, operator: Operator) -> list[Any]:
    value = network.value(operator.inputs[0])
    beta = float(operator.options.get("beta", 1.0))
    scaled = value
    if beta != 1.0:
        scaled = Builder.mul(x=value, y=np.float32(beta))
    return [Builder.softmax(x=scaled, axis=_place_axis(network, operator.inputs[0], -1))]


def _add_function(make: Callable[[Any], Any], network: Network, operator: Operator) -> list[Any]:
    return [make(network.value(operator.inputs[0]))]


def _hard_swish(value: Any) -> Any:
    return Builder.mul(x=value, y=Builder.sigmoid_hard(x=value, alpha=1 / 6, beta=0.5))


@cache
def map_operators() -> Mapping[str, Callable[[Network, Operator], list[Any]]]:
    """Return the function that adds each operator to a network."""
    return {
        "ADD": partial(_add_combination, Builder.add),
        # TensorFlow averages only the values inside the image.
        "AVERAGE_POOL_2D": partial(
            _add_pool, partial(Builder.avg_pool, exclude_padding_from_average=True)
        ),
        "CONCATENATION": _add_concatenation,
        "CONV_2D": _add_convolution,
        "DEPTHWISE_CONV_2D": partial(_add_convolution, depthwise=True),
        "DIV": partial(_add_combination, Builder.real_div),
        "EXPAND_DIMS": _add_reshape,
        "FULLY_CONNECTED": _add_dense,
        "HARD_SWISH": partial(_add_function, _hard_swish),
        "LOGISTIC": partial(_add_function, lambda value: Builder.sigmoid(x=value)),
        "MAX_POOL_2D": partial(_add_pool, Builder.max_pool),
        "MEAN": partial(_add_reduction, Builder.reduce_mean),
        "MUL": partial(_add_combination, Builder.mul),
        "PAD": _add_padding,
        "PADV2": _add_padding,
        "RELU": partial(_add_function, lambda value: Builder.relu(x=value)),
        "RELU6": partial(_add_function, lambda value: Builder.relu6(x=value)),
        "RESHAPE": _add_reshape,
        "SOFTMAX": _add_softmax,
        "SPLIT": _add_split,
        "SQUEEZE": _add_reshape,
        "STRIDED_SLICE": _add_slice,
        "SUB": partial(_add_combination, Builder.sub),
        "TANH": partial(_add_function, lambda value: Builder.tanh(x=value)),
        "TRANSPOSE": _add_transposition,
    }


def write(
    data: bytes,
    labels: Sequence[str],
    mean: float,
    std: float,
    about: str,
    licence: str,
    folder: Path,
) -> None:
    """Write the package of a ``.tflite`` file of one image (1, S, S, 3), float32, that gives
    (1, classes).

    RGB values 0..255 less ``mean`` are divided by ``std``.

    Raises:
        UsageError: an operator is not translated.
    """
    model = read(to_float32(data))
    side = model.inputs[0].shape[1]
    shape = (1, 3, side, side)

    @Builder.program(input_specs=[Builder.TensorSpec(shape=shape)], opset_version=OLDEST)  # type: ignore[untyped-decorator,unused-ignore]
    def program(image: object) -> object:
        return Builder.identity(x=Network(model, image).run(), name="probabilities")

    # Core ML multiplies by the scale first, and then adds the bias.
    image = ct.ImageType(
        name="image", shape=shape, scale=1 / std, bias=[-mean / std] * 3, color_layout="RGB"
    )
    package = ct.convert(
        program,
        source="milinternal",
        convert_to="mlprogram",
        inputs=[image],
        classifier_config=ct.ClassifierConfig(list(labels)),
        minimum_deployment_target=OLDEST,
        compute_precision=ct.precision.FLOAT16,
        # Only macOS can load a package.
        skip_model_load=True,
    )
    package.short_description = f"{about}. {NOT_RUN}"
    package.license = licence
    package.input_description["image"] = f"RGB image, {side} x {side}"
    package.save(str(folder))
    specification = folder / "Data" / "com.apple.CoreML" / "model.mlmodel"
    saved = ct.proto.Model_pb2.Model()
    saved.ParseFromString(specification.read_bytes())
    # Without the date, the same run gives the same bytes.
    saved.description.metadata.userDefined.pop(_DATE, None)
    specification.write_bytes(saved.SerializeToString(deterministic=True))
