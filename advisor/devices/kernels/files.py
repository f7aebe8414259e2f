"""Make ``.tflite`` files of one operator, to be timed: random weights, and made-up ranges for 8-bit integers."""

import contextlib
import io
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import ArrayLike, NDArray

from advisor.tflite.macs import CONVOLUTION, DENSE, DEPTHWISE, Work
from advisor.tflite.model import read
from advisor.tflite.rewrite import add_tensor, new_operator, pack, sign

_RELU6 = schema.ActivationFunctionType.RELU6
_SEED = 17
_RANGE = 6.0
"""Made-up range of every activation; the latency does not depend on it."""


class _Graph:
    """A file under construction: a main graph with one input."""

    def __init__(self) -> None:
        self.model = schema.ModelT(version=3, operatorCodes=[], buffers=[schema.BufferT()], metadata=[])
        self.graph = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=b"main")
        self.model.subgraphs = [self.graph]
        self._random = np.random.default_rng(_SEED)
        self._weights: dict[tuple[int, ...], int] = {}

    def tensor(self, *shape: int) -> int:
        return add_tensor(self.model, self.graph, f"t{len(self.graph.tensors)}", shape, schema.TensorType.FLOAT32)

    def weights(self, *shape: int) -> int:
        """Return random weights, the same ones for every copy: a runtime packs weights anew for each operator."""
        if shape not in self._weights:
            content = (self._random.standard_normal(shape) / math.sqrt(max(1, math.prod(shape[1:])))).astype("<f4")
            self._weights[shape] = self._constant(content, schema.TensorType.FLOAT32)
        return self._weights[shape]

    def integers(self, values: ArrayLike) -> int:
        return self._constant(np.asarray(values, "<i4"), schema.TensorType.INT32)

    def _constant(self, content: NDArray[np.generic], dtype: int) -> int:
        name = f"c{len(self.graph.tensors)}"
        return add_tensor(self.model, self.graph, name, content.shape, dtype, content.tobytes())

    def operator(self, kind: str, inputs: list[int], shape: tuple[int, ...], options: object = None) -> int:
        output = self.tensor(*shape)
        code = getattr(schema.BuiltinOperator, kind)
        self.graph.operators.append(new_operator(self.model, code, inputs, output, options))
        return output


def kernel_file(work: Work, copies: int = 1) -> bytes:
    """Return a float32 file that runs an operator on one input.

    Args:
        work: the operator; its output is square.
        copies: number of equal operators with weights of their own.
    """
    made = _Graph()
    source = made.tensor(*_input_shape(work))
    build = _BUILDERS.get(work.kind, _elementwise)
    outputs = [build(made, work, source) for _ in range(copies)]
    made.graph.inputs = [source]
    sign(made.model, made.graph, "x", {f"y{place}": output for place, output in enumerate(outputs)})
    return pack(made.model)


def as_int8(data: bytes) -> bytes:
    """Return a float file with 8-bit weights and activations as the recipe ``int8`` makes it, with made-up ranges."""
    from ai_edge_quantizer import quantizer, recipe

    model = read(data)
    low, high = np.float32(-_RANGE), np.float32(_RANGE)
    ranges = {
        tensor.name: {"min": np.full((1,) * len(tensor.shape), low), "max": np.full((1,) * len(tensor.shape), high)}
        for tensor in model.tensors
        if not tensor.is_constant and tensor.dtype == "float32"
    }
    with contextlib.redirect_stderr(io.StringIO()):
        tool = quantizer.Quantizer(data)
        tool.load_quantization_recipe(recipe.static_wi8_ai8())
        result = tool.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)


def _side(work: Work) -> int:
    return math.isqrt(work.pixels)


def _input_shape(work: Work) -> tuple[int, ...]:
    side = _side(work)
    match work.kind:
        case "FULLY_CONNECTED":
            return 1, work.depth
        case "CONV_2D":
            return 1, side * work.stride, side * work.stride, work.depth
        case "SOFTMAX":
            return 1, work.channels
        case "TRANSPOSE":
            return 1, side, side, 2, work.channels // 2
        case "PAD":
            return 1, side - 2, side - 2, work.channels
        case "CONCATENATION":
            return 1, side, side, work.channels // 2
        case "MEAN":
            side = math.isqrt(work.read // work.channels)
            return 1, side, side, work.channels
    return 1, side * work.stride, side * work.stride, work.channels


def _output_shape(work: Work) -> tuple[int, ...]:
    return 1, _side(work), _side(work), work.channels


def _window(work: Work) -> tuple[int, int]:
    side = math.isqrt(work.taps)
    return (side, side) if side**2 == work.taps else (1, work.taps)


def _convolution(made: _Graph, work: Work, source: int) -> int:
    inputs = [source, made.weights(work.channels, *_window(work), work.depth), made.weights(work.channels)]
    options = schema.Conv2DOptionsT(strideW=work.stride, strideH=work.stride, fusedActivationFunction=_RELU6)
    return made.operator(work.kind, inputs, _output_shape(work), options)


def _depthwise(made: _Graph, work: Work, source: int) -> int:
    inputs = [source, made.weights(1, *_window(work), work.channels), made.weights(work.channels)]
    options = schema.DepthwiseConv2DOptionsT(
        strideW=work.stride, strideH=work.stride, depthMultiplier=1, fusedActivationFunction=_RELU6
    )
    return made.operator(work.kind, inputs, _output_shape(work), options)


def _dense(made: _Graph, work: Work, source: int) -> int:
    inputs = [source, made.weights(work.channels, work.depth), made.weights(work.channels)]
    return made.operator(work.kind, inputs, (1, work.channels), schema.FullyConnectedOptionsT())


def _pool(made: _Graph, work: Work, source: int) -> int:
    height, width = _window(work)
    options = schema.Pool2DOptionsT(strideW=work.stride, strideH=work.stride, filterHeight=height, filterWidth=width)
    return made.operator(work.kind, [source], _output_shape(work), options)


def _mean(made: _Graph, work: Work, source: int) -> int:
    return made.operator(work.kind, [source, made.integers([1, 2])], (1, work.channels), schema.ReducerOptionsT())


def _add(made: _Graph, work: Work, source: int) -> int:
    options = schema.AddOptionsT() if work.kind == "ADD" else schema.MulOptionsT()
    other = source if work.read > work.written else made.weights(work.channels)
    return made.operator(work.kind, [source, other], _output_shape(work), options)


def _concatenation(made: _Graph, work: Work, source: int) -> int:
    return made.operator(work.kind, [source, source], _output_shape(work), schema.ConcatenationOptionsT(axis=3))


def _softmax(made: _Graph, work: Work, source: int) -> int:
    return made.operator(work.kind, [source], (1, work.channels), schema.SoftmaxOptionsT(beta=1.0))


def _transpose(made: _Graph, work: Work, source: int) -> int:
    shape = (1, _side(work), _side(work), work.channels // 2, 2)
    return made.operator(work.kind, [source, made.integers([0, 1, 2, 4, 3])], shape, schema.TransposeOptionsT())


def _reshape(made: _Graph, work: Work, source: int) -> int:
    shape = (1, work.pixels, work.channels)
    return made.operator(work.kind, [source, made.integers(shape)], shape, schema.ReshapeOptionsT(newShape=shape))


def _pad(made: _Graph, work: Work, source: int) -> int:
    margins = made.integers([[0, 0], [1, 1], [1, 1], [0, 0]])
    return made.operator(work.kind, [source, margins], _output_shape(work), schema.PadOptionsT())


def _elementwise(made: _Graph, work: Work, source: int) -> int:
    return made.operator(work.kind, [source], _output_shape(work))


_BUILDERS: Mapping[str, Callable[[_Graph, Work, int], int]] = MappingProxyType(
    {
        CONVOLUTION: _convolution,
        DEPTHWISE: _depthwise,
        DENSE: _dense,
        "AVERAGE_POOL_2D": _pool,
        "MAX_POOL_2D": _pool,
        "MEAN": _mean,
        "ADD": _add,
        "MUL": _add,
        "CONCATENATION": _concatenation,
        "SOFTMAX": _softmax,
        "TRANSPOSE": _transpose,
        "RESHAPE": _reshape,
        "PAD": _pad,
    }
)
