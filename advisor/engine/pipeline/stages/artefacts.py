"""Stage from a float file to an artefact: one compression recipe, labels and normalisation in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Card
from advisor.catalog.labels import published_labels
from advisor.compression.calibration import PHOTOGRAPHS_VERSION, choose
from advisor.compression.recipes import recipe as find_recipe
from advisor.compression.recipes.base import Needs, RecipeInputs, TrainingImages
from advisor.core.tasks import DEFAULT_TASK, TASKS
from advisor.core.training import recipe_of
from advisor.engine.pipeline import cost
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.pipeline.materials import (
    MODEL,
    RESULT,
    Artefact,
    FloatModel,
    Materials,
    Purpose,
    input_spec,
    read_result,
    versions,
)
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import (
    WORK_LIMITS,
    Folders,
    Inputs,
    Job,
    Pool,
    Resources,
    Results,
    Scope,
    Stage,
)
from advisor.engine.pipeline.stages import jobs
from advisor.isolation import CallLimits
from advisor.store.files import sha256_file
from advisor.tflite.metadata import Metadata

CALIBRATION_IMAGES = 100

LEARNING = Resources(Pool.TRAINERS, 4_000_000_000, CallLimits(seconds=3 * 3600, memory_bytes=10_000_000_000))
"""Gradients keep every activation of a batch: 16 images of MobileNetV2 take about 4 GB with their integer forms. The
steps are limited by their work, about ten minutes; a slow machine may take many times as long."""

SCORING = Resources(limits=replace(WORK_LIMITS, seconds=LEARNING.limits.seconds))
"""A recipe that scores many files is limited by its work in the same way."""

TEMPERATURE_VERSION = "1"
"""Raised when equal scores give another temperature."""

Calibration = tuple[Path, ...]
"""The files that :func:`advisor.engine.pipeline.stages.jobs.calibrate` left."""


def calibrated(
    card: Card,
    scope: Scope,
    source: Stage[FloatModel],
    recipes: Sequence[str],
    earlier: Stage[Calibration] | None = None,
) -> Stage[Calibration]:
    """Observe a float file of the card and round its weights, once for all recipes that need it.

    Args:
        card: the model card.
        scope: training and purpose.
        source: makes the float file.
        recipes: the compression recipes of the search.
        earlier: the calibration of the compared file, of which the file that ships has most layers.
    """
    grids = tuple(dict.fromkeys(each.grids for each in map(find_recipe, recipes) if each.grids is not None))

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "model": results[source].sha256,
            "grids": [asdict(each) for each in grids],
            "calibration": "stands in" if _stands_in(materials, card) else _calibration_key(materials),
            "view": input_spec(card).key,
            **versions("ai-edge-litert", "pillow", "scikit-image", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(
            jobs.calibrate, results[source].path, grids, _calibration(materials), input_spec(card),
            materials.question.seed, folders.out, _stands_in(materials, card), _files(earlier, results),
        )  # fmt: skip

    return Stage(
        StageName.CALIBRATE, scope, "1", "calibrating", (source, *((earlier,) if earlier else ())), inputs, job,
        lambda folder: tuple(sorted(file for file in folder.iterdir() if file.name != RESULT)),
        cost.CALIBRATE_AGAIN_S if earlier else cost.CALIBRATE_S,
    )  # fmt: skip


def compressed(
    card: Card,
    scope: Scope,
    source: Stage[FloatModel],
    compared: Stage[Artefact] | None = None,
    calibration: Stage[Calibration] | None = None,
) -> Stage[Artefact]:
    """Compress a float file of the card and write labels and normalisation into the file.

    Args:
        card: the model card.
        scope: training, compression and purpose.
        source: makes the float file.
        compared: for a recipe that decides on scores: the compared file, whose decision the file that ships
            reuses.
        calibration: what the recipes of the float file share; None for a recipe that observes the file itself.
    """
    recipe = find_recipe(scope.compression)

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "model": results[source].sha256,
            "recipe": [recipe.name, recipe.version],
            "calibration": "stands in" if _stands_in(materials, card) else _calibration_key(materials),
            "view": input_spec(card).key,
            "metadata": asdict(metadata_of(card, materials.images, scope.training, materials.question.task)),
            **_key(recipe_inputs(materials, results), scope.purpose, materials.images),
            **versions("ai-edge-quantizer", "ai-edge-litert", "pillow", "scikit-image"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        return partial(
            jobs.compress, results[source].path, recipe.name, _calibration(materials), input_spec(card),
            materials.question.seed,
            metadata_of(card, materials.images, scope.training, materials.question.task), folders.model,
            _stands_in(materials, card), recipe_inputs(materials, results),
            _files(calibration, results),
        )  # fmt: skip

    def recipe_inputs(materials: Materials, results: Results) -> RecipeInputs | None:
        if recipe.needs < Needs.SCORING:
            return None
        decided = results[compared].notes if compared else None
        images = _training_images(materials, card, scope.purpose)
        return RecipeInputs(images=images, max_drop_points=materials.question.limits.max_drop_points, decided=decided)

    resources = {Needs.SCORING: SCORING, Needs.TRAINING: LEARNING}.get(recipe.needs, Resources())
    return Stage(
        StageName.COMPRESS, scope, "3", f"compressing to {recipe.name}",
        (source, *(each for each in (compared, calibration) if each)), inputs, job, read_artefact,
        cost.COMPRESS_S.get(recipe.name, cost.REWRITE_S), resources,
    )  # fmt: skip


def with_confidence(scope: Scope, source: Stage[Artefact], scored: Stage[Path]) -> Stage[Artefact]:
    """Fold the temperature of a file's logits into its head.

    Args:
        scope: card, training and compression of the file.
        source: the file that ships. Its latency, memory and answers stay as they are.
        scored: the probabilities of the compared file on the validation part, which give the temperature.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": results[source].sha256,
            "scores": sha256_file(results[scored]),
            "labels": list(materials.part(Role.VALIDATION).labels),
            **versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        made, labels = results[source], materials.part(Role.VALIDATION).labels
        return partial(
            jobs.fold_temperature, made.path, results[scored], labels, made.figures, made.notes, folders.out / MODEL
        )

    return Stage(
        StageName.CONFIDENCE, scope, TEMPERATURE_VERSION, "calibrating the probabilities of", (source, scored), inputs,
        job, read_artefact, cost.REWRITE_S,
    )  # fmt: skip


def shares_calibration(recipe: str, recipes: Sequence[str]) -> bool:
    """Return whether a recipe needs what :func:`calibrated` makes for the recipes of a search."""
    grids = find_recipe(recipe).grids
    return grids is not None and any(find_recipe(each).grids == grids for each in recipes)


def decides_on_scores(recipe: str) -> bool:
    """Return whether a recipe decides on the scores of its files; the file that ships reuses that decision."""
    return find_recipe(recipe).needs is Needs.SCORING


def metadata_of(card: Card, images: Images | None, training: str, task: str = DEFAULT_TASK) -> Metadata:
    """Return the metadata of each file of the card: labels, normalisation, licence."""
    labels = images.classes if images and not card.as_it_is else published_labels(card)
    data = "ImageNet"
    if card.as_it_is:
        data = "not retrained"
    elif images:
        recipe = recipe_of(training)
        role = Role.SUBSET if recipe.first_look else Role.TRAIN if recipe.tunes_backbone else Role.LEARNT
        data = f"retrained ({training}) on {images.counts[role]} images of {len(labels)} classes"
    return Metadata(
        name=card.name,
        description=f"{TASKS[task].model_kind} {card.name}, {data}; made by advisor",
        labels=labels,
        mean=card.preprocessing.mean,
        std=card.preprocessing.std,
        licence=card.licence,
    )


def read_artefact(folder: Path) -> Artefact:
    """Return the file that a stage left in its folder, with its figures and notes."""
    figures = dict(read_result(folder))
    notes, path = figures.pop("notes", {}), folder / MODEL
    return Artefact(path, sha256_file(path), path.stat().st_size, figures, notes)


def _files(calibration: Stage[Calibration] | None, results: Results) -> Calibration:
    return results[calibration] if calibration is not None else ()


def _stands_in(materials: Materials, card: Card) -> bool:
    """Return whether fixed-seed random values replace the trained ones."""
    return materials.images is None and not materials.weights_source(card)


def _training_images(materials: Materials, card: Card, purpose: str) -> TrainingImages | None:
    """Return the labelled images that a recipe may learn from."""
    images = materials.images
    if images is None:
        return None
    compares = purpose == Purpose.COMPARE
    learnt = images.part(Role.TRAIN if compares else Role.LEARNT)
    validation = images.part(Role.VALIDATION)
    judged = (validation.paths, validation.labels) if compares else ((), ())
    seed, classes = materials.question.seed, len(images.classes)
    return TrainingImages(learnt.paths, learnt.labels, classes, input_spec(card), seed, *judged)


def _key(given: RecipeInputs | None, purpose: str, images: Images | None) -> Mapping[str, Any]:
    """Return the inputs of a recipe that scores or trains as JSON values."""
    if given is None:
        return {}
    roles = (Role.TRAIN, Role.VALIDATION)
    parts = [images.part(role).fingerprint for role in roles] if images else []
    return {"max_drop": given.max_drop_points, "decided": given.decided, "purpose": purpose, "parts": parts}


def _calibration(materials: Materials) -> tuple[Path, ...] | None:
    """Return the training images for calibration; None for the bundled photographs."""
    if materials.images is None:
        return None
    train = materials.images.part(Role.TRAIN)
    return tuple(train.paths[index] for index in choose(train.labels, CALIBRATION_IMAGES, materials.question.seed))


def _calibration_key(materials: Materials) -> list[object]:
    if materials.images is None:
        return ["photographs", PHOTOGRAPHS_VERSION, materials.question.seed]
    return [materials.images.part(Role.TRAIN).fingerprint, CALIBRATION_IMAGES, materials.question.seed]
