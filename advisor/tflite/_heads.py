"""Find the head of a classifier in a file, read its weights, and replace them.

The head is a linear layer, or the sum of several, and a softmax or sigmoids, as
:func:`advisor.tflite.attach_head` makes it; float or quantized. A search replaces the head of an
int8 file by one that fits the features of its int8 backbone
(`engine/_pipeline/stages/adjusting_jobs.py`), and a tagger reads it. Operators and shapes stay, so
the measured latency of the file stays valid. `_unknown.py` finds heads with the same functions.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.core import StageError
from advisor.tflite._metadata import Metadata
from advisor.tflite._model import guard_reader, open_model, text_of
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables, index_makers

Floats = npt.NDArray[np.float32]
Rounding = Callable[[Floats, Floats, bool], npt.NDArray[np.floating]]
"""Rounds a kernel (F, C) to 8-bit steps for inputs (N, F).

The last argument says whether each of the C channels has a step, or one step is for all.
"""

# Operators that make probabilities of logits: of one class, or of several labels.
_ENDS = frozenset({"SOFTMAX", "LOGISTIC"})
AFTER_SOFTMAX = frozenset({"DEQUANTIZE", "QUANTIZE", "RESHAPE"})
_IN_HEAD = frozenset({"FULLY_CONNECTED", "ADD", *AFTER_SOFTMAX})
_INPUT = "the model's input"
_TYPES = schema.TensorType
_INTEGERS: Mapping[int, str] = MappingProxyType(
    {_TYPES.INT8: "i1", _TYPES.INT16: "<i2", _TYPES.INT32: "<i4", _TYPES.INT64: "<i8"}
)
# Step of a layer whose weights, or results, are all 0.
_LEAST_STEP = 1e-8


def find_logits(
    model: Tables,
    graph: schema.SubGraphT,
    makers: Mapping[int, schema.OperatorT],
    name: str,
) -> int:
    """Return the tensor of the logits: the input of the SOFTMAX or LOGISTIC that ends the graph.

    ``makers`` has the operator that makes each tensor. StageError is raised if the graph has
    several outputs or ends in another operator.
    """
    graphs = len(model.subgraphs)
    outputs = len(graph.outputs)
    if (graphs, outputs) != (1, 1):
        raise StageError(
            f"{name} has {graphs} graphs and {outputs} outputs, and a temperature needs 1 of each"
        )
    index = int(graph.outputs[0])
    kind = _INPUT
    # At most as many steps as operators: a damaged graph may have a cycle.
    for _ in graph.operators:
        kind = describe_operator(model, makers.get(index))
        if kind not in _ENDS and kind not in AFTER_SOFTMAX:
            break
        index = int(makers[index].inputs[0])
        if kind in _ENDS:
            return index
    raise StageError(f"{name} ends in {kind}, and a temperature needs a SOFTMAX there")


def describe_operator(model: Tables, operator: schema.OperatorT | None) -> str:
    if operator is None:
        return _INPUT
    return model.name_operator(operator) or "an unknown operator"


def find_head_ends(model: Tables, graph: schema.SubGraphT, name: str) -> tuple[list[int], int]:
    """Return the tensors that the linear layers of the head read, and the one of the logits."""
    layers, logits = _find_layers(model, graph, name)
    return [int(layer.inputs[0]) for layer in layers], logits


def _find_layers(
    model: Tables, graph: schema.SubGraphT, name: str
) -> tuple[list[schema.OperatorT], int]:
    """Return the linear layers of the head, in the order of the features, and the logits."""
    makers = index_makers(graph)
    logits = find_logits(model, graph, makers, name)
    layers = list[schema.OperatorT]()
    waiting = [logits]
    # At most as many steps as operators: a damaged graph may have a cycle.
    for _ in graph.operators:
        if not waiting:
            break
        maker = makers.get(waiting.pop())
        kind = _INPUT if maker is None else model.name_operator(maker)
        if maker is None or kind not in _IN_HEAD:
            raise StageError(
                f"{name} has no linear layer before its SOFTMAX: {kind} is in the way"
            )
        if kind == "FULLY_CONNECTED":
            layers.append(maker)
        else:
            summands = maker.inputs[:2] if kind == "ADD" else maker.inputs[:1]
            # Reversed, because the list is read from its end:
            # layers then come in the order of the features.
            waiting += list(map(int, reversed(summands)))
    return layers, logits


def read_head(data: bytes, name: str = "the model") -> tuple[Floats, Floats]:
    """Return the weights (F, C) and the bias (C,) of a classifier's head, dequantized.

    The F features are those that ``with_probe`` gives.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    with guard_reader(name):
        layers, _ = _find_layers(model, graph, name)
        weights = [_read_real_values(model, graph.tensors[layer.inputs[1]]) for layer in layers]
        biases = [_read_real_values(model, graph.tensors[layer.inputs[2]]) for layer in layers]
    return np.concatenate(weights, axis=1).T, np.asarray(np.sum(biases, axis=0, dtype=np.float32))


def with_head(
    data: bytes,
    weights: Floats,
    bias: Floats,
    rows: Floats,
    rounding: Rounding,
    name: str = "the model",
) -> bytes:
    """Replace the head of a classifier by weights (F, C) and a bias (C,).

    Its operators, and so its latency, stay. ``rows`` are features (N, F) of images as the file
    computes them, see :func:`advisor.tflite.with_probe`. An integer layer keeps its granularity
    and gets new steps: of the weights by ``rounding``, whose mean error goes into the bias, and of
    its results by their range on the rows. StageError is raised if the shapes do not fit, a value
    is not finite, or the weights are kept in another type than float32 and int8.
    """
    tables, value = open_model(data, name)
    metadata = Metadata.read_description(value, data, name)
    model = tables.make_editable()
    graph = model.subgraphs[0]
    results = dict[int, Floats]()
    start = 0
    with guard_reader(name):
        layers, logits = _find_layers(model, graph, name)
        widths = [int(graph.tensors[layer.inputs[1]].shape[1]) for layer in layers]
        classes = int(graph.tensors[logits].shape[-1])
        shapes = (weights.shape, bias.shape, rows.shape[1:])
        if shapes != ((sum(widths), classes), (classes,), (sum(widths),)) or not len(rows):
            raise StageError(
                f"{name}: a head of {shapes[:2]} does not fit {sum(widths)} features of {classes}"
                " classes"
            )
        if not all(np.isfinite(array).all() for array in (weights, bias, rows)):
            raise StageError(f"{name}: the values of the new head are not finite")
        for layer, width in zip(layers, widths, strict=True):
            columns = slice(start, start + width)
            # The layers are summed, so one of them has the whole bias.
            shift = np.zeros_like(bias) if start else bias
            activations = _write_layer(
                model, graph, layer, weights[columns], shift, rows[:, columns], rounding
            )
            results[int(layer.outputs[0])] = activations
            start += width
        _add_later_results(model, graph, results)
        for index, activations in results.items():
            _set_range(graph.tensors[index], activations)
    model.drop_unused_buffers()
    return metadata.write_tables(model, value) if metadata else model.pack()


def _add_later_results(model: Tables, graph: schema.SubGraphT, results: dict[int, Floats]) -> None:
    """Add the results of the sums and changes of form behind the layers to ``results``."""
    for operator in graph.operators:
        sources = [results.get(int(index)) for index in operator.inputs[:2]]
        in_head = model.name_operator(operator) in _IN_HEAD
        if not in_head or any(source is None for source in sources[:1]):
            continue
        summands = [source for source in sources if source is not None]
        results[int(operator.outputs[0])] = np.asarray(sum(summands))


def _read_real_values(model: Tables, tensor: schema.TensorT) -> Floats:
    """Return the real values of a constant of float32 or of integers of whole bytes.

    StageError is raised for another type.
    """
    content = model.read_content(tensor)
    if content is None or tensor.type not in (_TYPES.FLOAT32, *_INTEGERS):
        raise StageError(
            f"'{text_of(tensor.name)}' of the head is no constant of float32 or whole bytes"
        )
    values = np.frombuffer(content.tobytes(), _INTEGERS.get(tensor.type, "<f4")).reshape(
        tensor.shape
    )
    if tensor.type == _TYPES.FLOAT32:
        return np.asarray(values, np.float32)
    steps = np.asarray(tensor.quantization.scale, np.float32)
    # A kernel has a step for each of its rows, or one for all;
    # a bias has one for each of its values.
    if values.ndim == 2 and len(steps) > 1:
        steps = steps[:, None]
    return np.asarray(values * steps, np.float32)


def _write_layer(
    model: Tables,
    graph: schema.SubGraphT,
    layer: schema.OperatorT,
    weights: Floats,
    shift: Floats,
    rows: Floats,
    rounding: Rounding,
) -> Floats:
    """Replace kernel and bias of a linear layer, in the types that it has.

    Return its results (N, C) on rows (N, F).
    """
    source, kernel, bias = (graph.tensors[index] for index in layer.inputs)
    # This call refuses a kernel that cannot be read.
    _read_real_values(model, kernel)
    if kernel.type == _TYPES.FLOAT32:
        kernel.buffer = model.add_buffer(np.ascontiguousarray(weights.T, "<f4").tobytes())
        bias.buffer = model.add_buffer(shift.astype("<f4").tobytes())
        return rows @ weights + shift
    if kernel.type != _TYPES.INT8:
        raise StageError(f"'{text_of(kernel.name)}' of the head is not int8")
    per_channel = len(kernel.quantization.scale) > 1
    rounded = rounding(weights, rows, per_channel)
    mean_error = rows.mean(axis=0) @ (weights - rounded)
    shift = (shift + mean_error).astype(np.float32)
    # The rounded weights fill their steps by construction, so the step is read back from them.
    largest = np.abs(rounded).max(axis=0 if per_channel else None).reshape(-1)
    steps = np.maximum(largest / 127, _LEAST_STEP).astype("<f4")
    kernel.quantization.scale = steps
    integers = np.rint(rounded.T / steps[:, None]).clip(-127, 127)
    kernel.buffer = model.add_buffer(integers.astype("i1").tobytes())
    if bias.type == _TYPES.FLOAT32:
        bias.buffer = model.add_buffer(shift.astype("<f4").tobytes())
    else:
        # Kernels add the bias to sums of products, so its step is the product of the two steps.
        bias_steps = (steps * np.float32(source.quantization.scale[0])).astype("<f4")
        bias.quantization.scale = bias_steps
        limits = np.iinfo(_INTEGERS[bias.type])
        # float32 holds 24 bits, and a bias may need all of its 32.
        integers = np.rint(shift.astype(np.float64) / bias_steps).clip(limits.min, limits.max)
        bias.buffer = model.add_buffer(integers.astype(_INTEGERS[bias.type]).tobytes())
    return np.asarray(rows @ rounded + shift, np.float32)


def _set_range(tensor: schema.TensorT, values: Floats) -> None:
    """Give an integer activation the steps that hold these values; a float one stays as it is."""
    if tensor.type not in (_TYPES.INT8, _TYPES.INT16):
        return
    low = min(float(values.min()), 0.0)
    high = max(float(values.max()), 0.0)
    if tensor.type == _TYPES.INT16:
        # Symmetric, as kernels need it.
        step = max(-low, high) / 32767
        zero = 0
    else:
        step = max(high - low, 255 * _LEAST_STEP) / 255
        zero = round(-128 - low / step)
    tensor.quantization.scale = np.asarray([max(step, _LEAST_STEP)], "<f4")
    tensor.quantization.zeroPoint = np.asarray([zero], "<i8")
