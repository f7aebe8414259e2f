"""Measure the time from an image file to an answer, and the conditions of a measurement."""

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np

from advisor.core.errors import UsageError
from advisor.core.units import plural
from advisor.isolation.agent import AgentError, Load, new_interpreter
from advisor.isolation.process import ChildProcess
from advisor.measurement.host import read_text
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


OBSERVED_S = 0.5
PATIENCE_S = 5.0
TOLERATED = 0.5  # processors that others may take from the threads: the usual load of a desktop
# With these drivers, `powersave` still raises the frequency during work (kernel pages of intel_pstate and amd-pstate).
SCALING_POWERSAVE = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})

# The process ends shortly after its parent.
_BURN = "import os, sys\nparent = int(sys.argv[1])\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"


@dataclass(frozen=True)
class Conditions:
    """The state of the machine before a measurement.

    Attributes:
        cores: number of processors that this process may use.
        others_cores: how many of them other processes kept busy, None if unknown.
        governor: frequency governor of the first processor, empty if there is none.
        driver: its frequency driver.
        quota_cores: processors that the quota of a container allows, None if there is none.
    """

    cores: int
    others_cores: float | None
    governor: str = ""
    driver: str = ""
    quota_cores: float | None = None

    def objections(self, threads: int) -> tuple[str, ...]:
        """Return the reasons why a timing with this many threads would be meaningless."""
        found = []
        if self.others_cores is not None and self.others_cores > max(0, self.cores - threads) + TOLERATED:
            busy = f"{self.others_cores:.1f} of {self.cores} processors busy"
            found.append(f"other processes keep {busy}, and the timing needs {plural(threads, 'thread')}")
        if self.governor == "powersave" and self.driver not in SCALING_POWERSAVE:
            found.append(f"the frequency governor '{self.governor}' holds the processors at their lowest frequency")
        if self.quota_cores is not None and self.quota_cores < threads:
            found.append(f"the container may use {self.quota_cores:g} processors, fewer than the {threads} asked for")
        return tuple(found)


def observe(seconds: float = OBSERVED_S) -> Conditions:
    """Observe the machine for ``seconds`` and return its conditions."""
    load = Load()
    time.sleep(seconds)
    seen = load.result()
    frequency = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    return Conditions(
        cores=seen["cores"],
        others_cores=seen["others_cores"],
        governor=read_text(frequency / "scaling_governor"),
        driver=read_text(frequency / "scaling_driver"),
        quota_cores=quota(read_text(Path("/sys/fs/cgroup/cpu.max"))),
    )


def require_quiet(threads: Sequence[int], force: bool, patience_s: float = PATIENCE_S) -> Conditions:
    """Return the conditions as soon as the machine is quiet enough for timing; wait for a few seconds.

    Args:
        threads: the thread counts to time.
        force: whether to return at once, even if the machine is busy.
        patience_s: how long to wait.

    Raises:
        UsageError: the machine is not quiet enough, and ``force`` is not set.
    """
    end = time.monotonic() + patience_s
    while True:
        conditions = observe()
        objections = conditions.objections(max(threads))
        if force or not objections:
            return conditions
        if time.monotonic() >= end:
            raise UsageError(
                f"not timed: {'; '.join(objections)}",
                "stop other programs or use fewer threads; with --force, advisor measures, and the verdict says so",
            )


def quota(text: str) -> float | None:
    """Return how many processors a cgroup's ``cpu.max`` (``<quota> <period>`` or ``max <period>``) allows."""
    fields = text.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]) / int(fields[1])


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep ``count`` processors busy as long as the context lasts."""
    command = [sys.executable, "-I", "-S", "-c", _BURN, str(os.getpid())]
    children = [ChildProcess(command) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
