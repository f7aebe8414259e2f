"""Time all steps from an image file to an answer of a classifier.

``advisor benchmark`` runs it for files that take one square image. :func:`collect_steps` runs in a
child process.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import UsageError
from advisor.isolation import agent
from advisor.measurement._processes import call_json, existing_model
from advisor.tflite import Metadata

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
    path = existing_model(model)
    photograph = image or _find_photograph()
    if not photograph.is_file():
        raise UsageError(
            f"no image file '{photograph}'", "give a JPEG, PNG, WebP, BMP or GIF file"
        )
    mean, std, normalization = _read_normalization(path)
    files = {"model": str(path.absolute()), "image": str(photograph.absolute())}
    options = {"threads": threads, "kernels": kernels, "mean": mean, "std": std}
    runs = call_json(f"{__name__}:collect_steps", 60.0, path.name, **files, **options)["runs"]
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


def _find_photograph() -> Path:
    """Return the photograph that scikit-image has, whose import would be slow."""
    spec = find_spec("skimage")
    if spec is None or not spec.origin:
        return Path("rocket.jpg")
    return Path(spec.origin).parent / "data" / "rocket.jpg"


def _read_normalization(path: Path) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Return mean and deviation for each channel, and where they come from."""
    metadata = Metadata.read(path.read_bytes())
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


def collect_steps(
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
    is_rgb = len(shape) == 4 and shape[0] == 1 and shape[3] == 3
    if len(inputs) != 1 or not is_rgb or shape[1] != shape[2]:
        raise agent.AgentError("pipeline", "its input is not one square RGB image")
    spec = InputSpec(shape[1], (mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))
    # At one thread, the calling thread does all the work,
    # and other processes hardly affect its CPU time.
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns

    def find_best(values: list[Any]) -> list[Any]:
        """Return the best classes of each output."""
        best = []
        for value, detail in zip(values, outputs, strict=True):
            best.append(dequantize(value, detail).reshape(-1).argsort()[-TOP:])
        return best

    steps: tuple[Callable[[Any], Any], ...] = (
        lambda _: load(Path(image), shape[1]),
        lambda pixels: quantize(spec.normalise(pixels)[None], inputs[0]),
        lambda values: interpreter.set_tensor(inputs[0]["index"], values),
        lambda _: interpreter.invoke(),
        lambda _: [interpreter.get_tensor(detail["index"]) for detail in outputs],
        find_best,
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
    while len(runs) < MOST_RUNS:
        if len(runs) >= LEAST_RUNS and time.perf_counter() >= deadline:
            break
        runs.append(run())
    return {"runs": runs}
