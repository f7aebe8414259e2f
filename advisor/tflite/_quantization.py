"""Change the types of a file's inputs, outputs and constants; quantize values for a run.

:func:`quantize` and :func:`dequantize` turn values into those of a tensor as a runtime describes
it; whoever runs a file calls them. The edits make files that more clients take: float inputs
(:func:`to_float_io`), a normalization inside (:func:`fold_normalization`), float16 weights
(:func:`to_float16`, the recipe ``float16``), a batch of one (:func:`with_fixed_batch`). Other
bytes for equal inputs need a new version of the recipe or stage that calls the edit
(``docs/extend-stages.md``, "Which version to raise").
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.core import StageError, UnsupportedRecipe
from advisor.tflite._model import text_of
from advisor.tflite._rewrite import (
    unpack,
)
from advisor.tflite._tables import Tables

_OPERATOR = schema.BuiltinOperator
_FLOAT32 = schema.TensorType.FLOAT32
_FLOAT16 = schema.TensorType.FLOAT16
_INDICES = (schema.TensorType.INT32, schema.TensorType.INT64, schema.TensorType.BOOL)

# The version of each operator that first took the type (TensorFlow Lite's
# tools/versioning/op_version.cc).
_QUANTIZE_VERSIONS: Mapping[int, int] = MappingProxyType(
    {schema.TensorType.INT8: 1, schema.TensorType.UINT8: 1, schema.TensorType.INT16: 2}
)
DEQUANTIZE_VERSIONS: Mapping[int, int] = MappingProxyType(
    {
        schema.TensorType.UINT8: 1,
        schema.TensorType.INT8: 2,
        schema.TensorType.INT16: 3,
        _FLOAT16: 3,
    }
)
"""The version of DEQUANTIZE that first took the type."""

IN_FLOAT = "advisor_in_float"
"""Part of the name of a tensor that stays float where activations are quantized.

All that follows it stays float, too: squares of 8 bits lose small values. The task ``anomaly``
names a layer so, and ``compression/_quantization/quantizer.py`` looks for the name.
"""

_MAX_FLOAT16 = 65504.0
"""The largest finite float16; larger constants are clamped to it, as the converter does."""

_MIN_RUNTIME = (b"min_runtime_version", (1, 15, 0))
"""The first TensorFlow Lite whose DEQUANTIZE takes float16, in the converter's format."""

_REDUCED_PRECISION = (b"reduced_precision_support", b"fp16accfp32")
"""The converter's entry that allows a runtime to compute in float16 and accumulate in float32."""


def quantize(values: NDArray[np.float32], detail: dict[str, Any]) -> NDArray[Any]:
    """Return ``values`` in the type of a tensor, quantized if that is an integer type.

    ``detail`` describes the tensor, as the interpreter of LiteRT gives it.
    """
    kind = np.dtype(detail["dtype"])
    scale, zero_point = detail["quantization"]
    if kind.kind not in "iu":
        return values.astype(kind)
    span = np.iinfo(kind)
    # A scale of 0 means that the tensor is not quantized, such as one of class numbers.
    steps = np.rint(values / scale) + zero_point if scale else np.rint(values)
    return np.clip(steps, span.min, span.max).astype(kind)


def dequantize(values: NDArray[Any], detail: dict[str, Any]) -> NDArray[np.float32]:
    """Return a tensor's values as float32."""
    scale, zero_point = detail["quantization"]
    if values.dtype.kind not in "iu" or not scale:
        return values.astype(np.float32)
    return ((values.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)).astype(
        np.float32
    )


def to_float_io(data: bytes) -> bytes:
    """Give a quantized model float32 inputs and outputs.

    A QUANTIZE operator comes first and a DEQUANTIZE last. The values are those that a client
    would get that quantizes and dequantizes by itself. MediaPipe (1.2.2) takes float32 and uint8
    inputs, but refuses the int8 and int16 that ai-edge-quantizer gives. Inputs and outputs that
    are float32 already stay as they are. Files with several subgraphs, or inputs of another
    type, are refused.
    """
    model = unpack(data)
    take_floats(model)
    return model.pack()


def take_floats(model: Tables) -> None:
    """Do to the tables of a file what :func:`to_float_io` does to a file."""
    if len(model.subgraphs) != 1 or len(model.signatureDefs) > 1:
        raise StageError("the model has several subgraphs or signatures, and one can be edited")
    graph = model.subgraphs[0]
    signature = next(iter(model.signatureDefs), schema.SignatureDefT())
    first = []
    last = []
    for place, stored in enumerate(graph.inputs):
        version = _find_version(graph.tensors[stored], _QUANTIZE_VERSIONS)
        if version:
            graph.inputs[place] = floats = model.add_float_stand_in(
                graph, stored, signature.inputs
            )
            first.append(
                model.make_operator(_OPERATOR.QUANTIZE, [floats], stored, version=version)
            )
    for place, stored in enumerate(graph.outputs):
        version = _find_version(graph.tensors[stored], DEQUANTIZE_VERSIONS)
        if version:
            graph.outputs[place] = floats = model.add_float_stand_in(
                graph, stored, signature.outputs
            )
            last.append(
                model.make_operator(_OPERATOR.DEQUANTIZE, [stored], floats, version=version)
            )
    graph.operators = [*first, *graph.operators, *last]


def _find_version(tensor: schema.TensorT, versions: Mapping[int, int]) -> int:
    """Return the operator's version for the tensor's type, 0 for float32 and for indices."""
    scales = None if tensor.quantization is None else tensor.quantization.scale
    if tensor.type == _FLOAT32 or (tensor.type in _INDICES and scales is None):
        return 0
    if tensor.type not in versions or scales is None or len(scales) != 1:
        raise StageError(
            f"'{text_of(tensor.name)}' is neither float32 nor quantized per tensor to 8 or 16 bits"
        )
    return versions[tensor.type]


def with_fixed_batch(data: bytes, name: str = "the model") -> bytes:
    """Return a file whose open batch dimension is fixed to one image.

    A file without one is returned as it is. Exports state the batch as -1 beside a shape that says
    1, and runtimes take 1. A file with an open side of the image stays as it is, too.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    stated = [graph.tensors[index].shapeSignature for index in graph.inputs]
    sides = []
    for shape in stated:
        if shape is not None and len(shape):
            sides.append(np.asarray(shape))
    if not any(shape[0] < 1 for shape in sides) or any((shape[1:] < 1).any() for shape in sides):
        return data
    for tensor in graph.tensors:
        tensor.shapeSignature = None
        if tensor.shape is not None and len(tensor.shape) and tensor.shape[0] < 1:
            tensor.shape = [1, *tensor.shape[1:]]
    return model.pack()


def fold_normalization(model: Tables, mean: Sequence[float], std: Sequence[float]) -> None:
    """Normalize the input inside the model, which then takes raw values (0..255).

    The model has one float32 input, of normalized values. A MUL and an ADD operator go first,
    between two RESHAPE. Needed where ``mean`` or ``std`` differ by channel: MediaPipe (1.2.2)
    refuses such a normalization. The mean is subtracted, and the difference divided by
    ``std``, one number a channel of the image (1, H, W, C). Describe the result with mean 0
    and deviation 1.

    A row of the image is one vector there: with vectors of C = 3 numbers, XNNPACK took ten
    times as long.
    """
    graph, signature = model.find_single_graph()
    tensors = [graph.tensors[index] for index in graph.inputs]
    if (
        len(tensors) != 1
        or tensors[0].type != _FLOAT32
        or tensors[0].shape is None
        or len(tensors[0].shape) != 4
    ):
        raise StageError(
            "normalization can go inside a model of one float32 image input, and this is not one"
        )
    normalized = int(graph.inputs[0])
    count, height, width, channels = map(int, tensors[0].shape)
    rows = count, height, 1, width * channels
    image = model.add_float_stand_in(graph, normalized, signature.inputs, "image_values")
    flat = model.add_tensor(graph, "normalization/rows", rows, _FLOAT32)
    scaled = model.add_tensor(graph, "normalization/scaled", rows, _FLOAT32)
    shifted = model.add_tensor(graph, "normalization/shifted", rows, _FLOAT32)
    scale_bytes, shift_bytes = _encode_affine(mean, std, channels)
    # A row holds the channels of all its pixels, so their numbers are repeated for each pixel.
    factor = model.add_tensor(
        graph, "normalization/scale", rows[-1:], _FLOAT32, width * scale_bytes
    )
    offset = model.add_tensor(
        graph, "normalization/shift", rows[-1:], _FLOAT32, width * shift_bytes
    )
    graph.operators = [
        _new_reshape(model, graph, image, flat, rows),
        model.make_operator(_OPERATOR.MUL, [flat, factor], scaled, schema.MulOptionsT()),
        model.make_operator(_OPERATOR.ADD, [scaled, offset], shifted, schema.AddOptionsT()),
        _new_reshape(model, graph, shifted, normalized, (count, height, width, channels)),
        *graph.operators,
    ]
    graph.inputs = [image]


def _new_reshape(
    model: Tables,
    graph: schema.SubGraphT,
    values: int,
    result: int,
    shape: Sequence[int],
) -> schema.OperatorT:
    content = np.asarray(shape, "<i4").tobytes()
    stated = model.add_tensor(
        graph, "normalization/shape", (len(shape),), schema.TensorType.INT32, content
    )
    return model.make_operator(
        _OPERATOR.RESHAPE, [values, stated], result, schema.ReshapeOptionsT(list(shape))
    )


def _encode_affine(
    mean: Sequence[float], std: Sequence[float], channels: int
) -> tuple[bytes, bytes]:
    """Return factor and summand of (value - mean) / std as float32, computed in float64."""
    means = np.asarray(mean, np.float64)
    deviations = np.asarray(std, np.float64)
    if means.shape != (channels,) or deviations.shape != (channels,):
        raise StageError(
            f"a normalization by {tuple(mean)} and {tuple(std)} does not fit {channels} channels"
        )
    if not np.isfinite(means).all() or not (np.isfinite(deviations) & (deviations > 0)).all():
        raise StageError(
            f"a normalization by {tuple(mean)} and {tuple(std)} is not finite and positive"
        )
    return (1 / deviations).astype("<f4").tobytes(), (-means / deviations).astype("<f4").tobytes()


def to_float16(data: bytes) -> bytes:
    """Store every float32 constant that an operator reads as float16, before a DEQUANTIZE.

    The rules are those of the TensorFlow Lite converter with ``supported_types = [tf.float16]``:
    constants of every size and every operator, one DEQUANTIZE for a constant whatever the number
    of its readers, values beyond the range of float16 clamped, a constant that is itself an output
    of the graph left alone. Runtimes expand the constants once, when they load the file.
    UnsupportedRecipe is raised if no operator reads a float32 constant.
    """
    model = unpack(data)
    if sum(_store_constants(model, graph) for graph in model.subgraphs) == 0:
        raise UnsupportedRecipe("the model has no float32 constants to store as float16")
    model.add_metadata(*_REDUCED_PRECISION)
    _raise_min_runtime(model)
    model.drop_unused_buffers()
    return model.pack()


def _store_constants(model: Tables, graph: schema.SubGraphT) -> int:
    """Let readers of float32 constants read their expanded float16 form.

    Return the number of constants.
    """
    expanded: dict[int, int] = {}
    added: list[schema.OperatorT] = []
    for operator in graph.operators:
        for place, index in enumerate(operator.inputs):
            is_new = index >= 0 and index not in expanded
            if is_new and _is_float_constant(model, graph.tensors[index]):
                added.append(_halve_constant(model, graph, index))
                expanded[index] = added[-1].outputs[0]
            operator.inputs[place] = expanded.get(index, index)
    graph.operators = added + graph.operators
    return len(expanded)


def _is_float_constant(model: Tables, tensor: schema.TensorT) -> bool:
    plain = tensor.type == _FLOAT32 and tensor.sparsity is None and not tensor.isVariable
    return plain and model.read_content(tensor) is not None


def _halve_constant(model: Tables, graph: schema.SubGraphT, index: int) -> schema.OperatorT:
    """Convert constant ``index`` to float16; return the operator that expands it again."""
    constant = graph.tensors[index]
    values: NDArray[np.float32] = np.frombuffer(
        model.read_content(constant).tobytes(), dtype="<f4"
    )
    half = np.clip(values, -_MAX_FLOAT16, _MAX_FLOAT16).astype("<f2").tobytes()
    if index in graph.outputs:
        index = model.add_tensor(graph, constant.name, constant.shape, _FLOAT16, half)
    else:
        constant.type = _FLOAT16
        constant.buffer = model.add_buffer(half)
    output = model.add_tensor(
        graph, (constant.name or b"constant") + b"_float32", constant.shape, _FLOAT32
    )
    return model.make_operator(
        _OPERATOR.DEQUANTIZE, [index], output, version=DEQUANTIZE_VERSIONS[_FLOAT16]
    )


def _raise_min_runtime(model: Tables) -> None:
    """Raise the oldest runtime that the file states, if any, to one with this DEQUANTIZE."""
    name, needed = _MIN_RUNTIME
    for entry in model.metadata:
        content = model.buffers[entry.buffer].data
        if entry.name != name or content is None:
            continue
        parts = bytes(content).rstrip(b"\0").split(b".")
        if all(part.isdigit() for part in parts) and tuple(map(int, parts)) < needed:
            text = ".".join(map(str, needed)).encode()
            entry.buffer = model.add_buffer(text.ljust(len(content), b"\0"))
