"""Make files of one operator, and time them on a device in short interleaved rounds."""

import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import ArrayLike, NDArray

from advisor.core.errors import StageError
from advisor.devices.connections.agent import cpu_medians_ns
from advisor.devices.connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices.profiles.measurements import Kernel
from advisor.tflite.macs import CONVOLUTION, DENSE, DEPTHWISE, Work
from advisor.tflite.model import read
from advisor.tflite.rewrite import add_tensor, new_operator, pack, sign

_RELU6 = schema.ActivationFunctionType.RELU6
_RANGE = 6.0  # Made-up range of every activation; the latency does not depend on it


class _Graph:
    """A file under construction: a main graph with one input."""

    def __init__(self) -> None:
        self.model = schema.ModelT(version=3, operatorCodes=[], buffers=[schema.BufferT()], metadata=[])
        self.graph = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=b"main")
        self.model.subgraphs = [self.graph]
        self._random = np.random.default_rng(17)
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


def kernel_file(work: Work, copies: int = 1) -> bytes:
    """Return a float32 file that runs ``copies`` equal operators with a square output on one input."""
    made = _Graph()
    source = made.tensor(*_input_shape(work))
    outputs = [_operator(made, work, source) for _ in range(copies)]
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
    with redirect_stderr(io.StringIO()):
        tool = quantizer.Quantizer(data)
        tool.load_quantization_recipe(recipe.static_wi8_ai8())
        result = tool.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    return bytes(result.quantized_model)


def _input_shape(work: Work) -> tuple[int, ...]:
    side, channels = math.isqrt(work.pixels), work.channels
    match work.kind:
        case "FULLY_CONNECTED":
            return 1, work.depth
        case "SOFTMAX":
            return 1, channels
        case "TRANSPOSE":
            return 1, side, side, 2, channels // 2
        case "CONV_2D":
            side, channels = side * work.stride, work.depth
        case "PAD":
            side -= 2
        case "CONCATENATION":
            channels //= 2
        case "MEAN":
            side = math.isqrt(work.read // channels)
        case _:
            side *= work.stride
    return 1, side, side, channels


def _operator(made: _Graph, work: Work, source: int) -> int:
    """Add an operator to a file, and return its output."""
    side, window, stride, channels = math.isqrt(work.pixels), math.isqrt(work.taps), work.stride, work.channels
    height, width = (window, window) if window**2 == work.taps else (1, work.taps)
    inputs, options, common = [source], None, {"strideW": stride, "strideH": stride, "fusedActivationFunction": _RELU6}
    shape: tuple[int, ...] = 1, side, side, channels
    match work.kind:
        case "CONV_2D":
            inputs += [made.weights(channels, height, width, work.depth), made.weights(channels)]
            options = schema.Conv2DOptionsT(**common)
        case "DEPTHWISE_CONV_2D":
            inputs += [made.weights(1, height, width, channels), made.weights(channels)]
            options = schema.DepthwiseConv2DOptionsT(depthMultiplier=1, **common)
        case "FULLY_CONNECTED":
            inputs += [made.weights(channels, work.depth), made.weights(channels)]
            shape, options = (1, channels), schema.FullyConnectedOptionsT()
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            options = schema.Pool2DOptionsT(strideW=stride, strideH=stride, filterHeight=height, filterWidth=width)
        case "MEAN":
            inputs.append(made.integers([1, 2]))
            shape, options = (1, channels), schema.ReducerOptionsT()
        case "ADD" | "MUL":
            inputs.append(source if work.read > work.written else made.weights(channels))
            options = schema.AddOptionsT() if work.kind == "ADD" else schema.MulOptionsT()
        case "CONCATENATION":
            inputs.append(source)
            options = schema.ConcatenationOptionsT(axis=3)
        case "SOFTMAX":
            shape, options = (1, channels), schema.SoftmaxOptionsT(beta=1.0)
        case "TRANSPOSE":
            inputs.append(made.integers([0, 1, 2, 4, 3]))
            shape, options = (1, side, side, channels // 2, 2), schema.TransposeOptionsT()
        case "RESHAPE":
            shape = 1, work.pixels, channels
            inputs.append(made.integers(shape))
            options = schema.ReshapeOptionsT(newShape=shape)
        case "PAD":
            inputs.append(made.integers([[0, 0], [1, 1], [1, 1], [0, 0]]))
            options = schema.PadOptionsT()
    output, code = made.tensor(*shape), getattr(schema.BuiltinOperator, work.kind)
    made.graph.operators.append(new_operator(made.model, code, inputs, output, options))
    return output


MOST_COPIES = 8
"""Copies of a small operator in its file, at most: with several, the cost of a call of the interpreter is small."""

_ENOUGH = 1_500_000
"""Multiply-accumulates and values of a file that need no further copy: about 50 microseconds on a fast core."""

_FAR_WEIGHTS, _MOST_FAR = 3_000_000, 32
"""Weights of a file, and its most copies, with which weights come from as far away as in a network. The copies' weights
take turns, so a cache of a core (1 to 2 MB) does not hold them."""

_MOST_MACS, _MOST_WRITTEN = 200_000_000, 1_000_000
"""Multiply-accumulates and written values of a file that allow no further copy for its weights: boards run 0.3 to 10
billion MACs a second, and outputs should not fill the caches."""

_COLOURS = 3
_VALUE = 20  # Multiply-accumulates in the time that one value takes to be read or written

# Side of the output, output channels, input channels.
_POINTWISE = (
    (112, 144, 24), (96, 48, 16), (96, 16, 32), (56, 8, 48), (48, 72, 24), (48, 24, 144), (28, 512, 256),
    (28, 128, 224), (24, 192, 32), (16, 32, 144), (14, 96, 576), (12, 512, 512), (12, 480, 80), (12, 128, 128),
    (8, 1280, 320), (7, 1024, 1024), (6, 192, 1152), (5, 1024, 1024), (4, 1152, 192),
)  # fmt: skip

# Side of the output, output channels, input channels, positions of the kernel, stride.
_WINDOWED = (
    (112, 32, 3, 9, 2), (112, 64, 3, 49, 2), (96, 16, 3, 9, 2), (56, 64, 64, 9, 1), (35, 64, 48, 25, 1),
    (28, 96, 96, 9, 1), (17, 256, 224, 9, 2), (17, 192, 160, 7, 1), (14, 192, 48, 9, 1), (8, 384, 384, 3, 1),
    (7, 512, 512, 9, 1),
)  # fmt: skip

# Side of the output, channels, positions of the kernel, stride.
_DEPTHWISE = (
    (80, 32, 9, 1), (56, 96, 9, 2), (80, 8, 9, 1), (56, 24, 9, 2), (48, 16, 9, 1), (40, 128, 9, 1),
    (40, 64, 9, 2), (28, 96, 25, 2), (28, 40, 25, 1), (14, 816, 9, 1), (14, 624, 25, 1), (14, 480, 9, 1),
    (14, 384, 9, 1), (14, 200, 9, 1), (14, 192, 25, 1), (14, 128, 25, 1), (10, 256, 9, 2), (8, 576, 9, 1),
    (7, 960, 9, 1), (7, 288, 25, 2), (6, 1152, 25, 1),
)  # fmt: skip

# Outputs, inputs.
_DENSE = ((1000, 2048), (1001, 1024), (144, 576), (288, 72), (40, 144))

# Kind, inputs of the output's size, and the side and channels of each output. A single input of ADD and MUL is added to
# or multiplied by a vector, as in a normalization or a squeeze-and-excite.
_ELEMENTWISE = (
    ("ADD", 2, ((56, 64), (28, 32), (10, 232))), ("MUL", 2, ((56, 64), (14, 384))),
    ("HARD_SWISH", 1, ((112, 16), (14, 192))), ("LOGISTIC", 1, ((56, 64), (14, 192))),
    ("RELU", 1, ((56, 64), (14, 192))), ("RESHAPE", 1, ((56, 64), (14, 192))), ("TRANSPOSE", 1, ((56, 64), (14, 192))),
    ("ADD", 1, ((28, 128), (14, 320))), ("MUL", 1, ((28, 128), (14, 320))),
)  # fmt: skip

# Kind, side of the output, channels, positions of the window, stride.
_POOLS = (
    ("AVERAGE_POOL_2D", 35, 192, 9, 1), ("AVERAGE_POOL_2D", 14, 64, 9, 1),
    ("MAX_POOL_2D", 56, 64, 9, 2), ("MAX_POOL_2D", 14, 192, 9, 2),
)  # fmt: skip


def design() -> tuple[Work, ...]:
    """Return the operators to time."""
    return (
        *(_windowed(CONVOLUTION, *sizes, 1, 1) for sizes in _POINTWISE),
        *(_windowed(CONVOLUTION, *sizes) for sizes in _WINDOWED),
        *(_windowed(DEPTHWISE, side, channels, channels, *window) for side, channels, *window in _DEPTHWISE),
        *(Work(DENSE, 1, channels, depth, read=depth) for channels, depth in _DENSE),
        *(
            Work(kind, side**2, channels, read=inputs * side**2 * channels)
            for kind, inputs, sizes in _ELEMENTWISE
            for side, channels in sizes
        ),
        *(_windowed(kind, side, channels, channels, *window) for kind, side, channels, *window in _POOLS),
        *(Work("PAD", (side + 2) ** 2, channels, read=side**2 * channels) for side, channels in ((56, 64), (14, 192))),
        *(Work("CONCATENATION", side**2, 2 * each, read=2 * side**2 * each) for side, each in ((28, 64), (8, 448))),
        *(Work("MEAN", 1, channels, read=side**2 * channels) for side, channels in ((7, 1280), (28, 96))),
        Work("SOFTMAX", 1, 1000, read=1000),
    )


def _windowed(kind: str, side: int, channels: int, read: int, taps: int, stride: int) -> Work:
    depth = read if kind == CONVOLUTION else 1
    return Work(kind, side**2, channels, depth, taps, stride, (side * stride) ** 2 * read)


def copies_of(work: Work) -> int:
    """Return how often the file of an operator has it.

    The operator that reads the image finds neither it nor room for its output in the caches, since all others ran in
    between. With several copies, each with weights and an output of its own, its kernel does not either.
    """
    if work.kind == CONVOLUTION and work.depth == _COLOURS:
        return MOST_COPIES
    size = work.macs * (work.weights > 0) + _VALUE * (work.read + work.written)
    copies = max(1, min(MOST_COPIES, round(_ENOUGH / size)))
    if work.kind in (CONVOLUTION, DENSE):
        far = min(math.ceil(_FAR_WEIGHTS / work.weights), _MOST_FAR)
        copies = max(copies, min(far, _MOST_MACS // work.macs, _MOST_WRITTEN // work.written))
    return copies


Tell = Callable[[str], None]

EFFORT = "survey"  # Effort of the agent: eight rounds, in half a second for each file at most
BATCH = 48  # Files of one job: their rounds take turns

SECONDS = 6.0
"""Longest time of one file. On slow boards a large kernel takes half a second, and eight rounds run it twice."""

START_S = 60.0  # Longest time of a job in addition: starting the runtime, and loading
UNSTEADY = 3.0  # A kernel is left out if its usual round takes this many times as long as its best ones
MOST_IN_A_ROW = 3  # Files that may fail one after the other before the device itself counts as failed
MOST_LEFT_OUT = 0.25  # Share of the kernels that may be left out; with more, the device cannot be trusted


class TimedKernels(NamedTuple):
    """Kernels that were timed on a device, and why each other one was left out."""

    kernels: tuple[Kernel, ...] = ()
    left_out: tuple[str, ...] = ()


def time_kernels(
    connection: Connection,
    target: str,
    threads: int,
    forms: Sequence[str],
    folder: Path,
    tell: Tell,
    works: Sequence[Work] = (),
) -> TimedKernels:
    """Time operators (the design's by default) in every form; the files are made in ``folder``.

    StageError if the device failed or slowed down, or too few kernels were timed.
    """
    files = {}
    for place, work in enumerate(works or design()):
        plain = kernel_file(work, copies_of(work))
        for form in forms:
            path = folder / f"kernel{place}-{form}.tflite"
            path.write_bytes(as_int8(plain) if form == "int8" else plain)
            files[path] = (work, form)
    names, kernels, left_out = list(files), list[Kernel](), list[str]()
    for start in range(0, len(names), BATCH):
        tell(f"timing kernels {start + 1} to {min(start + BATCH, len(names))} of {len(names)} on {connection.label}")
        timings, failures = _timed(connection, names[start : start + BATCH], threads)
        left_out += [f"{_described(*files[path])}: {reason}" for path, reason in failures.items()]
        for timing in timings:
            work, form = files[timing.model]
            microseconds, best = rounds_us(timing)
            unsteady = f"the rounds differ by a factor of {microseconds / best:.1f}"
            if reason := timing.contention or unsteady * (microseconds > UNSTEADY * best):
                left_out.append(f"{_described(work, form)}: {reason}")
            else:
                kernels.append(Kernel(target, form, work, microseconds / copies_of(work)))
    if len(left_out) > MOST_LEFT_OUT * len(names):
        raise StageError(
            f"{connection.label}: {len(left_out)} of {len(names)} kernels could not be timed; the last: {left_out[-1]}",
            "close other programs on the device, then try again",
        )
    return TimedKernels(tuple(kernels), tuple(left_out))


def rounds_us(timing: Timing) -> tuple[float, float]:
    """Return the microseconds of one run in the usual round, the median as for networks, and in the second best one.

    They are CPU time if it is known, which other programs hardly change. On a shared machine, a core is faster while
    its neighbours rest, and the best rounds of a short kernel show that more often than those of a network. A tool that
    reports no rounds gives its median and its shortest run.
    """
    blocks = timing.details.get("blocks")
    if not blocks:
        return timing.median_ms * 1e3, float(timing.details.get("min_ms", timing.median_ms)) * 1e3
    walls = [statistics.median(map(float, block["wall_ns"])) for block in blocks]
    medians = sorted(median / 1e3 for median in cpu_medians_ns(blocks) or walls)
    return statistics.median(medians), medians[min(1, len(medians) - 1)]


def _timed(
    connection: Connection, paths: Sequence[Path], threads: int
) -> tuple[tuple[Timing, ...], Mapping[Path, str]]:
    """Time files in one job; if it fails, time each alone and return why single files failed."""
    with suppress(StageError):
        return _job(connection, paths, threads), {}
    timings, failures = list[Timing](), dict[Path, str]()
    for path in paths:
        try:
            timings += _job(connection, [path], threads)
        except StageError as error:
            failures[path] = error.message
            if not timings and len(failures) == MOST_IN_A_ROW:
                raise
    return tuple(timings), failures


def _job(connection: Connection, paths: Sequence[Path], threads: int) -> tuple[Timing, ...]:
    timings = connection.measure(MeasurementJob(tuple(paths), (threads,), EFFORT, START_S + SECONDS * len(paths)))
    hot = [timing for timing in timings if timing.throttled]
    if len(hot) > len(timings) / 3:
        raise StageError(f"{connection.label}: {hot[0].throttled}", "let the device cool down, then try again")
    return timings


def _described(work: Work, form: str) -> str:
    sizes = f"{work.pixels} x {work.channels}" + (f" from {work.depth}" if work.depth > 1 else "")
    window = f", {work.taps} taps" if work.taps > 1 else ""
    return f"{work.kind} {sizes}{window}, {form}"
