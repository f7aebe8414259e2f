"""Make ``.tflite`` files of one operator, so that a device can time it alone.

``_kernels.py`` times these files, and a calibration makes 8-bit files of networks with
:func:`as_int8`. Timed kernels are kept for good: a file must make an operator compute what it does
in a network, with data from as far away.
"""

import io
import math
from contextlib import redirect_stderr
from typing import NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import ArrayLike, NDArray

from advisor.tflite import (
    CONVOLUTION,
    DENSE,
    DEPTHWISE,
    Tables,
    Work,
    read,
)

_RELU6 = schema.ActivationFunctionType.RELU6
_RANGE = 6.0  # Made-up range of every activation; the latency does not depend on it

MOST_COPIES = 8
"""Copies of a small operator in its file, at most:
with several, the cost of a call of the interpreter is small.
"""

_ENOUGH = 1_500_000
"""Multiply-accumulates and values of a file that need no further copy:
about 50 microseconds on a fast core.
"""

_FAR_WEIGHTS = 3_000_000
_MOST_FAR = 32
"""Weights of a file, and its most copies, with which weights come from as far away as in a
network. The copies' weights take turns, so a cache of a core (1 to 2 MB) does not hold them.
"""

_MOST_MACS = 200_000_000
_MOST_WRITTEN = 1_000_000
"""Multiply-accumulates and written values of a file that allow no further copy for its weights:
boards run 0.3 to 10 billion MACs a second, and outputs should not fill the caches.
"""

_WINDOWED = frozenset({CONVOLUTION, DEPTHWISE, "AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "MEAN"})
"""Kinds whose input is of another size than their output."""

FILE_KINDS = _WINDOWED | {
    DENSE,
    "ADD",
    "MUL",
    "CONCATENATION",
    "SPLIT",
    "SOFTMAX",
    "TRANSPOSE",
    "RESHAPE",
    "HARD_SWISH",
    "LOGISTIC",
    "RELU",
}
"""Kinds of which files are made; others are predicted from those."""

_COLOURS = 3
_VALUE = 20  # Multiply-accumulates in the time that one value takes to be read or written


class _Graph:
    """A file under construction: a main graph with one input."""

    def __init__(self) -> None:
        self.model = Tables(version=3, operatorCodes=[], buffers=[schema.BufferT()], metadata=[])
        self.graph = schema.SubGraphT(
            tensors=[], inputs=[], outputs=[], operators=[], name=b"main"
        )
        self.model.subgraphs = [self.graph]
        self._random = np.random.default_rng(17)
        self._weights: dict[tuple[int, ...], int] = {}

    def tensor(self, *shape: int) -> int:
        return self.model.add_tensor(
            self.graph, f"t{len(self.graph.tensors)}", shape, schema.TensorType.FLOAT32
        )

    def weights(self, *shape: int) -> int:
        """Return random weights, the same ones for every copy:
        a runtime packs weights anew for each operator.
        """
        if shape not in self._weights:
            # Divided by the root of the fan-in,
            # so that values keep their size and no float becomes denormal.
            content = (
                self._random.standard_normal(shape) / math.sqrt(max(1, math.prod(shape[1:])))
            ).astype("<f4")
            self._weights[shape] = self._add_constant(content, schema.TensorType.FLOAT32)
        return self._weights[shape]

    def integers(self, values: ArrayLike) -> int:
        return self._add_constant(np.asarray(values, "<i4"), schema.TensorType.INT32)

    def append(self, kind: str, inputs: list[int], outputs: list[int], options: object) -> None:
        """Add an operator behind the others."""
        operator = self.model.make_operator(
            getattr(schema.BuiltinOperator, kind), inputs, outputs[0], options
        )
        operator.outputs = outputs
        self.graph.operators.append(operator)

    def _add_constant(self, content: NDArray[np.generic], dtype: int) -> int:
        name = f"c{len(self.graph.tensors)}"
        return self.model.add_tensor(self.graph, name, content.shape, dtype, content.tobytes())


def kernel_file(work: Work, copies: int = 1) -> bytes:
    """Return a float32 file that runs ``copies`` equal operators
    with a square output on one input.
    """
    graph = _Graph()
    source = graph.tensor(*_input_shape(work))
    outputs = []
    for _ in range(copies):
        outputs += _add_operator(graph, work, source)
    graph.graph.inputs = [source]
    names = {f"y{place}": output for place, output in enumerate(outputs)}
    graph.model.replace_signature(graph.graph, "x", names)
    return graph.model.pack()


def as_int8(data: bytes) -> bytes:
    """Return a float file with 8-bit weights and activations as the recipe ``int8`` makes it,
    with made-up ranges.
    """
    from ai_edge_quantizer import quantizer, recipe

    model = read(data)
    low = np.float32(-_RANGE)
    high = np.float32(_RANGE)
    ranges = {}
    for tensor in model.tensors:
        if not tensor.is_constant and tensor.dtype == "float32":
            ones = (1,) * len(tensor.shape)
            ranges[tensor.name] = {"min": np.full(ones, low), "max": np.full(ones, high)}
    # The quantizer draws progress bars although it is asked not to.
    with redirect_stderr(io.StringIO()):
        tool = quantizer.Quantizer(data)
        tool.load_quantization_recipe(recipe.static_wi8_ai8())
        result = tool.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)


def _input_shape(work: Work) -> tuple[int, ...]:
    channels = work.depth if work.kind == CONVOLUTION else work.channels
    # A depth multiplier: fewer values are read than an input with all output channels would have.
    if (
        work.kind == DEPTHWISE
        and work.read < channels * ((math.isqrt(work.pixels) - 1) * work.stride + 1) ** 2
    ):
        # Several outputs of each channel, as only the first operator of a network has them.
        channels = _COLOURS
    side = math.isqrt(work.read // channels)
    match work.kind:
        case "FULLY_CONNECTED":
            return 1, work.depth
        case "SOFTMAX":
            return 1, channels
        case "TRANSPOSE":
            return 1, 1, channels, work.pixels
        case "CONCATENATION":
            side = math.isqrt(work.pixels)
            channels = channels // 2
        case kind if kind not in _WINDOWED:
            return 1, *_list_sides(work), channels
    return 1, side, side, channels


def _list_sides(work: Work) -> tuple[int, int]:
    """Return the height and the width of an output: it is square, or one row."""
    side = math.isqrt(work.pixels)
    if side**2 == work.pixels:
        return (side, side)
    return (1, work.pixels)


class _Operator(NamedTuple):
    """An operator to add to a file: its input tensors, the shape of its outputs, its options."""

    inputs: list[int]
    shape: tuple[int, ...]
    options: object


def _add_operator(graph: _Graph, work: Work, source: int) -> list[int]:
    """Add an operator to a file, and return its outputs."""
    operator = _describe_operator(graph, work, source)
    count = 2 if work.kind == "SPLIT" else 1
    outputs = [graph.tensor(*operator.shape) for _ in range(count)]
    graph.append(work.kind, operator.inputs, outputs, operator.options)
    return outputs


def _describe_operator(graph: _Graph, work: Work, source: int) -> _Operator:
    """Return the operator that does some work on a source, with the constants that it reads."""
    sides = _list_sides(work)
    window = math.isqrt(work.taps)
    channels = work.channels
    height, width = (window, window) if window**2 == work.taps else (1, work.taps)
    source_shape = _input_shape(work)
    place = _place_window(source_shape[1], work.stride, sides[0])
    inputs = [source]
    options: object = None
    shape: tuple[int, ...] = 1, *sides, channels
    match work.kind:
        case "CONV_2D":
            inputs += [graph.weights(channels, height, width, work.depth), graph.weights(channels)]
            options = schema.Conv2DOptionsT(fusedActivationFunction=_RELU6, **place)
        case "DEPTHWISE_CONV_2D":
            inputs += [graph.weights(1, height, width, channels), graph.weights(channels)]
            options = schema.DepthwiseConv2DOptionsT(
                depthMultiplier=channels // source_shape[-1],
                fusedActivationFunction=_RELU6,
                **place,
            )
        case "FULLY_CONNECTED":
            inputs += [graph.weights(channels, work.depth), graph.weights(channels)]
            shape = (1, channels)
            options = schema.FullyConnectedOptionsT()
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            options = schema.Pool2DOptionsT(filterHeight=height, filterWidth=width, **place)
        case "MEAN":
            inputs.append(graph.integers([1, 2]))
            shape = (1, channels)
            options = schema.ReducerOptionsT()
        case "ADD" | "MUL":
            # An operator that reads less than two whole inputs adds a vector.
            inputs.append(source if work.read >= 2 * work.written else graph.weights(channels))
            options = schema.AddOptionsT() if work.kind == "ADD" else schema.MulOptionsT()
        case "CONCATENATION":
            inputs.append(source)
            shape = (1, *sides, channels // 2 * 2)
            options = schema.ConcatenationOptionsT(axis=3)
        case "SPLIT":
            inputs.insert(0, graph.integers(3))
            shape = (1, *sides, channels // 2)
            options = schema.SplitOptionsT(numSplits=2)
        case "SOFTMAX":
            shape = (1, channels)
            options = schema.SoftmaxOptionsT(beta=1.0)
        case "TRANSPOSE":
            inputs.append(graph.integers([0, 1, 3, 2]))
            shape = (1, 1, work.pixels, channels)
            options = schema.TransposeOptionsT()
        case "RESHAPE":
            shape = 1, work.pixels * channels
            inputs.append(graph.integers(shape))
            options = schema.ReshapeOptionsT(newShape=shape)
        case "PAD":
            border = _split_border(sides[0] - source_shape[1])
            inputs.append(graph.integers([[0, 0], border, border, [0, 0]]))
            options = schema.PadOptionsT()
    return _Operator(inputs, shape, options)


def _place_window(side: int, stride: int, output_side: int) -> dict[str, int]:
    """Return the strides and the padding that lead from an input's side to the output's."""
    # SAME gives ceil(side / stride), and VALID less by the window.
    # One of the two gives the known output.
    padding = (
        schema.Padding.SAME if math.ceil(side / stride) == output_side else schema.Padding.VALID
    )
    return {"strideW": stride, "strideH": stride, "padding": padding}


def _split_border(pixels: int) -> list[int]:
    """Return how many pixels are added before and behind."""
    before = pixels // 2
    return [before, pixels - before]


def copies_of(work: Work) -> int:
    """Return how often the file of an operator has it.

    The operator that reads the image finds neither it nor room for its output in the caches, since
    all others ran in between. With several copies, each with weights and an output of its own, its
    kernel does not either.
    """
    if work.kind == CONVOLUTION and work.depth == _COLOURS:
        return MOST_COPIES
    # Pools have multiply-accumulates by formula,
    # but read and write is what they spend their time on.
    size = work.macs * (work.weights > 0) + _VALUE * (work.read + work.written)
    copies = max(1, min(MOST_COPIES, round(_ENOUGH / size)))
    if work.kind in (CONVOLUTION, DENSE):
        far = min(math.ceil(_FAR_WEIGHTS / work.weights), _MOST_FAR)
        copies = max(copies, min(far, _MOST_MACS // work.macs, _MOST_WRITTEN // work.written))
    return copies
