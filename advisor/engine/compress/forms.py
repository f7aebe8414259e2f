"""Make the forms of a file with the stages of a search, in its artifact cache."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.compression.calibration import PHOTOGRAPHS_VERSION, CalibrationImages
from advisor.compression.make import Sizes, sizes_of
from advisor.compression.recipes import Recipe
from advisor.compression.recipes.base import Needs, RecipeInputs
from advisor.compression.user_model.samples import Samples
from advisor.compression.user_model.values import DelegatedPart, RecipeResult
from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe
from advisor.datasets.images import InputSpec
from advisor.engine.compress.question import FLOAT, CompressionQuestion
from advisor.engine.execution import Executor, executor_for
from advisor.engine.pipeline.events import StageAborted
from advisor.engine.pipeline.materials import Artefact, FloatModel, Materials
from advisor.engine.pipeline.stage import Inputs, Scope
from advisor.engine.pipeline.stages.artefacts import calibrated, compressed, shares_calibration
from advisor.engine.pipeline.walker import Walker, Workers
from advisor.engine.question import Execution
from advisor.store import ArtifactCache
from advisor.store.files import sha256_file
from advisor.tflite.metadata import Metadata

Tell = Callable[[str], None]


@dataclass(frozen=True)
class FileForms:
    """Inputs of the forms of a user's file; see :class:`advisor.engine.pipeline.stages.artefacts.FormInputs`."""

    asked: CompressionQuestion

    @property
    def spec(self) -> InputSpec | None:
        """How an image becomes the file's input; None with samples."""
        return self.asked.spec

    def stands_in(self, _materials: Materials) -> bool:
        """Return False: the weights are the user's."""
        return False

    def calibration(self, _materials: Materials) -> CalibrationImages | Samples:
        """Return the images or the samples to calibrate on."""
        return self.asked.calibration

    def calibration_key(self, _materials: Materials) -> object:
        """Return the hashes of the images or of the samples."""
        samples, paths = self.asked.samples, self.asked.images.calibration
        if samples is not None:
            return ["samples", sha256_file(samples.calibration.path), samples.calibration.rows]
        if not paths:
            return ["photographs", PHOTOGRAPHS_VERSION, self.asked.question.seed]
        return ["images", *map(sha256_file, paths)]

    def metadata(self, _materials: Materials) -> Metadata | None:
        """Return the metadata of the file."""
        return self.asked.metadata

    def for_recipe(self, _materials: Materials) -> RecipeInputs:
        """Return the labelled images, the limit of the loss and the time limit."""
        limit = self.asked.question.limits.max_drop_points
        return RecipeInputs(None, self.asked.images.training, limit, self.asked.learn_s)

    def recipe_key(self, materials: Materials) -> Inputs:
        """Return what names these in a cache key."""
        given, images = self.for_recipe(materials), self.asked.images.training
        own = []
        if images is not None:
            hashes = [list(map(sha256_file, paths)) for paths in (images.paths, images.validation_paths)]
            own = [*hashes, images.labels, images.validation_labels, images.classes, images.seed]
        return {"max_drop": given.max_drop_points, "seconds": given.seconds, "images": own}


def make_forms(asked: CompressionQuestion, log: Path, tell: Tell) -> list[RecipeResult]:
    """Make each form of the question; a failure becomes the row of that recipe and does not stop the others.

    Args:
        asked: the question.
        log: takes the output of child processes.
        tell: receives progress messages.
    """
    executor = executor_for(Execution(), lambda: log)
    with ThreadPoolExecutor(1) as thread, contextlib.closing(executor):  # a notebook's own thread runs a loop
        return thread.submit(asyncio.run, _made(asked, executor, tell)).result()


async def _made(asked: CompressionQuestion, executor: Executor, tell: Tell) -> list[RecipeResult]:
    materials = Materials(ArtifactCache(), None, {}, executor.host, asked.question)
    walker = Walker(materials, Workers(executor.machine, executor.pools))
    return [await _row(asked, walker, one, tell) for one in asked.recipes]


async def _row(asked: CompressionQuestion, walker: Walker, one: Recipe, tell: Tell) -> RecipeResult:
    path, start = asked.path_of(one.name), time.monotonic()
    notes: Mapping[str, Any] = {}
    try:
        if one.name != FLOAT:
            _require_learnable(asked, one)
            tell(f"making {one.name}")
            notes = await _form(asked, walker, one.name, path)
        sizes, taken = await asyncio.to_thread(_described, path, asked.accelerator)
    except AdvisorError as error:
        cause = error.__cause__ if isinstance(error, StageAborted) else error
        reason = cause.message if isinstance(cause, AdvisorError) else error.message
        skipped = isinstance(cause, UnsupportedRecipe | RuntimeRefusal)
        return RecipeResult(one.name, "skipped" if skipped else "failed", reason)
    return RecipeResult(one.name, "ok", "", str(path), time.monotonic() - start, sizes, taken, notes=notes)


def _require_learnable(asked: CompressionQuestion, one: Recipe) -> None:
    if one.needs < Needs.SCORING:
        return
    if asked.samples or not asked.question.of_task.labelled:
        file = "--samples has no classes" if asked.samples else f"the file is for {asked.question.task}"
        raise UnsupportedRecipe(f"{one.name} learns from images of one class each, and {file}")


async def _form(asked: CompressionQuestion, walker: Walker, name: str, path: Path) -> Mapping[str, Any]:
    """Make one form, copy it to its place, and return the recipe's notes."""
    given, names = FileForms(asked), [one.name for one in asked.recipes]
    card, source = asked.stem or asked.model.stem, FloatModel(asked.model, sha256_file(asked.model))
    shared = None
    if asked.samples is None and shares_calibration(name, names):
        shared = calibrated(Scope(card), source, given, names)
    made: Artefact = await walker.run(compressed(Scope(card, compression=name), source, given, None, shared))
    unfinished = path.with_suffix(".part")
    try:
        await asyncio.to_thread(shutil.copyfile, made.path, unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise StageError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return made.notes


def _described(path: Path, target: str) -> tuple[Sizes, DelegatedPart]:
    """Return the sizes of a file, and how much of it an accelerator runs."""
    from advisor.measurement.accelerators.delegation import delegate
    from advisor.measurement.accelerators.rules import accelerator
    from advisor.tflite.model import read

    found = delegate(read(path.read_bytes(), path.name), accelerator(target))
    return sizes_of(path), DelegatedPart(found.taken, found.operators, found.share, found.kept, found.reasons)
