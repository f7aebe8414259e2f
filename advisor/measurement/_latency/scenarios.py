"""Measure one file in two more ways, from an image file to an answer and without a pause,
and compare thread counts.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from advisor.core import UsageError, Written, plural
from advisor.isolation import SustainedDocument, agent
from advisor.measurement._latency import LatencyResult, ModelTiming
from advisor.measurement._latency.interpreter_options import InterpreterOptions
from advisor.measurement._latency.timing import DEFAULT
from advisor.measurement._processes import call_json, existing_model, run_json
from advisor.tflite import read_metadata

WINDOWS = 30
# Compare the first and last minute, or the first and last fifth of a run below five minutes.
SPAN_S = 60.0
# A difference within 5 % does not count, as in MLPerf Mobile's rule on replication.
SLOWED = 1.05

TIME_LIMIT_S = 1.5
MOST_RUNS = 100
LEAST_RUNS = 5
TOP = 5
STEPS = ("decode", "normalise", "copy_in", "invoke", "copy_out", "answer")
# [-1, 1), the input range of most converted classifiers.
ASSUMED = (127.5, 127.5, 127.5)


@dataclass(frozen=True)
class Pipeline:
    """Median times of the steps in milliseconds;
    their sum is not exactly ``pipeline_ms``, the median of the whole.
    """

    image: str  #: name of the image file
    threads: int  #: number of threads of the runtime
    runs: int  #: number of repetitions
    #: read the file, decode it, turn it upright and resize it to the input's size
    decode_ms: float
    #: subtract the mean, divide by the deviation, and convert to the input's type
    normalise_ms: float
    copy_in_ms: float  #: copy into the input tensor
    invoke_ms: float  #: run the model
    copy_out_ms: float  #: copy out of the output tensors
    answer_ms: float  #: convert to floats and find the five best classes
    pipeline_ms: float  #: all steps
    pipeline_p90_ms: float  #: 90th percentile of all steps
    normalization: str  #: where mean and deviation come from
    clock: str  #: ``CPU time`` at one thread, otherwise ``wall time``

    @property
    def sentence(self) -> str:
        """The time of all steps compared with the run of the model, in words."""
        share = self.invoke_ms / self.pipeline_ms
        return (
            f"from '{self.image}' to an answer takes {self.pipeline_ms:.2f} ms, {share:.0%} of it"
            " in the model; the copies in and out take"
            f" {1e3 * (self.copy_in_ms + self.copy_out_ms):.0f} us"
        )


def time_pipeline(
    model: Path | str, threads: int = 1, image: Path | None = None, kernels: str = "default"
) -> Pipeline:
    """Measure all steps from an image file to an answer of a classifier of one square RGB image,
    in a child process.

    Without an image, it takes a photograph of 640 x 427 pixels from scikit-image. Kernels are
    ``default`` or ``builtin``. UsageError if the model or the image is missing; StageError if the
    input of the model is not an image, or it cannot be run.
    """
    # The import of the package would be slow.
    path = existing_model(model)
    spec = find_spec("skimage")
    shipped = (
        Path(spec.origin).parent / "data" / "rocket.jpg"
        if spec and spec.origin
        else Path("rocket.jpg")
    )
    photograph = image or shipped
    if not photograph.is_file():
        raise UsageError(
            f"no image file '{photograph}'", "give a JPEG, PNG, WebP, BMP or GIF file"
        )
    mean, std, normalization = _read_normalization(path)
    files = {"model": str(path.absolute()), "image": str(photograph.absolute())}
    options = {"threads": threads, "kernels": kernels, "mean": mean, "std": std}
    runs = call_json(f"{__name__}:collect", 60.0, path.name, **files, **options)["runs"]
    times_of_steps = zip(*runs, strict=True)
    medians = {}
    for step, times_ns in zip(STEPS, times_of_steps, strict=True):
        medians[f"{step}_ms"] = statistics.median(times_ns) / 1e6
    totals = [sum(run) / 1e6 for run in runs]
    return Pipeline(
        image=photograph.name,
        threads=threads,
        runs=len(totals),
        **medians,
        pipeline_ms=statistics.median(totals),
        pipeline_p90_ms=float(np.quantile(totals, 0.9)),
        normalization=normalization,
        clock="CPU time" if threads == 1 else "wall time",
    )


def _read_normalization(path: Path) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Return mean and deviation for each channel, and where they come from."""
    metadata = read_metadata(path.read_bytes())
    if metadata is None or not metadata.mean or not metadata.std:
        return (
            ASSUMED,
            ASSUMED,
            "assumed (mean and deviation 127.5), because the file does not state it",
        )
    # One number stands for all three channels.
    mean = metadata.mean * 3 if len(metadata.mean) == 1 else metadata.mean
    std = metadata.std * 3 if len(metadata.std) == 1 else metadata.std
    return mean, std, "from the file"


def collect(
    model: str, image: str, threads: int, kernels: str, mean: list[float], std: list[float]
) -> dict[str, object]:
    """Return the nanoseconds of each of ``STEPS`` in each run;
    :func:`time_pipeline` calls this in a child process.
    """
    from advisor.datasets import InputSpec, load
    from advisor.tflite import dequantize, quantize

    interpreter = agent.new_interpreter(model, threads, kernels)
    interpreter.allocate_tensors()
    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    shape = list(map(int, inputs[0]["shape"]))
    if (
        len(inputs) != 1
        or len(shape) != 4
        or shape[0] != 1
        or shape[3] != 3
        or shape[1] != shape[2]
    ):
        raise agent.AgentError("pipeline", "its input is not one square RGB image")
    spec = InputSpec(shape[1], (mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))
    # At one thread, the calling thread does all the work,
    # and other processes hardly affect its CPU time.
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    steps: tuple[Callable[[Any], Any], ...] = (
        lambda _: load(Path(image), shape[1]),
        lambda pixels: quantize(spec.normalise(pixels)[None], inputs[0]),
        lambda values: interpreter.set_tensor(inputs[0]["index"], values),
        lambda _: interpreter.invoke(),
        lambda _: [interpreter.get_tensor(detail["index"]) for detail in outputs],
        lambda values: [
            dequantize(*output).reshape(-1).argsort()[-TOP:]
            for output in zip(values, outputs, strict=True)
        ],
    )

    def run() -> list[int]:
        value = None
        marks = [clock()]
        for step in steps:
            value = step(value)
            marks.append(clock())
        return [after - before for before, after in pairwise(marks)]

    # The first runs fill caches and allocate memory, which an app does once.
    for _ in range(2):
        run()
    deadline = time.perf_counter() + TIME_LIMIT_S
    runs = list[list[int]]()
    while len(runs) < MOST_RUNS and (len(runs) < LEAST_RUNS or time.perf_counter() < deadline):
        runs.append(run())
    return {"runs": runs}


@dataclass(frozen=True)
class Window:
    """A part of the time."""

    start_s: float  #: seconds from the start of the first run
    runs: int  #: number of runs that began in it
    median_ms: float  #: median of a run in milliseconds


@dataclass(frozen=True)
class Sustained(Written):
    """The latency of one file in a run without a pause."""

    entries = ("*", "first_ms", "last_ms", "ratio")

    threads: int  #: number of threads
    seconds: float  #: length of the run in seconds
    clock: str  #: ``CPU time`` at one thread, otherwise ``wall time``
    span_s: float  #: length of the first and of the last part, which are compared
    windows: tuple[Window, ...]  #: equal parts of the time
    others_cores: float | None  #: processors that other processes kept busy, None if unknown

    @property
    def first_ms(self) -> float:
        """Median of a run in the first part."""
        return statistics.median(
            row.median_ms for row in self.windows if row.start_s < self.span_s
        )

    @property
    def last_ms(self) -> float:
        """Median of a run in the last part."""
        begin = self.windows[-1].start_s - self.span_s + self.seconds / len(self.windows)
        return statistics.median(
            row.median_ms for row in self.windows if row.start_s >= begin - 1e-3
        )

    @property
    def ratio(self) -> float:
        """Last part divided by first part: 1.3 is 30 % slower at the end."""
        return self.last_ms / self.first_ms

    @property
    def sentence(self) -> str:
        """The result in words, with its figures."""
        spans = (
            f"{self.first_ms:.2f} ms in the first {self.span_s:g} s, {self.last_ms:.2f} ms in the"
            " last"
        )
        if self.ratio > SLOWED:
            return f"slows down by {self.ratio - 1:.0%} in a long run: {spans}"
        return f"keeps its speed: {spans} ({self.ratio - 1:+.1%})"


def run_sustained(
    model: Path | str,
    threads: int,
    seconds: float,
    setup: InterpreterOptions = DEFAULT,
    windows: int = WINDOWS,
) -> Sustained:
    """Run a file for ``seconds`` without a pause in a child process;
    errors are those of :func:`.timing.measure`.
    """
    path = existing_model(model)
    options = [
        "--threads",
        str(threads),
        "--sustained",
        str(seconds),
        "--windows",
        str(windows),
        *setup.options(),
    ]
    script = [agent.__file__, str(path.absolute()), *options]
    document = cast(
        "SustainedDocument", run_json(script, seconds * 1.5 + 120, path.name, setup.python)
    )
    parts = []
    for row in document["windows"]:
        # At several threads there is no CPU time of a run.
        median_ms = (row["cpu_ns"] or row["wall_ns"]) / 1e6
        parts.append(Window(row["start_s"], row["runs"], median_ms))
    clock = "CPU time" if threads == 1 else "wall time"
    span_s = min(SPAN_S, seconds / 5)
    return Sustained(
        threads, seconds, clock, span_s, tuple(parts), document["load"]["others_cores"]
    )


def advise_threads(timing: ModelTiming, loaded: Sequence[LatencyResult] = ()) -> tuple[str, ...]:
    """Return which thread count is the fastest,
    and which is so during a load on the other processors, if measured.

    During a load, the wall time counts.
    """
    alone = {result.threads: result for result in timing.results}
    beside = {result.threads: result.wall.median for result in loaded}
    if 1 not in alone or len(alone) < 2:
        times = []
        for count, time_ms in beside.items():
            times.append(f"{plural(count, 'thread')}: {time_ms:.2f} ms")
        if times:
            return (f"during a load on the other processors, {', '.join(times)}",)
        return ()
    # Thread counts that were timed under different loads cannot be compared.
    contended = []
    for count, row in alone.items():
        if row.contended:
            contended.append(count)
    if contended:
        counts = " and ".join(plural(count, "thread") for count in contended)
        first = (
            f"the machine was contended at {counts}: measure again on a quiet machine to compare"
            " counts"
        )
    else:
        first = _name_fastest(
            {count: row.rank_ms for count, row in alone.items()}, "without other load"
        )
    return (
        (first, _name_fastest(beside, "during a load on the other processors"))
        if beside
        else (first,)
    )


def _name_fastest(times: Mapping[int, float], where: str) -> str:
    """Name the fastest thread count,
    and compare it with one thread or with the best of several threads.
    """
    best = min(times, key=lambda count: times[count])
    if best != 1:
        change = f"{times[1]:.2f} -> {times[best]:.2f} ms"
        return f"{best} threads are {times[1] / times[best]:.1f}x faster {where} ({change})"
    several_counts = [count for count in times if count != 1]
    best_of_several = min(several_counts, key=lambda count: times[count])
    several = f"{best_of_several} threads take {times[best_of_several]:.2f} ms"
    return f"1 thread is the fastest {where} ({times[1]:.2f} ms): {several}"
