"""Answer a question about the forms of one file: make them, then score and time them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.compression.user_model.by_task import answer
from advisor.compression.user_model.likeness import ALIKE_DB, compare
from advisor.compression.user_model.values import ANY, Compression, Likeness, RecipeResult, Speed
from advisor.core.errors import RuntimeRefusal, StageError, UsageError
from advisor.engine.compress.forms import Tell, make_forms
from advisor.engine.compress.question import FLOAT, CompressionQuestion
from advisor.engine.pipeline.stages.figures import THOROUGH
from advisor.isolation import CallLimits, Children, Scratch
from advisor.isolation.pool import trainers
from advisor.measurement.latency.findings import FileBenchmark
from advisor.measurement.latency.session import benchmark
from advisor.store import require_cache
from advisor.tflite.model import read

LIMITS = CallLimits(seconds=3600, memory_bytes=10_000_000_000)
"""Limits of one scoring: the images may be many."""

FEW = 200
"""Below this number of images one answer is more than half a point."""

ALIKE = f"as float: samples in which every output has an SNR of {ALIKE_DB:.0f} dB; SNR: that of the worst output"


def compress(asked: CompressionQuestion, tell: Tell, latency: bool = True) -> Compression:
    """Apply every recipe of the question; a failure becomes the row of that recipe and does not stop the others.

    Args:
        asked: what :func:`advisor.engine.compress.question.ask` checked.
        tell: receives progress messages.
        latency: also time the files, block by block in turn.

    Raises:
        UsageError: the float file itself cannot be run.
    """
    require_cache()
    with Scratch() as folder:
        forms = make_forms(asked, folder / "log.txt", tell)
        with trainers(folder / "log.txt") as pool:
            forms = _scored(pool, asked, forms, tell)
    notes: tuple[str, ...] = ()
    if latency:
        forms, notes = time_forms(forms, tell)
    images = asked.images
    calibrated = any(one.needs_calibration for one in asked.recipes)
    return Compression(
        model=str(asked.model),
        folder=str(asked.folder),
        calibration=images.calibration_source if calibrated else "no recipe asked for needs it",
        scored=images.scored_source,
        accelerator=asked.accelerator,
        max_drop_points=asked.question.limits.max_drop_points,
        forms=tuple(forms),
        notes=(*_notes(asked, forms[0]), *notes),
        task=ANY if asked.samples else asked.question.task,
    )


def judge(asked: CompressionQuestion, tell: Tell) -> Likeness:
    """Return the accuracy of the float file alone.

    Raises:
        UsageError: it cannot be run.
    """
    with Scratch() as folder, trainers(folder / "log.txt") as pool:
        (form,) = _scored(pool, asked, [RecipeResult(FLOAT, "ok", path=str(asked.model))], tell)
    assert form.likeness is not None, "a file that could not be scored is an error"
    return form.likeness


def _scored(pool: Children, asked: CompressionQuestion, forms: list[RecipeResult], tell: Tell) -> list[RecipeResult]:
    reference = forms[0]
    if reference.status != "ok":
        raise UsageError(f"{asked.model.name} cannot be compressed: {reference.reason}", "see advisor profile")
    tell("scoring float32")
    try:
        likeness = _judge(pool, asked)
        scored = [replace(reference, likeness=likeness(asked.model))]
    except StageError as error:
        raise UsageError(error.message, error.hint) from error
    for form in forms[1:]:
        if form.status != "ok":
            scored.append(form)
            continue
        tell(f"scoring {form.recipe}")
        try:
            scored.append(replace(form, likeness=likeness(Path(form.path))))
        except RuntimeRefusal as error:
            scored.append(replace(form, status="skipped", reason=f"this runtime cannot run it: {error.message}"))
        except StageError as error:
            scored.append(replace(form, status="failed", reason=error.message))
    return scored


def _judge(pool: Children, asked: CompressionQuestion) -> Callable[[Path], Likeness]:
    """Return the function that compares a file with the float file, which it runs once where it keeps its answers."""
    images, samples = asked.images, asked.samples
    if samples:
        return lambda path: pool.call(f"{compare.__module__}:compare", path, asked.model, samples.scored, limits=LIMITS)

    def answers(path: Path) -> Any:
        given = (path, asked.question.task, images.scored, asked.spec, asked.question.seed)
        return pool.call(f"{answer.__module__}:answer", *given, limits=LIMITS)

    floats = answers(asked.model)
    return lambda path: asked.kind.compare(floats if path == asked.model else answers(path), floats, images.labels)


def time_forms(forms: list[RecipeResult], tell: Tell) -> tuple[list[RecipeResult], tuple[str, ...]]:
    """Return the rows with their latency at one thread, and notes on the timing.

    A file that the runtime cannot run keeps its other figures and says why it has no latency.
    """
    paths = [form.path for form in forms if form.status == "ok"]
    try:
        found = benchmark(*paths, effort=THOROUGH, pipeline=False, force=True, tell=tell)
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


def _notes(asked: CompressionQuestion, reference: RecipeResult) -> Iterator[str]:
    if not asked.samples:
        yield from asked.kind.notes(read(asked.model))
    if asked.stem:
        yield f"{asked.model.name} is your file for one image with float32 weights; the forms are made from it"
    if asked.samples:
        yield f"{ALIKE}; give more samples like those of the app if these are few"
        return
    if asked.metadata is None:
        yield f"{asked.model.name} has no labels, so the compressed files carry no metadata either"
    scored = len(asked.images.labels)
    if 0 < scored < FEW:
        yield f"{scored} images cannot show a drop of one point: see the intervals"
    if not scored and reference.likeness and reference.likeness.agreement.low == 0:
        yield "the float file is sure of nothing in these images: give images of its objects with --calibration"
    if not scored:
        yield "agreement with float is no accuracy: give labelled images with --data to measure the loss"
