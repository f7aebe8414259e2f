"""Measure the time from an image file to an answer: decode, normalise, copy in, run, copy out, five best classes."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.measurement.latency.summary import percentile
from advisor.measurement.processes.child import existing_model, run_json
from advisor.tflite.metadata import read_metadata

PROCESS = "advisor.measurement.latency.end_to_end_process"
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

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return asdict(self)


def time_pipeline(
    model: Path | str, threads: int = 1, image: Path | None = None, kernels: str = "default", timeout_s: float = 60.0
) -> Pipeline:
    """Measure all steps from an image file to an answer in a child process.

    Args:
        model: a classifier of one square RGB image.
        threads: number of threads of the runtime.
        image: an image file, None for a photograph of 640 x 427 pixels from scikit-image.
        kernels: ``default`` or ``builtin``.
        timeout_s: time limit of the child process.

    Raises:
        UsageError: the model or the image is missing.
        StageError: the input of the model is not an image, or it cannot be run.
    """
    path, photograph = existing_model(model), image or _photograph()
    if not photograph.is_file():
        raise UsageError(f"no image file '{photograph}'", "give a JPEG, PNG, WebP, BMP or GIF file")
    mean, std, normalization = _normalization(path)
    options = ["--threads", str(threads), "--kernels", kernels, f"--mean={_joined(mean)}", f"--std={_joined(std)}"]
    arguments = [str(path.absolute()), str(photograph.absolute()), *options]
    document = run_json(PROCESS, arguments, timeout_s, path.name)
    columns = zip(*document["runs"], strict=True)
    parts = {
        f"{name}_ms": statistics.median(column) / 1e6 for name, column in zip(document["steps"], columns, strict=True)
    }
    totals = [sum(run) / 1e6 for run in document["runs"]]
    return Pipeline(
        image=photograph.name,
        threads=threads,
        runs=len(totals),
        **parts,
        pipeline_ms=statistics.median(totals),
        pipeline_p90_ms=percentile(totals, 0.9),
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
    return _channels(metadata.mean), _channels(metadata.std), "from the file"


def _channels(values: tuple[float, ...]) -> tuple[float, ...]:
    return values * 3 if len(values) == 1 else values


def _joined(values: tuple[float, ...]) -> str:
    return ",".join(str(value) for value in values)
