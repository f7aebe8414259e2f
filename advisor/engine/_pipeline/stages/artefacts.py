"""Stages from a float file to an artefact: calibration, one compression recipe, temperature.

A search uses them with :class:`CardForms`, ``advisor compress`` with inputs of its own
(``_compress/``), which is why they take :class:`FormInputs`. ``make_variant`` in ``graph.py`` puts
them together. The key of a compressed file holds name and version of its recipe: raise this
version, not that of the stage, when one recipe gives other bytes. ``docs/extend-stages.md`` has
the cases in which a stage's version rises ("Which version to raise").
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from advisor.catalog import Card, read_published_labels
from advisor.compression import CalibrationSource, Needs, RecipeInputs, recipe as find_recipe
from advisor.core import recipe_of
from advisor.datasets import (
    PHOTOGRAPHS_VERSION,
    CalibrationImages,
    InputSpec,
    choose_images,
)
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Role
from advisor.engine._pipeline.materials import (
    Artefact,
    FloatModel,
    Materials,
    Purpose,
    input_spec,
    list_versions,
)
from advisor.engine._pipeline.resources import WORK_LIMITS, Resources
from advisor.engine._pipeline.stage import (
    LIGHT_WORK,
    RESULT,
    Folders,
    Inputs,
    Job,
    Results,
    Scope,
    Stage,
    StageName,
    after,
    result_of,
)
from advisor.engine._pipeline.stages import jobs
from advisor.engine._pipeline.stages.head import Folds, fold_inputs, out_of_fold
from advisor.tflite import Metadata
from advisor.training import TrainingImages

STAND_IN_CROPS = 2  # Crops to calibrate a graph of random values on; any ranges will do

LEARNING = Resources.of_training(4_000_000_000, most_bytes=10_000_000_000)
"""Gradients keep every activation of a batch: 16 images of MobileNetV2 take about 4 GB with their
integer forms. The steps are limited by their work, about ten minutes; a slow machine may take many
times as long.
"""

SCORING = Resources(limits=replace(WORK_LIMITS, seconds=LEARNING.limits.seconds))
"""A recipe that scores many files is limited by its work in the same way."""

RESOURCES = {Needs.SCORING: SCORING, Needs.TRAINING: LEARNING}

TEMPERATURE_VERSION = "2"  # Raised when equal scores give another temperature

# The files that :func:`advisor.engine._pipeline.stages.jobs.prepare_calibration` left.
Calibration = tuple[Path, ...]


class FormInputs(Protocol):
    """Inputs of the forms of a float file besides the file."""

    @property
    def spec(self) -> InputSpec | None:
        """The size and normalisation of the file's input image; None for a file of other
        inputs.
        """

    @property
    def macs(self) -> int:
        """The multiply-accumulates of the file; 0 if they are not known."""

    def stands_in(self, materials: Materials) -> bool:
        """Return whether fixed-seed random values replace the trained ones."""

    def calibration(self, materials: Materials) -> CalibrationSource:
        """Return what the file is calibrated on."""

    def calibration_key(self, materials: Materials) -> object:
        """Return what names the calibration in a cache key."""

    def metadata(self, materials: Materials) -> Metadata | None:
        """Return the metadata of each form; None for none."""

    def for_recipe(self, materials: Materials) -> RecipeInputs:
        """Return what a recipe that scores or trains uses."""

    def recipe_key(self, materials: Materials) -> Inputs:
        """Return what names the inputs of such a recipe in a cache key."""


@dataclass(frozen=True)
class CardForms(FormInputs):
    """Inputs of the forms of a card's float file in a search."""

    card: Card
    training: str
    purpose: Purpose

    @property
    def spec(self) -> InputSpec:
        return input_spec(self.card)

    @property
    def macs(self) -> int:
        return self.card.macs

    def stands_in(self, materials: Materials) -> bool:
        return materials.images is None and not materials.weights_source(self.card)

    def calibration(self, materials: Materials) -> CalibrationImages:
        """Return training images, or the bundled photographs."""
        seed = materials.question.seed
        if materials.images is not None:
            train = materials.images.part(Role.TRAIN)
            chosen = choose_images(train.labels, CalibrationImages.USUAL, seed)
            paths = tuple(train.paths[index] for index in chosen)
            return CalibrationImages(paths, self.spec, seed, None)
        limit = STAND_IN_CROPS if self.stands_in(materials) else None
        return CalibrationImages((), self.spec, seed, limit)

    def calibration_key(self, materials: Materials) -> object:
        if self.stands_in(materials):
            return "stands in"
        if materials.images is None:
            return ["photographs", PHOTOGRAPHS_VERSION, materials.question.seed]
        return [
            materials.images.part(Role.TRAIN).fingerprint,
            CalibrationImages.USUAL,
            materials.question.seed,
        ]

    def metadata(self, materials: Materials) -> Metadata:
        """Return labels, normalisation and licence, and what the file was trained on."""
        card = self.card
        images = materials.images
        kind = materials.question.of_task.model_kind
        if images and not card.is_finished:
            labels = images.classes
            count = images.counts[self._trained_role]
            data = f"retrained ({self.training}) on {count} images of {len(labels)} classes"
        else:
            labels = read_published_labels(card)
            data = "not retrained" if card.is_finished else "ImageNet"
        description = f"{kind} {card.name}, {data}; made by advisor"
        return Metadata(
            card.name,
            labels,
            card.preprocessing.mean,
            card.preprocessing.std,
            description,
            licence=card.licence,
        )

    @property
    def _trained_role(self) -> Role:
        """The images that the metadata says a retrained file has learnt from."""
        recipe = recipe_of(self.training)
        if self.purpose is Purpose.ALL:
            return Role.ALL
        if recipe.quick_head:
            return Role.SUBSET
        return Role.TRAIN if recipe.tunes_backbone else Role.LEARNT

    def for_recipe(self, materials: Materials) -> RecipeInputs:
        """Return what a recipe that scores or trains uses.

        It learns from the images of its purpose. Only the compared file is judged by validation,
        from which the other files learn.
        """
        limit = materials.question.limits.max_drop_points
        images = materials.images
        if images is None:
            return RecipeInputs(images=None, max_drop_points=limit)
        part = images.part(self.purpose.learns)
        seed = materials.question.seed
        classes = len(images.classes)
        learnt = TrainingImages(part.paths, part.labels, classes, self.spec, seed, (), ())
        if self.purpose is Purpose.COMPARE:
            judged = images.part(Role.VALIDATION)
            learnt = TrainingImages(
                part.paths, part.labels, classes, self.spec, seed, judged.paths, judged.labels
            )
        return RecipeInputs(images=learnt, max_drop_points=limit)

    def recipe_key(self, materials: Materials) -> Inputs:
        roles = [Role.TRAIN, Role.VALIDATION]
        if self.purpose is Purpose.ALL:
            roles.append(Role.ALL)
        images = materials.images
        parts = [images.part(role).fingerprint for role in roles] if images else []
        return {
            "max_drop": materials.question.limits.max_drop_points,
            "purpose": self.purpose,
            "parts": parts,
        }


def calibrate_float(
    scope: Scope,
    source: Stage[FloatModel] | FloatModel,
    form_inputs: FormInputs,
    recipes: Sequence[str],
    earlier: Stage[Calibration] | None = None,
) -> Stage[Calibration]:
    """Observe a float file and round its weights, once for all recipes of the search that need it.

    ``earlier`` is the calibration of the compared file,
    of which the file that ships has most layers.
    """
    all_grids = [find_recipe(name).grids for name in recipes]
    grids = tuple(dict.fromkeys(grid for grid in all_grids if grid is not None))

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "model": result_of(source, results).sha256,
            "grids": list(map(asdict, grids)),
            "calibration": form_inputs.calibration_key(materials),
            "view": form_inputs.spec.key if form_inputs.spec else "",
            **list_versions("ai-edge-litert", "pillow", "scikit-image", "numpy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        model = result_of(source, results).path
        images = form_inputs.calibration(materials)
        known = _read_calibration(earlier, results)
        return partial(jobs.prepare_calibration, model, grids, images, folders.out, known)

    # Of a model that goes on, only the layers that were trained further are new.
    new_layers = recipe_of(scope.training).layers if earlier else 1.0
    return Stage(
        name=StageName.CALIBRATE,
        scope=scope,
        version="2",
        doing="calibrating",
        after=(*after(source), *after(earlier)),
        inputs=inputs,
        job=job,
        read=_list_calibration,
        cost_s=cost.calibrating_s(form_inputs.macs, new_layers),
    )


def _list_calibration(folder: Path) -> Calibration:
    return tuple(sorted(file for file in folder.iterdir() if file.name != RESULT))


def compress_float(
    scope: Scope,
    source: Stage[FloatModel] | FloatModel,
    form_inputs: FormInputs,
    compared: Stage[Artefact] | None = None,
    calibration: Stage[Calibration] | None = None,
) -> Stage[Artefact]:
    """Compress a float file, and write labels and normalisation into it.

    The file that ships reuses the decision of the ``compared`` file if the recipe decides on
    scores. ``calibration`` is what the recipes of the float file share; None for a recipe that
    observes the file itself.
    """
    recipe = find_recipe(scope.compression)
    learns = recipe.needs >= Needs.SCORING

    def inputs(materials: Materials, results: Results) -> Inputs:
        metadata = form_inputs.metadata(materials)
        key: dict[str, object] = {
            "model": result_of(source, results).sha256,
            "recipe": [recipe.name, recipe.version],
            "calibration": form_inputs.calibration_key(materials),
            "view": form_inputs.spec.key if form_inputs.spec else "",
            "metadata": asdict(metadata) if metadata else None,
            **list_versions("ai-edge-quantizer", "ai-edge-litert", "pillow", "scikit-image"),
        }
        if not learns:
            return key
        recipe_key = form_inputs.recipe_key(materials)
        return {**key, **recipe_key, "decided": _read_decision(compared, results)}

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        recipe_inputs = None
        if learns:
            for_recipe = form_inputs.for_recipe(materials)
            recipe_inputs = replace(for_recipe, decided=_read_decision(compared, results))
        return partial(
            jobs.compress_model,
            result_of(source, results).path,
            recipe.name,
            form_inputs.calibration(materials),
            form_inputs.metadata(materials),
            folders.model,
            form_inputs.stands_in(materials),
            recipe_inputs,
            _read_calibration(calibration, results),
        )

    return Stage(
        name=StageName.COMPRESS,
        scope=scope,
        version="4",
        doing=f"compressing to {recipe.name}",
        after=(*after(source), *after(compared), *after(calibration)),
        inputs=inputs,
        job=job,
        read=Artefact.within,
        cost_s=cost.COMPRESS_S.get(recipe.name, cost.REWRITE_S),
        resources=RESOURCES.get(recipe.needs, LIGHT_WORK),
    )


def _read_calibration(calibration: Stage[Calibration] | None, results: Results) -> Calibration:
    """Return what the recipes of a float file share; nothing if a recipe observes it itself."""
    return results[calibration] if calibration else ()


def _read_decision(compared: Stage[Artefact] | None, results: Results) -> Mapping[str, Any] | None:
    """Return what the recipe decided for the compared file; None if the file has none."""
    return results[compared].notes if compared else None


def with_confidence(
    scope: Scope, source: Stage[Artefact], scored: Stage[Path], folds: Folds | None
) -> Stage[Artefact]:
    """Fold the temperature of a file's logits into its head;
    its latency, memory and answers stay as they are.

    The probabilities of the compared file on the validation part, ``scored``, give the
    temperature, and those of its float head on the training part, ``folds``.
    """

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "artefact": results[source].sha256,
            "scores": results.sha256(scored),
            "labels": list(materials.part(Role.VALIDATION).labels),
            **fold_inputs(folds, materials, results),
            **list_versions("numpy", "scipy"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        file = results[source]
        return partial(
            jobs.fold_temperature,
            file.path,
            results[scored],
            materials.part(Role.VALIDATION).labels,
            file.figures,
            file.notes,
            folders.model,
            out_of_fold(folds, materials, results),
        )

    return Stage(
        name=StageName.CONFIDENCE,
        scope=scope,
        version=TEMPERATURE_VERSION,
        doing="calibrating the probabilities of",
        after=tuple(dict.fromkeys((source, scored, *(folds or ())))),
        inputs=inputs,
        job=job,
        read=Artefact.within,
        cost_s=cost.REWRITE_S,
    )


def shares_calibration(recipe: str, recipes: Sequence[str]) -> bool:
    """Return whether a recipe needs what :func:`calibrate_float` makes
    for the recipes of a search.
    """
    grids = find_recipe(recipe).grids
    return grids is not None and any(find_recipe(other).grids == grids for other in recipes)
