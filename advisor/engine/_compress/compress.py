"""Make the forms of one file by the stages of a search, then score and time them.

``advisor compress`` calls ``compress`` with the question of ``question.py``. The stages are those
of a search, so each form is looked up in the cache of results; what ``FileForms`` puts into its
keys decides whether a form is made again.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.compression import Needs, Recipe, RecipeInputs, Sizes
from advisor.core import (
    FLOAT,
    AdvisorError,
    RuntimeRefusal,
    StageError,
    UnsupportedRecipe,
    UsageError,
)
from advisor.datasets import PHOTOGRAPHS_VERSION, CalibrationImages, InputSpec, sha256_of
from advisor.engine._compress.file_kinds import answer_images
from advisor.engine._compress.question import CompressionQuestion
from advisor.engine._compress.results import (
    ANY_TASK,
    Compression,
    DelegatedPart,
    FileAgreement,
    RecipeResult,
    Speed,
)
from advisor.engine._compress.samples import ALIKE_DB, Samples, compare_on_samples
from advisor.engine._execution import executor_for
from advisor.engine._pipeline.materials import Artefact, FloatModel, Materials
from advisor.engine._pipeline.stage import Inputs, Scope, StageAborted
from advisor.engine._pipeline.stages.artefacts import (
    FormInputs,
    calibrate_float,
    compress_float,
    shares_calibration,
)
from advisor.engine._pipeline.stages.figures import THOROUGH
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine._question.values import Execution
from advisor.engine._space.recipes import recipe_applies
from advisor.isolation import CallLimits, Children, Scratch, Trainers
from advisor.measurement import Accelerator, Delegation, session
from advisor.store import ArtifactCache, sha256_file
from advisor.tflite import Metadata, read

Tell = Callable[[str], None]

LIMITS = CallLimits(seconds=3600, memory_bytes=10_000_000_000)
"""Limits of one scoring: the images may be many."""

FEW = 200
"""Below this number of images one answer is more than half a point."""

ALIKE = (
    f"as float: samples in which every output has an SNR of {ALIKE_DB:.0f} dB; SNR: that of the"
    " worst output"
)


@dataclass(frozen=True)
class FileForms(FormInputs):
    """Inputs of the forms of a user's file."""

    asked: CompressionQuestion

    @property
    def spec(self) -> InputSpec | None:
        """See :class:`FormInputs`."""
        return self.asked.spec

    @property
    def macs(self) -> int:
        """See :class:`FormInputs`: ``advisor compress`` plans nothing."""
        return 0

    def stands_in(self, _materials: Materials) -> bool:
        """See :class:`FormInputs`: the weights are the user's."""
        return False

    def calibration(self, _materials: Materials) -> CalibrationImages | Samples:
        """See :class:`FormInputs`."""
        asked = self.asked
        if asked.samples is not None:
            return asked.samples.calibration
        assert asked.spec is not None, "without samples there are images"
        return CalibrationImages(asked.images.calibration, asked.spec, asked.question.seed)

    def calibration_key(self, _materials: Materials) -> object:
        """See :class:`FormInputs`: the hashes of the images or of the samples."""
        samples = self.asked.samples
        paths = self.asked.images.calibration
        if samples is not None:
            return ["samples", sha256_file(samples.calibration.path), samples.calibration.rows]
        if not paths:
            return ["photographs", PHOTOGRAPHS_VERSION, self.asked.question.seed]
        return ["images", *map(sha256_of, paths)]

    def metadata(self, _materials: Materials) -> Metadata | None:
        """See :class:`FormInputs`."""
        return self.asked.metadata

    def for_recipe(self, _materials: Materials) -> RecipeInputs:
        """See :class:`FormInputs`."""
        limit = self.asked.question.limits.max_drop_points
        return RecipeInputs(None, self.asked.images.training, limit, self.asked.learn_s)

    def recipe_key(self, materials: Materials) -> Inputs:
        """See :class:`FormInputs`."""
        inputs = self.for_recipe(materials)
        images = self.asked.images.training
        images_key = list[Any]()
        if images is not None:
            images_key = [
                list(map(sha256_of, images.paths)),
                list(map(sha256_of, images.validation_paths)),
                images.labels,
                images.validation_labels,
                images.classes,
                images.seed,
            ]
        return {
            "max_drop": inputs.max_drop_points,
            "seconds": inputs.seconds,
            "images": images_key,
        }


def compress(
    asked: CompressionQuestion, tell: Tell, latency: bool = True, cache_size: int | None = None
) -> Compression:
    """Apply every recipe of the question, checked by :func:`.question.prepare_compression`;
    a failure becomes the row of that recipe.

    ``cache_size`` is the limit of the cache in bytes, None for the usual. With ``latency``, the
    files are also timed, block by block in turn. A float file that cannot be run is a UsageError.
    """
    ArtifactCache.require_folder()
    with Scratch() as folder:
        forms = _make_forms(asked, folder / "log.txt", tell, cache_size)
        with Trainers(folder / "log.txt") as pool:
            forms = _score_forms(pool, asked, forms, tell)
    timing_notes: tuple[str, ...] = ()
    if latency:
        forms, timing_notes = time_forms(forms, tell)
    calibration = "no recipe asked for needs it"
    if any(recipe.needs_calibration for recipe in asked.recipes):
        calibration = asked.images.calibration_source
    return Compression(
        model=str(asked.model),
        folder=str(asked.folder),
        calibration=calibration,
        scored=asked.images.scored_source,
        accelerator=asked.accelerator,
        max_drop_points=asked.question.limits.max_drop_points,
        forms=tuple(forms),
        notes=(*_list_notes(asked, forms[0]), *timing_notes),
        task=ANY_TASK if asked.samples else asked.question.task,
    )


def judge_float(asked: CompressionQuestion, tell: Tell) -> FileAgreement:
    """Return the accuracy of the float file alone; a UsageError if it cannot be run."""
    float_file = RecipeResult(FLOAT, "ok", path=str(asked.model))
    with Scratch() as folder, Trainers(folder / "log.txt") as pool:
        (form,) = _score_forms(pool, asked, [float_file], tell)
    assert form.agreement is not None, "a file that could not be scored is an error"
    return form.agreement


def _make_forms(
    asked: CompressionQuestion, log: Path, tell: Tell, cache_size: int | None
) -> list[RecipeResult]:
    """Make each form of the question, in child processes that write to ``log``."""
    executor = executor_for(Execution(), lambda: log)
    with contextlib.closing(executor), ArtifactCache.open_limited(cache_size) as cache:
        materials = Materials(cache, None, {}, executor.host, asked.question)
        walker = Walker(materials, Workers(executor.machine, executor.pools))

        async def rows() -> list[RecipeResult]:
            return [await _make_row(asked, walker, recipe, tell) for recipe in asked.recipes]

        return run_coroutine(rows())


async def _make_row(
    asked: CompressionQuestion, walker: Walker, recipe: Recipe, tell: Tell
) -> RecipeResult:
    """Make a form of the file, and return its row; a form that cannot be made has the reason."""
    path = asked.path_of(recipe.name)
    started = time.monotonic()
    notes: Mapping[str, Any] = {}
    try:
        if recipe.name != FLOAT:
            _refuse_learning(asked, recipe)
            tell(f"making {recipe.name}")
            notes = await _write_form(asked, walker, recipe.name, path)
        taken = _count_delegated(path, asked.accelerator)
        sizes = Sizes.of_file(path)
    except AdvisorError as error:
        # The walker wraps what a job raised.
        # Only the cause says whether a recipe was refused or has failed.
        cause = error.__cause__ if isinstance(error, StageAborted) else None
        if isinstance(cause, AdvisorError):
            error = cause
        return _leave_out(RecipeResult(recipe.name, "ok"), error)
    return RecipeResult(
        recipe.name,
        "ok",
        path=str(path),
        seconds=time.monotonic() - started,
        sizes=sizes,
        taken=taken,
        notes=notes,
    )


def _refuse_learning(asked: CompressionQuestion, recipe: Recipe) -> None:
    """Refuse a recipe that learns where there is nothing to learn from: UnsupportedRecipe."""
    learns_from_samples = asked.samples and recipe.needs >= Needs.SCORING
    if not learns_from_samples and recipe_applies(recipe, asked.question):
        return
    why = f"the file is for {asked.question.task}"
    if asked.samples:
        why = "--samples has no classes"
    raise UnsupportedRecipe(f"{recipe.name} learns from images of one class each, and {why}")


def _count_delegated(path: Path, accelerator: str) -> DelegatedPart:
    """Return what an accelerator would run of a file."""
    model = read(path.read_bytes(), path.name)
    delegation = Delegation.of_operators(model, Accelerator.find(accelerator))
    return DelegatedPart(
        taken=delegation.taken,
        operators=delegation.operators,
        share=delegation.share,
        pieces=delegation.kept,
        left=delegation.reasons,
    )


def _leave_out(form: RecipeResult, error: AdvisorError, before: str = "") -> RecipeResult:
    """Return the row of a form that an error left out:
    skipped if the recipe or the runtime refused it.
    """
    refused = isinstance(error, UnsupportedRecipe | RuntimeRefusal)
    reason = f"{before}{error.message}" if refused else error.message
    return replace(form, status="skipped" if refused else "failed", reason=reason)


async def _write_form(
    asked: CompressionQuestion, walker: Walker, name: str, path: Path
) -> Mapping[str, Any]:
    """Run the stages of a form, copy its file to the path, and return what the recipe found."""
    inputs = FileForms(asked)
    names = [recipe.name for recipe in asked.recipes]
    card = asked.stem or asked.model.stem
    source = FloatModel(asked.model, sha256_file(asked.model))
    shared = None
    # The forms of one file share a single calibration run (decision 0013).
    # Samples have a format of their own.
    if asked.samples is None and shares_calibration(name, names):
        shared = calibrate_float(Scope(card), source, inputs, names)
    stage = compress_float(Scope(card, compression=name), source, inputs, None, shared)
    artefact: Artefact = await walker.run(stage)
    # A rename is atomic: an interrupted copy never looks like a finished file.
    unfinished = path.with_suffix(".part")
    try:
        shutil.copyfile(artefact.path, unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise StageError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return artefact.notes


def _score_forms(
    pool: Children, asked: CompressionQuestion, forms: list[RecipeResult], tell: Tell
) -> list[RecipeResult]:
    """Return the rows with what differs from the float file, which is the first of them."""
    images = asked.images
    samples = asked.samples
    scored = list[RecipeResult]()
    if forms[0].status != "ok":
        raise UsageError(
            f"{asked.model.name} cannot be compressed: {forms[0].reason}", "see advisor profile"
        )

    # Two entries: the answers of the float file, which every form is compared with,
    # and those of the current form.
    @lru_cache(maxsize=2)
    def read_answers(path: Path) -> Any:
        function = f"{answer_images.__module__}:answer_images"
        inputs = (path, asked.question.task, images.scored, asked.spec, asked.question.seed)
        return pool.call(function, *inputs, limits=LIMITS)

    def compare_with_float(path: Path) -> FileAgreement:
        if not samples:
            floats = read_answers(asked.model)
            return asked.kind.compare(read_answers(path), floats, images.labels)
        of_samples: FileAgreement = pool.call(
            f"{compare_on_samples.__module__}:compare_on_samples",
            path,
            asked.model,
            samples.scored,
            limits=LIMITS,
        )
        return of_samples

    for form in forms:
        if form.status == "ok":
            tell(f"scoring {form.recipe}")
            try:
                form = replace(form, agreement=compare_with_float(Path(form.path)))
            except StageError as error:
                # Without the float file there is nothing to compare with,
                # so its failure ends the command and not only a row.
                if form is forms[0]:
                    raise error.blame_file(asked.model.name) from error
                form = _leave_out(form, error, "this runtime cannot run it: ")
        scored.append(form)
    return scored


def time_forms(
    forms: list[RecipeResult], tell: Tell
) -> tuple[list[RecipeResult], tuple[str, ...]]:
    """Return the rows with their latency at one thread, and notes on the timing.

    A file that the runtime cannot run keeps its other figures and says why it has no latency.
    """
    paths = [form.path for form in forms if form.status == "ok"]
    try:
        benchmarked = session.benchmark(
            *paths, effort=THOROUGH, pipeline=False, force=True, tell=tell
        )
    except UsageError as error:
        return forms, (f"not timed: {error.message}",)
    benchmarks = {file.model: file for file in benchmarked.files}
    timed = []
    for form in forms:
        if form.path in benchmarks:
            form = _add_speed(form, benchmarks[form.path])
        timed.append(form)
    return timed, benchmarked.notes


def _add_speed(form: RecipeResult, file_benchmark: session.FileBenchmark) -> RecipeResult:
    """Return a row with its latency at one thread, or the reason why it has none."""
    if file_benchmark.timing is None:
        return replace(form, reason=file_benchmark.failure)
    result = file_benchmark.timing.results[0]
    low, high = result.interval_ms
    memory = file_benchmark.timing.peak_memory_bytes
    return replace(form, speed=Speed(result.rank_ms, low, high, memory, result.verdict.value))


def _list_notes(asked: CompressionQuestion, reference: RecipeResult) -> Iterator[str]:
    """Yield what the user should know about the figures of the forms."""
    if not asked.samples:
        yield from asked.kind.notes(read(asked.model))
    # Without a stem the recipes start from the user's own file.
    if asked.stem:
        yield (
            f"{asked.model.name} is your file for one image with float32 weights; the forms are"
            " made from it"
        )
    if asked.samples:
        yield f"{ALIKE}; give more samples like those of the app if these are few"
        return
    if asked.metadata is None:
        yield f"{asked.model.name} has no labels, so the compressed files carry no metadata either"
    scored = len(asked.images.labels)
    if 0 < scored < FEW:
        yield f"{scored} images cannot show a drop of one point: see the intervals"
    if not scored:
        # The share of the float file with itself is 1, but for a detector that finds nothing.
        if reference.agreement and reference.agreement.share.low == 0:
            yield (
                "the float file is sure of nothing in these images: give images of its objects"
                " with --calibration"
            )
        yield (
            "agreement with float is no accuracy: give labelled images with --data to measure the"
            " loss"
        )
