"""Diagnose a quantized file in a child process, because a file may crash the runtime.

`advisor diagnose` calls :func:`diagnose`, and a search :func:`run_in_child` for forms of its best
cards that lose accuracy. The child imports ``diagnose_images`` by its name.
"""

from collections.abc import Sequence
from pathlib import Path

from advisor.compression import FastKernels, compare_layers
from advisor.core import Diagnosis, StageError
from advisor.datasets import CalibrationImages, InputSpec
from advisor.engine._file_input import draw_paths, spec_of_file
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.measurement import Accelerator, Delegation
from advisor.tflite import Metadata, Model, read

IMAGES = 16
"""Number of images. Each gives thousands of values a layer, enough for a ratio of powers."""

SECONDS = 60.0
"""Time limit: no further image is started after it."""

BUNDLED = "bundled photographs"

ON_CPU = "xnnpack"

_MARGIN_S = 300.0
"""Added to the time limit, for loading both files and for the last image."""


def diagnose(
    model: Path,
    against: Path,
    calibration: Path | None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Compare a quantized file with its float file on a folder's images, or bundled photographs.

    ``mean`` is subtracted from RGB 0..255, and ``std`` divides the difference; None to use the
    files' metadata. It raises the errors of :func:`compare_layers` and of what reads the
    images as UsageErrors.
    """
    graph = read(against)
    # A damaged file is an error before images are looked for.
    read(model)
    spec = spec_of_file(against.name, graph, _find_normalization(against, model), mean, std)
    files = CalibrationImages.find_paths(calibration) if calibration else ()
    images = draw_paths(files, IMAGES, 0)
    source = f"{len(images)} of {len(files)} images of {calibration}" if files else BUNDLED
    return run_in_child(model, against, images, spec, source)


def _find_normalization(*paths: Path) -> Metadata | None:
    """Return the metadata of the first file that states a normalization."""
    for path in paths:
        metadata = Metadata.read(path.read_bytes(), path.name)
        if metadata and metadata.mean:
            return metadata
    return None


def run_in_child(
    model: Path,
    against: Path,
    images: Sequence[Path],
    spec: InputSpec,
    source: str,
    seconds: float = SECONDS,
) -> Diagnosis:
    """Run the diagnosis in a child process, so that a native crash ends only that process.

    See :func:`diagnose`; ``source`` says which images these are.
    """
    limits = CallLimits(seconds=seconds + _MARGIN_S, memory_bytes=3_000_000_000)
    job = f"{__name__}:diagnose_images"
    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        try:
            diagnosis: Diagnosis = pool.call(
                job, model, against, tuple(images), spec, source, seconds, limits=limits
            )
        except StageError as error:
            # Some errors name one of the files already.
            files = f"{model.name} against {against.name}"
            named = ".tflite" if ".tflite" in error.message else files
            raise error.blame_file(named) from error
    return diagnosis


def diagnose_images(
    model: Path,
    against: Path,
    images: Sequence[Path],
    spec: InputSpec,
    source: str,
    seconds: float,
) -> Diagnosis:
    """Read the images, or crops of the bundled photographs, and compare the files."""
    arrays = CalibrationImages(tuple(images), spec).read()
    # Evenly over all of them: the bundled crops come photograph by photograph.
    step = max(1, len(arrays) // IMAGES)
    images_used = arrays[::step][:IMAGES]
    return compare_layers(model, against, images_used, source, find_fast_kernels, seconds)


def find_fast_kernels(model: Model) -> FastKernels:
    """Return what the CPU's fast kernels take of a file."""
    delegation = Delegation.of_operators(model, Accelerator.find(ON_CPU))
    return FastKernels(
        title=delegation.accelerator.title,
        share=delegation.share,
        pieces=delegation.kept,
        reasons=delegation.reasons,
        refused={row.index: row.reason for row in delegation.refused},
        sentence=delegation.sentence,
    )
