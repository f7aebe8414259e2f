"""The work on one file, as functions that child processes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from advisor.compression.calibration import CalibrationImages
from advisor.compression.make import Sizes, make_file, sizes_of
from advisor.compression.quantization.observe import Observer
from advisor.compression.recipes.base import RecipeInputs
from advisor.compression.user_model import agreement
from advisor.compression.user_model.by_task import KINDS
from advisor.compression.user_model.samples import Samples
from advisor.compression.user_model.values import DelegatedPart, FileAgreement
from advisor.datasets.images import InputSpec
from advisor.tflite.metadata import Metadata


def make(
    model: Path,
    recipe: str,
    calibration: CalibrationImages | Samples,
    inputs: RecipeInputs,
    metadata: Metadata | None,
    out: Path,
) -> Mapping[str, Any]:
    """Make one file with the observer of this process; see :func:`advisor.compression.make.make_file`."""
    return make_file(model, recipe, calibration, replace(inputs, observer=_observer()), metadata, out)


@cache
def _observer() -> Observer:
    """Return the observer that this process keeps between recipes of the same model."""
    return Observer()


def describe(path: Path, target: str) -> tuple[Sizes, DelegatedPart]:
    """Return the sizes of a file, and how much of it an accelerator runs."""
    from advisor.measurement.accelerators.delegation import delegate
    from advisor.measurement.accelerators.rules import accelerator
    from advisor.tflite.model import read

    found = delegate(read(path.read_bytes(), path.name), accelerator(target))
    return sizes_of(path), DelegatedPart(found.taken, found.operators, found.share, found.kept, found.reasons)


def compare(path: Path, reference: Path, samples: Samples) -> FileAgreement:
    """Compare a form with its float file on samples; see :func:`advisor.compression.user_model.agreement.compare`."""
    return agreement.compare(path, reference, samples)


def answer(path: Path, task: str, images: Sequence[Path], spec: InputSpec, seed: int) -> Any:
    """Return the answers to images, or to the bundled photographs if there are none; see :class:`.by_task.TaskFiles`.

    Raises:
        StageError: the runtime cannot run the file.
    """
    return KINDS[task].answers(path, images, spec, seed)
