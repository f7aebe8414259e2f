"""Apply recipes to one float file, then score and time the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.compression.recipes import Recipe
from advisor.compression.recipes.base import Needs, RecipeInputs
from advisor.compression.user_model import jobs
from advisor.compression.user_model.agreement import ALIKE_DB
from advisor.compression.user_model.question import FLOAT, CompressionQuestion
from advisor.compression.user_model.values import ANY, Compression, FileAgreement, RecipeResult, Speed
from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe, UsageError
from advisor.core.tasks import TASKS
from advisor.isolation import CallLimits, Scratch
from advisor.isolation.pool import ChildPool, trainers
from advisor.measurement.latency.findings import FileBenchmark
from advisor.measurement.latency.session import benchmark
from advisor.tflite.model import read

LIMITS = CallLimits(seconds=3600, memory_bytes=10_000_000_000)
"""Limits of one recipe. Training takes minutes, and gradients keep every activation of a batch."""

FEW = 200
"""Below this number of images one answer is more than half a point."""

ALIKE = f"as float: samples in which every output has an SNR of {ALIKE_DB:.0f} dB; SNR: that of the worst output"

EFFORT = "search"
"""The effort of a search when files are timed: about a second a file."""

Tell = Callable[[str], None]


def compress(question: CompressionQuestion, tell: Tell, latency: bool = True) -> Compression:
    """Apply every recipe of the question; a failure becomes the row of that recipe and does not stop the others.

    Args:
        question: what :func:`advisor.compression.user_model.question.ask` checked.
        tell: receives progress messages.
        latency: also time the files, block by block in turn.

    Raises:
        UsageError: the float file itself cannot be run.
    """
    with Scratch() as folder, trainers(folder / "log.txt") as pool:
        forms = [_made(pool, question, one, tell) for one in question.recipes]
        forms = _scored(pool, question, forms, tell)
    notes: tuple[str, ...] = ()
    if latency:
        forms, notes = time_forms(forms, tell)
    images = question.images
    calibrated = any(one.needs_calibration for one in question.recipes)
    return Compression(
        model=str(question.model),
        folder=str(question.folder),
        calibration=images.calibration_source if calibrated else "no recipe asked for needs it",
        scored=images.scored_source,
        accelerator=question.accelerator,
        max_drop_points=question.max_drop_points,
        forms=tuple(forms),
        notes=(*_notes(question, forms[0]), *notes),
        task=ANY if question.samples else question.task,
    )


def judge(question: CompressionQuestion, tell: Tell) -> FileAgreement:
    """Return the accuracy of the float file alone.

    Raises:
        UsageError: it cannot be run.
    """
    with Scratch() as folder, trainers(folder / "log.txt") as pool:
        (form,) = _scored(pool, question, [RecipeResult(FLOAT, "ok", path=str(question.model))], tell)
    assert form.agreement is not None, "a file that could not be scored is an error"
    return form.agreement


def _call(pool: ChildPool, function: str, *arguments: Any) -> Any:
    return pool.call(f"{jobs.__name__}:{function}", *arguments, limits=LIMITS)


def _made(pool: ChildPool, question: CompressionQuestion, one: Recipe, tell: Tell) -> RecipeResult:
    path, start = question.path_of(one.name), time.monotonic()
    notes: Mapping[str, Any] = {}
    try:
        if one.name != FLOAT:
            _require_learnable(question, one)
            tell(f"making {one.name}")
            notes = _write(pool, question, one.name, path)
        sizes, taken = _call(pool, "describe", path, question.accelerator)
    except (UnsupportedRecipe, RuntimeRefusal) as error:
        return RecipeResult(one.name, "skipped", error.message)
    except AdvisorError as error:
        return RecipeResult(one.name, "failed", error.message)
    return RecipeResult(one.name, "ok", "", str(path), time.monotonic() - start, sizes, taken, notes=notes)


def _require_learnable(question: CompressionQuestion, one: Recipe) -> None:
    if one.needs < Needs.SCORING:
        return
    if question.samples or not TASKS[question.task].labelled:
        file = "--samples has no classes" if question.samples else f"the file is for {question.task}"
        raise UnsupportedRecipe(f"{one.name} learns from images of one class each, and {file}")


def _write(pool: ChildPool, question: CompressionQuestion, name: str, path: Path) -> Mapping[str, Any]:
    """Write a file under another name, rename it when it is complete, and return the recipe's notes."""
    images, unfinished = question.images, path.with_suffix(".part")
    inputs = RecipeInputs(None, images.training, question.max_drop_points, question.learn_s)
    try:
        notes: Mapping[str, Any] = _call(
            pool, "make", question.model, name, question.calibration, inputs, question.metadata, unfinished
        )
        unfinished.replace(path)
    except OSError as error:
        raise StageError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return notes


def _scored(
    pool: ChildPool, question: CompressionQuestion, forms: list[RecipeResult], tell: Tell
) -> list[RecipeResult]:
    reference = forms[0]
    if reference.status != "ok":
        raise UsageError(f"{question.model.name} cannot be compressed: {reference.reason}", "see advisor profile")
    tell("scoring float32")
    try:
        agreement = _judge(pool, question)
        scored = [replace(reference, agreement=agreement(question.model))]
    except StageError as error:
        raise UsageError(error.message, error.hint) from error
    for form in forms[1:]:
        if form.status != "ok":
            scored.append(form)
            continue
        tell(f"scoring {form.recipe}")
        try:
            scored.append(replace(form, agreement=agreement(Path(form.path))))
        except RuntimeRefusal as error:
            scored.append(replace(form, status="skipped", reason=f"this runtime cannot run it: {error.message}"))
        except StageError as error:
            scored.append(replace(form, status="failed", reason=error.message))
    return scored


def _judge(pool: ChildPool, question: CompressionQuestion) -> Callable[[Path], FileAgreement]:
    """Return the function that compares a file with the float file, which it runs once where it keeps its answers."""
    images, samples = question.images, question.samples
    if samples:
        return lambda path: _call(pool, "compare", path, question.model, samples.scored)

    def answers(path: Path) -> Any:
        return _call(pool, "answer", path, question.task, images.scored, question.spec, question.seed)

    floats = answers(question.model)
    return lambda path: question.kind.compare(
        floats if path == question.model else answers(path), floats, images.labels
    )


def time_forms(forms: list[RecipeResult], tell: Tell) -> tuple[list[RecipeResult], tuple[str, ...]]:
    """Return the rows with their latency at one thread, and notes on the timing.

    A file that the runtime cannot run keeps its other figures and says why it has no latency.
    """
    paths = [form.path for form in forms if form.status == "ok"]
    try:
        found = benchmark(*paths, effort=EFFORT, pipeline=False, force=True, tell=tell)
    except UsageError as error:
        return forms, (f"not timed: {error.message}",)
    rows = {file.model: file for file in found.files}
    return [_timed(form, rows.get(form.path)) for form in forms], found.notes


def _timed(form: RecipeResult, found: FileBenchmark | None) -> RecipeResult:
    if found is None:
        return form
    if found.timing is None:
        return replace(form, reason=found.failure)
    result, (low, high) = found.timing.results[0], found.timing.results[0].interval_ms
    memory = found.timing.peak_memory_bytes
    return replace(form, speed=Speed(result.rank_ms, low, high, memory, result.verdict.value))


def _notes(question: CompressionQuestion, reference: RecipeResult) -> Iterator[str]:
    if not question.samples:
        yield from question.kind.notes(read(question.model))
    if question.stem:
        yield f"{question.model.name} is your file for one image with float32 weights; the forms are made from it"
    if question.samples:
        yield f"{ALIKE}; give more samples like those of the app if these are few"
        return
    if question.metadata is None:
        yield f"{question.model.name} has no labels, so the compressed files carry no metadata either"
    scored = len(question.images.labels)
    if 0 < scored < FEW:
        yield f"{scored} images cannot show a drop of one point: see the intervals"
    if not scored and reference.agreement and reference.agreement.share.low == 0:
        yield "the float file is sure of nothing in these images: give images of its objects with --calibration"
    if not scored:
        yield "agreement with float is no accuracy: give labelled images with --data to measure the loss"
