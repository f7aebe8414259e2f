"""Run a diagnosis of two files on a folder of images, in a child process, as a file may crash the runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from advisor.compression.calibration import CalibrationImages, drawn, find_images
from advisor.compression.diagnosis.diagnose import IMAGES, SECONDS
from advisor.compression.diagnosis.values import Diagnosis
from advisor.compression.input_spec import spec_of_file
from advisor.core.errors import StageError, UsageError
from advisor.datasets.images import InputSpec
from advisor.isolation import ChildPool, Limits

BUNDLED = "bundled photographs"
_MARGIN_S = 300.0
"""Added to the time limit, for loading both files and for the last image."""


def diagnose(
    model: Path,
    against: Path,
    calibration: Path | None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Compare a quantized file with its float file.

    Args:
        model: the quantized file.
        against: the float file.
        calibration: folder of images; None for the bundled photographs.
        mean: subtracted from RGB 0..255; None to use the files' metadata.
        std: divisor of the difference.

    Raises:
        UsageError: as :func:`advisor.compression.diagnosis.diagnose.diagnose` and what reads the images say, or the
            runtime cannot run a file.
    """
    spec = _spec(model, against, mean, std)
    found = find_images(calibration) if calibration else ()
    images = drawn(found, IMAGES, 0)
    source = f"{len(images)} of {len(found)} images of {calibration}" if found else BUNDLED
    return run_in_child(model, against, images, spec, source)


def run_in_child(
    model: Path, against: Path, images: Sequence[Path], spec: InputSpec, source: str, seconds: float = SECONDS
) -> Diagnosis:
    """Run the diagnosis in a child process, so that a native crash ends only that process.

    Raises:
        UsageError: as :func:`diagnose`.
    """
    limits = Limits(seconds=seconds + _MARGIN_S, memory_bytes=3_000_000_000)
    job = f"{__name__}:diagnose_images"
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder, ChildPool(Path(folder, "log.txt")) as pool:
        try:
            found: Diagnosis = pool.call(job, model, against, tuple(images), spec, source, seconds, limits=limits)
        except StageError as error:
            message = error.message if ".tflite" in error.message else f"{model.name} against {against.name}: {error}"
            raise UsageError(message, error.hint) from error
    return found


def diagnose_images(
    model: Path, against: Path, images: Sequence[Path], spec: InputSpec, source: str, seconds: float
) -> Diagnosis:
    """Read the images, or crops of the bundled photographs, and compare the files."""
    from advisor.compression.diagnosis.diagnose import diagnose as diagnosed

    arrays = CalibrationImages(tuple(images), spec).read()
    return diagnosed(model, against, arrays[:: max(1, len(arrays) // IMAGES)][:IMAGES], source, seconds)


def _spec(model: Path, against: Path, mean: Sequence[float] | None, std: Sequence[float] | None) -> InputSpec:
    """Return how images are read: by the metadata of the float file, else of the quantized one."""
    from advisor.tflite.metadata import read_metadata
    from advisor.tflite.model import read

    graph = read(against)
    read(model)
    said = [read_metadata(path.read_bytes(), path.name) for path in (against, model)]
    known = next((one for one in said if one is not None and one.mean), None)
    return spec_of_file(against.name, graph, known, mean, std)
