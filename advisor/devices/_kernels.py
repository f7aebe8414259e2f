"""Make files of one operator, and time them on a device in short interleaved rounds."""

import io
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import ArrayLike, NDArray

from advisor.core import StageError, show_seconds
from advisor.devices._connections.protocol import Connection, MeasurementJob, Timing
from advisor.devices._latency.operator_times import model_operators
from advisor.devices._profiles import DeviceProfile, DeviceTarget
from advisor.devices._profiles.measurements import Kernel
from advisor.isolation import agent
from advisor.tflite import (
    CONVOLUTION,
    DENSE,
    DEPTHWISE,
    Work,
    add_tensor,
    new_operator,
    pack,
    read,
    replace_signature,
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

_MADE = _WINDOWED | {
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

EFFORT = "survey"  # Effort of the agent: eight rounds, in half a second for each file at most
BATCH = 48  # Files of one job: their rounds take turns

SECONDS = 6.0
"""Longest time of one file. On slow boards a large kernel takes half a second,
and eight rounds run it twice.
"""

START_S = 60.0  # Longest time of a job in addition: starting the runtime, and loading
# A kernel is left out if its usual round takes this many times as long as its best ones.
UNSTEADY = 3.0
# Files that may fail one after the other before the device itself counts as failed.
MOST_IN_A_ROW = 3
# Share of the kernels that may be left out; with more, the device cannot be trusted.
MOST_LEFT_OUT = 0.25


class _Graph:
    """A file under construction: a main graph with one input."""

    def __init__(self) -> None:
        self.model = schema.ModelT(
            version=3, operatorCodes=[], buffers=[schema.BufferT()], metadata=[]
        )
        self.graph = schema.SubGraphT(
            tensors=[], inputs=[], outputs=[], operators=[], name=b"main"
        )
        self.model.subgraphs = [self.graph]
        self._random = np.random.default_rng(17)
        self._weights: dict[tuple[int, ...], int] = {}

    def tensor(self, *shape: int) -> int:
        return add_tensor(
            self.model, self.graph, f"t{len(self.graph.tensors)}", shape, schema.TensorType.FLOAT32
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
        operator = new_operator(
            self.model, getattr(schema.BuiltinOperator, kind), inputs, outputs[0], options
        )
        operator.outputs = outputs
        self.graph.operators.append(operator)

    def _add_constant(self, content: NDArray[np.generic], dtype: int) -> int:
        name = f"c{len(self.graph.tensors)}"
        return add_tensor(self.model, self.graph, name, content.shape, dtype, content.tobytes())


def kernel_file(work: Work, copies: int = 1) -> bytes:
    """Return a float32 file that runs ``copies`` equal operators
    with a square output on one input.
    """
    made = _Graph()
    source = made.tensor(*_input_shape(work))
    outputs = []
    for _ in range(copies):
        outputs += _add_operator(made, work, source)
    made.graph.inputs = [source]
    replace_signature(
        made.model, made.graph, "x", {f"y{place}": output for place, output in enumerate(outputs)}
    )
    return pack(made.model)


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
            return 1, *_sides(work), channels
    return 1, side, side, channels


def _sides(work: Work) -> tuple[int, int]:
    """Return the height and the width of an output: it is square, or one row."""
    side = math.isqrt(work.pixels)
    if side**2 == work.pixels:
        return (side, side)
    return (1, work.pixels)


def _add_operator(made: _Graph, work: Work, source: int) -> list[int]:
    """Add an operator to a file, and return its outputs."""
    sides = _sides(work)
    window = math.isqrt(work.taps)
    channels = work.channels
    height, width = (window, window) if window**2 == work.taps else (1, work.taps)
    source_shape = _input_shape(work)
    place = _place_window(source_shape[1], work.stride, sides[0])
    inputs = [source]
    options = None
    shape: tuple[int, ...] = 1, *sides, channels
    match work.kind:
        case "CONV_2D":
            inputs += [made.weights(channels, height, width, work.depth), made.weights(channels)]
            options = schema.Conv2DOptionsT(fusedActivationFunction=_RELU6, **place)
        case "DEPTHWISE_CONV_2D":
            inputs += [made.weights(1, height, width, channels), made.weights(channels)]
            options = schema.DepthwiseConv2DOptionsT(
                depthMultiplier=channels // source_shape[-1],
                fusedActivationFunction=_RELU6,
                **place,
            )
        case "FULLY_CONNECTED":
            inputs += [made.weights(channels, work.depth), made.weights(channels)]
            shape = (1, channels)
            options = schema.FullyConnectedOptionsT()
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            options = schema.Pool2DOptionsT(filterHeight=height, filterWidth=width, **place)
        case "MEAN":
            inputs.append(made.integers([1, 2]))
            shape = (1, channels)
            options = schema.ReducerOptionsT()
        case "ADD" | "MUL":
            # An operator that reads less than two whole inputs adds a vector.
            inputs.append(source if work.read >= 2 * work.written else made.weights(channels))
            options = schema.AddOptionsT() if work.kind == "ADD" else schema.MulOptionsT()
        case "CONCATENATION":
            inputs.append(source)
            shape = (1, *sides, channels // 2 * 2)
            options = schema.ConcatenationOptionsT(axis=3)
        case "SPLIT":
            inputs.insert(0, made.integers(3))
            shape = (1, *sides, channels // 2)
            options = schema.SplitOptionsT(numSplits=2)
        case "SOFTMAX":
            shape = (1, channels)
            options = schema.SoftmaxOptionsT(beta=1.0)
        case "TRANSPOSE":
            inputs.append(made.integers([0, 1, 3, 2]))
            shape = (1, 1, work.pixels, channels)
            options = schema.TransposeOptionsT()
        case "RESHAPE":
            shape = 1, work.pixels * channels
            inputs.append(made.integers(shape))
            options = schema.ReshapeOptionsT(newShape=shape)
        case "PAD":
            border = _split_border(sides[0] - source_shape[1])
            inputs.append(made.integers([[0, 0], border, border, [0, 0]]))
            options = schema.PadOptionsT()
    outputs = [made.tensor(*shape) for _ in range(2 if work.kind == "SPLIT" else 1)]
    made.append(work.kind, inputs, outputs, options)
    return outputs


def _place_window(side: int, stride: int, output_side: int) -> dict[str, int]:
    """Return the strides and the padding with which an input's side gives the side of the
    output.
    """
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


Tell = Callable[[str], None]
Wanted = Sequence[tuple[Work, str]]  # Operators, each in a form


class TimedKernels(NamedTuple):
    """Kernels that were timed on a device, and why each other one was left out."""

    kernels: tuple[Kernel, ...] = ()
    left_out: tuple[str, ...] = ()


def kernels_to_time(
    profile: DeviceProfile, target: DeviceTarget, forms: Sequence[str], networks: Iterable[str]
) -> Wanted:
    """Return the different operators of networks in every form,
    without those that were timed on the target.

    Their order is mixed, by hash: the first ones show how long the others take, and are of every
    kind and size if the timing is interrupted.
    """
    known = set()
    for kernel in profile.kernels:
        if kernel.target == target.name:
            known.add((kernel.work, kernel.form))
    operators = chain.from_iterable(model_operators().get(name, ()) for name in networks)
    works = {work for work, _ in operators if work.kind in _MADE}
    mixed = sorted(works, key=lambda work: sha256(repr(work).encode()).digest())
    return [pair for pair in product(mixed, forms) if pair not in known]


def time_kernels(
    connection: Connection, target: DeviceTarget, wanted: Wanted, folder: Path, tell: Tell
) -> Iterator[TimedKernels]:
    """Time operators, and yield those of each job as they come; the files are made in ``folder``.

    StageError if the device failed or slowed down, or too few kernels were timed.
    """
    if not wanted:
        return
    effort = agent.map_efforts()[EFFORT]
    least = effort.min_seconds + effort.blocks * effort.pause_seconds
    tell(
        f"timing {len(wanted)} kernels on {connection.label}, in at least"
        f" {show_seconds(least * len(wanted))}"
    )
    start = time.monotonic()
    left_out = 0
    for place in range(0, len(wanted), BATCH):
        part = wanted[place : place + BATCH]
        timed = _time_batch(connection, target, part, folder)
        left_out = left_out + len(timed.left_out)
        passed = place + len(part)
        if left_out > MOST_LEFT_OUT * passed:
            last = timed.left_out[-1]
            raise StageError(
                f"{connection.label}: {left_out} of {passed} kernels could not be timed; the last:"
                f" {last}",
                "close other programs on the device, then try again",
            )
        yield timed
        left_s = (time.monotonic() - start) / passed * (len(wanted) - passed)
        tell(
            f"timed {passed} of {len(wanted)} kernels on {connection.label}, about"
            f" {show_seconds(left_s)} left"
        )


def _time_batch(
    connection: Connection, target: DeviceTarget, part: Wanted, folder: Path
) -> TimedKernels:
    files = {}
    for place, (work, form) in enumerate(part):
        data = kernel_file(work, copies_of(work))
        path = folder / f"kernel{place}.tflite"
        content = as_int8(data) if form == "int8" else data
        path.write_bytes(content)
        files[path] = (work, form)
    timings, failures = _time_files(connection, list(files), target.threads)
    kernels = list[Kernel]()
    left_out = [f"{_describe_work(*files[path])}: {why}" for path, why in failures.items()]
    for timing in timings:
        work, form = files[timing.model]
        microseconds, best = rounds_us(timing)

        reason = timing.contention
        if not reason and microseconds > UNSTEADY * best:
            reason = f"the rounds differ by a factor of {microseconds / best:.1f}"
        if reason:
            left_out.append(f"{_describe_work(work, form)}: {reason}")
        else:
            kernels.append(Kernel(target.name, form, work, microseconds / copies_of(work)))
    return TimedKernels(tuple(kernels), tuple(left_out))


def rounds_us(timing: Timing) -> tuple[float, float]:
    """Return the microseconds of a run in the usual round, the median as for networks,
    and in the second best one.

    A run takes the shorter of its wall time, which contains the work of other programs, and its
    CPU time, which contains the reading of the clocks; of several threads, the agent reports the
    wall time only. On a shared machine, a core is faster while its neighbours rest, and the best
    rounds of a short kernel show that more often than those of a network. A tool that reports no
    rounds gives its median and its shortest run.
    """
    blocks = timing.details.get("blocks")
    if not blocks:
        return timing.median_ms * 1e3, float(timing.details.get("min_ms", timing.median_ms)) * 1e3
    runs = (map(min, block["wall_ns"], block["cpu_ns"] or block["wall_ns"]) for block in blocks)
    medians = sorted(statistics.median(map(float, run_ns)) / 1e3 for run_ns in runs)
    return statistics.median(medians), medians[min(1, len(medians) - 1)]


def _time_files(
    connection: Connection, paths: Sequence[Path], threads: int
) -> tuple[tuple[Timing, ...], Mapping[Path, str]]:
    """Time files in one job; if it fails, time each alone and return why single files failed."""
    with suppress(StageError):
        return _run_job(connection, paths, threads), {}
    timings = list[Timing]()
    failures = dict[Path, str]()
    for path in paths:
        try:
            timings += _run_job(connection, [path], threads)
        except StageError as error:
            failures[path] = error.message
            # The first files all fail: it is the device and not a file.
            if not timings and len(failures) == MOST_IN_A_ROW:
                raise
    return tuple(timings), failures


def _run_job(connection: Connection, paths: Sequence[Path], threads: int) -> tuple[Timing, ...]:
    timings = connection.measure(
        MeasurementJob(tuple(paths), (threads,), EFFORT, START_S + SECONDS * len(paths))
    )
    hot = [timing for timing in timings if timing.throttled]
    # Files of microseconds are disturbed one by one.
    # Only many hot ones together show a hot device.
    if len(hot) > len(timings) / 3:
        raise StageError(
            f"{connection.label}: {hot[0].throttled}", "let the device cool down, then try again"
        )
    return timings


def _describe_work(work: Work, form: str) -> str:
    sizes = f"{work.pixels} x {work.channels}" + (f" from {work.depth}" if work.depth > 1 else "")
    window = ""
    if work.taps > 1:
        window = f", {work.taps} taps"
    return f"{work.kind} {sizes}{window}, {form}"
