"""Change what a classifier's head answers: calibrated probabilities, its features, ``unknown``.

A search folds a temperature into the file that ships (:func:`with_temperature`), reads
features and logits of a file (:func:`with_probe`), and adds a last class for images of no
known class (:func:`with_unknown`; `engine/_pipeline/stages/unknown_jobs.py`).

A temperature divides the logits, inside the constants of the last linear layer. Source: C. Guo et
al., "On Calibration of Modern Neural Networks", ICML 2017, section 4.2. The option ``beta`` of
SOFTMAX would do the same, but XNNPACK takes only a beta of 1.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError
from advisor.tflite._heads import AFTER_SOFTMAX, describe_operator, find_head_ends, find_logits
from advisor.tflite._levels import FEATURES, PROBABILITIES
from advisor.tflite._metadata import Metadata
from advisor.tflite._model import guard_reader, open_model, text_of
from advisor.tflite._quantization import DEQUANTIZE_VERSIONS
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables, index_makers

_SCALED_INPUTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(AFTER_SOFTMAX, (0,)),
        "ADD": (0, 1),
        **dict.fromkeys(("CONV_2D", "FULLY_CONNECTED"), (1, 2)),
    }
)
"""The inputs of each operator that, divided by a number, divide its result by that number.

Of layers, they are the weights and the bias.
"""

_FLOATS: Mapping[int, str] = MappingProxyType(
    {schema.TensorType.FLOAT32: "<f4", schema.TensorType.FLOAT16: "<f2"}
)
_OPERATOR = schema.BuiltinOperator
_FLOAT32 = schema.TensorType.FLOAT32
_FLOAT16 = schema.TensorType.FLOAT16


def with_temperature(data: bytes, temperature: float, name: str = "the model") -> bytes:
    """Divide the logits of a classifier by ``temperature``, to calibrate its probabilities.

    The file keeps its operators, and so its latency. Float constants of the last linear layer are
    divided. Quantized constants and activations keep their integers, and their scales are divided.
    The class of the largest logit stays first, but integer probabilities (int8: steps of 1/256)
    tie more often at a temperature above 1. Labels and normalization are read and written again:
    every field of :class:`._metadata.Metadata`, and no other description.

    The classifier has one output, a softmax of a linear layer or of the sum of several; float or
    quantized. StageError is raised if it has no such head, if another operator reads a part of the
    head, if the temperature is not finite and positive, or if it takes a constant out of the range
    of its type.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise StageError(f"a temperature of {temperature} is not finite and positive")
    tables, value = open_model(data, name)
    metadata = Metadata.read_description(value, data, name)
    model = tables.make_editable()
    graph = model.subgraphs[0]
    with guard_reader(name):
        head = _find_head(model, graph, name)
    for index in head:
        _divide(model, graph.tensors[index], temperature)
    model.drop_unused_buffers()
    return metadata.write_tables(model, value) if metadata else model.pack()


def _find_head(model: Tables, graph: schema.SubGraphT, name: str) -> list[int]:
    """Return the tensors from the logits up to the constants of the linear layers."""
    makers = index_makers(graph)
    logits = find_logits(model, graph, makers, name)
    head = list[int]()
    waiting = [logits]
    read_in_head = Counter([logits])
    while waiting:
        index = waiting.pop()
        if index in head:
            continue
        head.append(index)
        if model.read_content(graph.tensors[index]) is None:
            inputs = _scale_inputs(model, makers.get(index), name)
            waiting += inputs
            read_in_head.update(inputs)
    # What the head shares with other outputs would change those too.
    readings = Counter[int]()
    for operator in graph.operators:
        readings.update(map(int, operator.inputs))
    for index in head:
        if readings[index] != read_in_head[index]:
            tensor = text_of(graph.tensors[index].name)
            raise StageError(
                f"{name}: '{tensor}' of the head has another reader, which a temperature would"
                " change"
            )
    return head


def _scale_inputs(model: Tables, operator: schema.OperatorT | None, name: str) -> list[int]:
    """Return the inputs to divide instead of the operator's result."""
    kind = describe_operator(model, operator)
    if operator is None or kind not in _SCALED_INPUTS:
        raise StageError(
            f"{name} has no linear layer before its SOFTMAX that a temperature fits: {kind} is in"
            " the way"
        )
    if getattr(operator.builtinOptions, "fusedActivationFunction", 0):
        raise StageError(
            f"{name}: the activation function of {kind} is in the way of a temperature"
        )
    inputs = []
    for place in _SCALED_INPUTS[kind]:
        # An optional input, such as the bias, may be missing, or have the index -1.
        if place < len(operator.inputs) and operator.inputs[place] >= 0:
            inputs.append(int(operator.inputs[place]))
    return inputs


def _divide(model: Tables, tensor: schema.TensorT, temperature: float) -> None:
    """Divide the real values of a tensor: the content of a float one, else the scale."""
    content = model.read_content(tensor)
    quantization = tensor.quantization
    name = text_of(tensor.name)
    if tensor.type in _FLOATS:
        if content is not None:
            values = np.frombuffer(content.tobytes(), _FLOATS[tensor.type])
            tensor.buffer = model.add_buffer(_divide_values(values, temperature, name).tobytes())
    elif quantization is None or quantization.scale is None or len(quantization.scale) == 0:
        raise StageError(
            f"'{name}' has neither float values nor a scale to divide by a temperature"
        )
    else:
        quantization.scale = _divide_values(
            np.asarray(quantization.scale, "<f4"), temperature, name
        )


def _divide_values(values: npt.NDArray[Any], temperature: float, name: str) -> npt.NDArray[Any]:
    # The check below says more than NumPy's warning.
    with np.errstate(over="ignore", under="ignore"):
        divided = (values.astype(np.float64) / temperature).astype(values.dtype)
    # A quotient too small for the type becomes 0: the logits would all be equal.
    if not np.isfinite(divided).all() or divided.any() != values.any():
        raise StageError(
            f"divided by a temperature of {temperature}, '{name}' is out of the range of"
            f" {values.dtype}"
        )
    return divided


class _HeadEdit:
    """One change of a classifier, which adds operators with the results ``unknown/<number>``."""

    def __init__(self, data: bytes, name: str) -> None:
        self._model = unpack(data, name)
        graph, signature = self._model.find_single_graph()
        self.graph = graph
        self._signature = signature
        self._name = name

    def find_ends(self) -> tuple[list[int], int]:
        with guard_reader(self._name):
            return find_head_ends(self._model, self.graph, self._name)

    def finish_file(self, output: str, tensor: int) -> bytes:
        self._model.replace_signature(
            self.graph, self._signature.inputs[0].name.decode(), {output: tensor}
        )
        self._model.prune_tensors(self.graph)
        return self._model.pack()

    def append_operator(
        self,
        builtin: int,
        inputs: Sequence[int],
        shape: Iterable[int],
        options: object = None,
        version: int = 1,
    ) -> int:
        name = f"unknown/{len(self.graph.tensors)}"
        return self._model.append_operator(
            self.graph, builtin, inputs, name, shape, options, version
        )

    def append_constant(self, name: str, values: npt.NDArray[Any], kind: int) -> int:
        return self._model.add_tensor(
            self.graph, f"unknown/{name}", values.shape, kind, values.tobytes()
        )

    def append_linear(
        self,
        source: int,
        kernel: npt.NDArray[Any],
        bias: npt.NDArray[Any],
        dtype: str = "<f2",
    ) -> int:
        """Add a linear layer whose kernel (out, in) is kept as ``dtype``; return its result."""
        name = f"{len(self.graph.tensors)}"
        kind = _FLOAT16 if dtype == "<f2" else _FLOAT32
        full = self.as_float(self.append_constant(f"{name}/kernel", kernel.astype(dtype), kind))
        inputs = [source, full, self.append_constant(f"{name}/bias", bias.astype("<f4"), _FLOAT32)]
        return self.append_operator(
            _OPERATOR.FULLY_CONNECTED, inputs, (1, len(bias)), schema.FullyConnectedOptionsT()
        )

    def as_float(self, index: int) -> int:
        """Return the tensor, or a new one with its float32 values if it is quantized."""
        tensor = self.graph.tensors[index]
        if tensor.type == _FLOAT32:
            return index
        if tensor.type not in DEQUANTIZE_VERSIONS:
            raise StageError(f"'{text_of(tensor.name)}' has no float32 values")
        return self.append_operator(
            _OPERATOR.DEQUANTIZE, [index], tensor.shape, version=DEQUANTIZE_VERSIONS[tensor.type]
        )

    def join_values(self, parts: Sequence[int]) -> int:
        """Return the tensor of some vectors (1, N) after each other, in float32."""
        floats = list(map(self.as_float, parts))
        if len(floats) == 1:
            return floats[0]
        shape = (1, sum(map(self.read_width, floats)))
        return self.append_operator(
            _OPERATOR.CONCATENATION, floats, shape, schema.ConcatenationOptionsT(axis=1)
        )

    def read_width(self, index: int) -> int:
        shape = self.graph.tensors[index].shape
        if shape is None or len(shape) != 2 or shape[0] != 1:
            raise StageError("features and logits need the shape (1, N)")
        return int(shape[1])


def with_probe(data: bytes, name: str = "the model", logits: bool = True) -> bytes:
    """Return the classifier with one float32 output, features and then logits, (1, F + C).

    The output is called ``features``. Without ``logits``, it gives the features alone, (1, F):
    files of equal bytes compute the same features.

    Its head is a linear layer, or the sum of several, and a softmax; float or quantized. The
    features are the inputs of the layers, in their order.
    """
    edit = _HeadEdit(data, name)
    features, scores = edit.find_ends()
    return edit.finish_file(
        FEATURES, edit.join_values((*features, scores) if logits else features)
    )


def head_layers(data: bytes, name: str = "the model") -> int:
    """Return the number of linear layers in a classifier's head."""
    model = unpack(data, name)
    with guard_reader(name):
        return len(find_head_ends(model, model.subgraphs[0], name)[0])


def with_unknown(
    data: bytes,
    axes: npt.NDArray[np.floating],
    images: npt.NDArray[np.floating],
    weight: float,
    offset: float,
    name: str = "the model",
) -> bytes:
    """Give a classifier a last class whose logit is ``offset - weight * similarity``.

    The similarity is the largest entry of ``features @ axes @ images``, where the features are all
    that the linear layers of the head read, divided by their length. The known logits stay, and
    the softmax is computed in float32 over all. The classifier is one for :func:`with_probe` with
    float32 output (1, C). The axes (F, R) and the images (R, N) are kept as float16.
    """
    edit = _HeadEdit(data, name)
    if edit.graph.tensors[edit.graph.outputs[0]].type != _FLOAT32:
        raise StageError(f"{name}: a class 'unknown' needs a float32 output")
    layers, scores = edit.find_ends()
    features = edit.join_values(layers)
    logits = edit.as_float(scores)
    if edit.read_width(features) != axes.shape[0] or axes.shape[1] != images.shape[0]:
        raise StageError(
            f"{name}: neighbours of {axes.shape} and {images.shape} do not fit"
            f" {edit.read_width(features)}"
        )
    rank, count = images.shape
    classes = edit.read_width(logits) + 1
    unit = edit.append_operator(
        _OPERATOR.L2_NORMALIZATION, [features], (1, len(axes)), schema.L2NormOptionsT()
    )
    # Two thin layers in place of their product (F, N), which would be far larger in the file.
    coordinates = edit.append_linear(unit, axes.T, np.zeros(rank))
    similarities = edit.append_linear(coordinates, images.T, np.zeros(count))
    axis = edit.append_constant("axis", np.array([1], "<i4"), schema.TensorType.INT32)
    nearest = edit.append_operator(
        _OPERATOR.REDUCE_MAX, [similarities, axis], (1, 1), schema.ReducerOptionsT(keepDims=True)
    )
    unknown = edit.append_linear(nearest, np.array([[-weight]]), np.array([offset]), "<f4")
    joined = edit.join_values((logits, unknown))
    output = edit.append_operator(
        _OPERATOR.SOFTMAX, [joined], (1, classes), schema.SoftmaxOptionsT(beta=1.0)
    )
    return edit.finish_file(PROBABILITIES, output)
