"""Measure the time from an image file to an answer: decode, normalise, copy in, run, copy out, five best classes."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np

from advisor.core.errors import UsageError
from advisor.isolation.agent import AgentError, new_interpreter
from advisor.measurement.processes.child import call_json
from advisor.measurement.processes.model_file import existing_model
from advisor.tflite.metadata import read_metadata

TIME_LIMIT_S = 1.5
MOST_RUNS, LEAST_RUNS = 100, 5
TOP = 5
STEPS = ("decode", "normalise", "copy_in", "invoke", "copy_out", "answer")
ASSUMED = (127.5, 127.5, 127.5)  # [-1, 1), the input range of most converted classifiers


@dataclass(frozen=True)
class Pipeline:
    """Median times of the steps in milliseconds; their sum is not exactly ``pipeline_ms``, the median of the whole.

    Attributes:
        image: name of the image file.
        threads: number of threads of the runtime.
        runs: number of repetitions.
        decode_ms: read the file, decode it, turn it upright and resize it to the input's size.
        normalise_ms: subtract the mean, divide by the deviation, and convert to the input's type.
        copy_in_ms: copy into the input tensor.
        invoke_ms: run the model.
        copy_out_ms: copy out of the output tensors.
        answer_ms: convert to floats and find the five best classes.
        pipeline_ms: all steps.
        pipeline_p90_ms: 90th percentile of all steps.
        normalization: where mean and deviation come from.
        clock: ``CPU time`` at one thread, otherwise ``wall time``.
    """

    image: str
    threads: int
    runs: int
    decode_ms: float
    normalise_ms: float
    copy_in_ms: float
    invoke_ms: float
    copy_out_ms: float
    answer_ms: float
    pipeline_ms: float
    pipeline_p90_ms: float
    normalization: str
    clock: str

    @property
    def sentence(self) -> str:
        """The time of all steps compared with the run of the model, in words."""
        share = self.invoke_ms / self.pipeline_ms
        return (
            f"from '{self.image}' to an answer takes {self.pipeline_ms:.2f} ms, {share:.0%} of it in the model; "
            f"the copies in and out take {1e3 * (self.copy_in_ms + self.copy_out_ms):.0f} us"
        )


def time_pipeline(model: Path | str, threads: int = 1, image: Path | None = None, kernels: str = "default") -> Pipeline:
    """Measure all steps from an image file to an answer in a child process.

    Args:
        model: a classifier of one square RGB image.
        threads: number of threads of the runtime.
        image: an image file, None for a photograph of 640 x 427 pixels from scikit-image.
        kernels: ``default`` or ``builtin``.

    Raises:
        UsageError: the model or the image is missing.
        StageError: the input of the model is not an image, or it cannot be run.
    """
    path, photograph = existing_model(model), image or _photograph()
    if not photograph.is_file():
        raise UsageError(f"no image file '{photograph}'", "give a JPEG, PNG, WebP, BMP or GIF file")
    mean, std, normalization = _normalization(path)
    files = {"model": str(path.absolute()), "image": str(photograph.absolute())}
    options = {"threads": threads, "kernels": kernels, "mean": mean, "std": std}
    runs = call_json(__name__, 60.0, path.name, **files, **options)["runs"]
    columns = zip(STEPS, zip(*runs, strict=True), strict=True)
    parts = {f"{step}_ms": statistics.median(column) / 1e6 for step, column in columns}
    totals = [sum(run) / 1e6 for run in runs]
    return Pipeline(
        image=photograph.name,
        threads=threads,
        runs=len(totals),
        **parts,
        pipeline_ms=statistics.median(totals),
        pipeline_p90_ms=float(np.quantile(totals, 0.9)),
        normalization=normalization,
        clock="CPU time" if threads == 1 else "wall time",
    )


def _photograph() -> Path:
    """Return the photograph that every installation has, without the slow import of its package."""
    spec = find_spec("skimage")
    return Path(spec.origin).parent / "data" / "rocket.jpg" if spec and spec.origin else Path("rocket.jpg")


def _normalization(path: Path) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Return mean and deviation for each channel, and where they come from."""
    metadata = read_metadata(path.read_bytes())
    if metadata is None or not metadata.mean or not metadata.std:
        return ASSUMED, ASSUMED, "assumed (mean and deviation 127.5), because the file does not state it"
    mean, std = (values * 3 if len(values) == 1 else values for values in (metadata.mean, metadata.std))
    return mean, std, "from the file"


def collect(
    model: str, image: str, threads: int, kernels: str, mean: list[float], std: list[float]
) -> dict[str, object]:
    """Return the nanoseconds of each of ``STEPS`` in each run; :func:`time_pipeline` calls this in a child process."""
    classifier = _Classifier(model, image, threads, kernels, mean, std)
    for _ in range(2):
        classifier.run()
    limit, runs = time.perf_counter() + TIME_LIMIT_S, list[list[int]]()
    while len(runs) < MOST_RUNS and (len(runs) < LEAST_RUNS or time.perf_counter() < limit):
        runs.append(classifier.run())
    return {"runs": runs}


class _Classifier:
    """A loaded image classifier and an image."""

    def __init__(self, model: str, image: str, threads: int, kernels: str, mean: list[float], std: list[float]):
        self._image = Path(image)
        self._mean, self._std = (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])
        self._interpreter = new_interpreter(model, threads, kernels)
        self._interpreter.allocate_tensors()
        inputs = self._interpreter.get_input_details()
        shape = [int(side) for side in inputs[0]["shape"]]
        if len(inputs) != 1 or len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or shape[1] != shape[2]:
            raise AgentError("pipeline", "its input is not one square RGB image")
        self._input, self._size = inputs[0], shape[1]
        self._outputs = self._interpreter.get_output_details()
        # At one thread, the calling thread does all the work, and other processes hardly affect its CPU time.
        self._clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns

    def run(self) -> list[int]:
        """Run all steps once and return the nanoseconds of each of ``STEPS``."""
        from advisor.datasets.images import InputSpec, load
        from advisor.tflite.quantization import dequantize, quantize

        spec = InputSpec(self._size, self._mean, self._std)
        marks = [self._clock()]
        pixels = load(self._image, self._size)
        marks.append(self._clock())
        values = quantize(spec.normalise(pixels)[None], self._input)
        marks.append(self._clock())
        self._interpreter.set_tensor(self._input["index"], values)
        marks.append(self._clock())
        self._interpreter.invoke()
        marks.append(self._clock())
        results = [self._interpreter.get_tensor(detail["index"]) for detail in self._outputs]
        marks.append(self._clock())
        for result, detail in zip(results, self._outputs, strict=True):
            dequantize(result, detail).reshape(-1).argsort()[-TOP:]
        marks.append(self._clock())
        return [after - before for before, after in pairwise(marks)]
