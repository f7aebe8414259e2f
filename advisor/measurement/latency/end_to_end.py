"""From a picture file to an answer: reading, normalising, copying in, running, copying out, the five best classes."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError
from advisor.measurement.latency.summary import percentile
from advisor.measurement.processes.child import existing_model, run_json
from advisor.tflite.metadata import read_metadata

AGENT = "advisor.measurement.latency.end_to_end_process"
ASSUMED = (127.5, 127.5, 127.5)  # [-1, 1), what most converted classifiers take


@dataclass(frozen=True)
class Pipeline:
    """Medians in milliseconds; their sum is not exactly ``pipeline_ms``, the median of whole ways.

    Attributes:
        image: name of the picture file.
        threads: number of threads of the runtime.
        runs: how often the whole way was gone.
        decode_ms: reading the file, decoding, turning upright and resizing it to the input's size.
        normalise_ms: mean and deviation, and rounding to the input's type.
        copy_in_ms: into the input tensor.
        invoke_ms: the run itself.
        copy_out_ms: out of the output tensors.
        answer_ms: back to floats, and the five best classes.
        pipeline_ms: all of it.
        pipeline_p90_ms: 90th percentile of all of it.
        normalization: where mean and deviation come from.
        clock: ``CPU time`` at one thread, else ``wall time``.
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
        """What the whole way costs beside the run."""
        share = self.invoke_ms / self.pipeline_ms
        return (
            f"from '{self.image}' to an answer takes {self.pipeline_ms:.2f} ms, {share:.0%} of it the model; "
            f"the copies in and out take {1e3 * (self.copy_in_ms + self.copy_out_ms):.0f} us"
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def time_pipeline(
    model: Path | str, threads: int = 1, image: Path | None = None, kernels: str = "default", timeout_s: float = 60.0
) -> Pipeline:
    """Time the whole way, in a child process.

    Args:
        model: a classifier of one square RGB picture.
        threads: number of threads of the runtime.
        image: a picture file, None for a photograph of 640 x 427 pixels that scikit-image carries.
        kernels: ``default`` or ``builtin``.
        timeout_s: limit of the child.

    Raises:
        UsageError: the model or the picture is missing.
        StageError: the model takes something else than a picture, or cannot be run.
    """
    path, photograph = existing_model(model), image or _photograph()
    if not photograph.is_file():
        raise UsageError(f"no image file '{photograph}'", "give a JPEG, PNG, WebP, BMP or GIF file")
    mean, std, normalization = _normalization(path)
    options = ["--threads", str(threads), "--kernels", kernels, f"--mean={_joined(mean)}", f"--std={_joined(std)}"]
    arguments = [str(path.absolute()), str(photograph.absolute()), *options]
    document = run_json(AGENT, arguments, timeout_s, path.name)
    columns = zip(*document["runs"], strict=True)
    parts = {
        f"{name}_ms": statistics.median(column) / 1e6 for name, column in zip(document["steps"], columns, strict=True)
    }
    wholes = [sum(run) / 1e6 for run in document["runs"]]
    return Pipeline(
        image=photograph.name,
        threads=threads,
        runs=len(wholes),
        **parts,
        pipeline_ms=statistics.median(wholes),
        pipeline_p90_ms=percentile(wholes, 0.9),
        normalization=normalization,
        clock="CPU time" if threads == 1 else "wall time",
    )


def _photograph() -> Path:
    """Return the photograph that every installation has; found without the slow import of its package."""
    spec = find_spec("skimage")
    return Path(spec.origin).parent / "data" / "rocket.jpg" if spec and spec.origin else Path("rocket.jpg")


def _normalization(path: Path) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Return mean and deviation by channel, and where they come from."""
    metadata = read_metadata(path.read_bytes())
    if metadata is None or not metadata.mean or not metadata.std:
        return ASSUMED, ASSUMED, "assumed (mean and deviation 127.5): the file does not say"
    return _channels(metadata.mean), _channels(metadata.std), "from the file"


def _channels(values: tuple[float, ...]) -> tuple[float, ...]:
    return values * 3 if len(values) == 1 else values


def _joined(values: tuple[float, ...]) -> str:
    return ",".join(str(value) for value in values)
