"""Apply recipes to one float file, then score and time the results."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.compression.calibration import CalibrationImages
from advisor.compression.make import MadeFile
from advisor.compression.recipes import Recipe
from advisor.compression.user_model import jobs
from advisor.compression.user_model.comparison import compare_answers
from advisor.compression.user_model.question import FLOAT, Question
from advisor.compression.user_model.timing import time_forms
from advisor.compression.user_model.values import Compression, Form, sizes_of
from advisor.core.errors import AdvisorError, RuntimeRefusal, StageError, UnsupportedRecipe, UsageError
from advisor.isolation import ChildPool, Limits
from advisor.isolation.pool import trainers

LIMITS = Limits(seconds=3600, memory_bytes=10_000_000_000)
"""Limits of one recipe. Training takes minutes, and gradients keep every activation of a batch."""

FEW = 200
"""Below this number of images one answer is more than half a point."""

Tell = Callable[[str], None]


def compress(question: Question, tell: Tell, latency: bool = True) -> Compression:
    """Apply every recipe of the question; a failure becomes the row of that recipe and does not stop the others.

    Args:
        question: what :func:`advisor.compression.user_model.question.ask` checked.
        tell: receives progress messages.
        latency: also time the files, block by block in turn.

    Raises:
        UsageError: the float file itself cannot be run.
    """
    with _children() as pool:
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
        notes=(*_notes(question), *notes),
    )


@contextlib.contextmanager
def _children() -> Iterator[ChildPool]:
    """Yield child processes that hide their output; if one dies, its last line is in the error."""
    with tempfile.TemporaryDirectory(prefix="advisor-compress-") as folder, trainers(Path(folder, "log.txt")) as pool:
        yield pool


def _call(pool: ChildPool, function: str, *arguments: Any) -> Any:
    return pool.call(f"{jobs.__name__}:{function}", *arguments, limits=LIMITS)


def _made(pool: ChildPool, question: Question, one: Recipe, tell: Tell) -> Form:
    path, start = question.path_of(one.name), time.monotonic()
    try:
        if one.name == FLOAT:
            made = _call(pool, "describe", path)
        else:
            tell(f"making {one.name}")
            made = _form(pool, question, one.name, path)
        taken = _call(pool, "taken_of", path, question.accelerator)
    except (UnsupportedRecipe, RuntimeRefusal) as error:
        return Form(one.name, "skipped", error.message)
    except AdvisorError as error:
        return Form(one.name, "failed", error.message)
    seconds = time.monotonic() - start
    return Form(one.name, "ok", path=str(path), seconds=seconds, sizes=sizes_of(made), taken=taken, notes=made.notes)


def _form(pool: ChildPool, question: Question, name: str, path: Path) -> MadeFile:
    """Write a file under another name and rename it when it is complete."""
    images, unfinished = question.images, path.with_suffix(".part")
    calibration = CalibrationImages(images.calibration, question.spec, question.seed)
    try:
        made: MadeFile = _call(
            pool, "make", question.model, name, calibration, images.training, question.max_drop_points,
            question.learn_s, question.metadata, unfinished,
        )  # fmt: skip
        unfinished.replace(path)
    except OSError as error:
        raise StageError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return replace(made, path=path)


def _scored(pool: ChildPool, question: Question, forms: list[Form], tell: Tell) -> list[Form]:
    images, reference = question.images, forms[0]
    if reference.status != "ok":
        raise UsageError(f"{question.model.name} cannot be compressed: {reference.reason}", "see advisor profile")
    tell("scoring float32")
    try:
        floats = _call(pool, "answer", question.model, images.scored, question.spec, question.seed)
    except StageError as error:
        raise UsageError(error.message, error.hint) from error
    scored = [replace(reference, likeness=compare_answers(floats, floats, images.labels))]
    for form in forms[1:]:
        if form.status != "ok":
            scored.append(form)
            continue
        tell(f"scoring {form.recipe}")
        try:
            own = _call(pool, "answer", Path(form.path), images.scored, question.spec, question.seed)
            scored.append(replace(form, likeness=compare_answers(own, floats, images.labels)))
        except RuntimeRefusal as error:
            scored.append(replace(form, status="skipped", reason=f"this runtime cannot run it: {error.message}"))
        except StageError as error:
            scored.append(replace(form, status="failed", reason=error.message))
    return scored


def _notes(question: Question) -> Iterator[str]:
    if question.metadata is None:
        yield f"{question.model.name} has no labels, so the compressed files carry no metadata either"
    scored = len(question.images.labels)
    if 0 < scored < FEW:
        yield f"{scored} images cannot show a drop of one point: see the intervals"
    if not scored:
        yield "agreement with float is no accuracy: give labelled images with --data to measure the loss"
