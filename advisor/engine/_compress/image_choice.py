"""Choose the images of ``advisor compress``: to calibrate on, to learn from, and to score on.

``question.py`` calls it once for a file that takes images. The choice is by content and seed, so
the same command has the same images, and the stages of a form are found in the cache again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.compression import Needs, Recipe
from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import (
    CalibrationImages,
    InputSpec,
    choose_images,
    class_order,
    split_halves,
)
from advisor.engine._file_input import draw_paths
from advisor.engine._pipeline.images import Images, Part, Role
from advisor.engine._question.values import Question
from advisor.engine._space.question_images import read_images
from advisor.engine._space.recipes import recipe_applies
from advisor.measurement import Detections
from advisor.training import TrainingImages

SCORED = 200
"""Unlabelled images to count agreement with float on, at most."""

PHOTOGRAPHS = "bundled everyday photographs; give your own images with --calibration"


@dataclass(frozen=True)
class CompressionImages:
    """The images of the user's folders, by their purpose, and in words where they are from;
    none for the bundled photographs.

    Attributes:
        labels: the truth of each scored image, in the order of the model's classes: its class, or
            its boxes; empty if it is not known.
        training: for recipes that score or train; None without labelled images.
    """

    calibration: tuple[Path, ...] = ()
    scored: tuple[Path, ...] = ()
    calibration_source: str = PHOTOGRAPHS
    scored_source: str = PHOTOGRAPHS
    labels: tuple[Any, ...] = ()
    training: TrainingImages | None = None


def choose_file_images(
    question: Question,
    recipes: Sequence[Recipe],
    spec: InputSpec,
    labels: Sequence[str],
    classes: int,
    calibration: Path | None,
) -> CompressionImages:
    """Read the user's folders, or none.
    The model has ``classes`` classes, and the ``labels`` of its metadata if any.

    With both folders and no recipe that uses labels, all labelled images score the files.
    Otherwise their hold-out scores them, split off as in a search. A model that a search exported
    was trained on everything but the hold-out. A recipe that chooses by labels gets half of the
    hold-out, and the other half scores the files.

    Raises:
        UsageError: a folder is missing or cannot be used, holds too few images, or its classes are
            not the model's.
    """
    unlabelled = CalibrationImages.find_paths(calibration) if calibration else ()
    learns = _learn_from_labels(recipes, question)
    # Images of the other folder calibrate, and no recipe learns:
    # then no labelled image has to be kept from the scores.
    whole = bool(unlabelled) and not learns
    images = _read_labelled(replace(question, judged_whole=whole))
    if images is None:
        return _use_unlabelled(unlabelled, calibration, question.seed)
    order = class_order(images.classes, labels, classes)
    labelled = question.of_task.labelled
    chooses = Needs.SCORING in {recipe.needs for recipe in recipes}
    parts = images
    # A recipe that chooses by labels would flatter itself on the images that it chose by.
    if labelled and chooses and not whole:
        parts = _divide_holdout(images)
    train = images.part(Role.TRAIN)
    training = None
    if learns or (labelled and not whole):
        validation = parts.part(Role.VALIDATION)
        training = TrainingImages(
            train.paths,
            _list_labels(train, order, labelled),
            classes,
            spec,
            question.seed,
            validation.paths,
            _list_labels(validation, order, labelled),
        )
    scored = parts.part(Role.HOLDOUT)
    chosen = _draw_calibration(unlabelled, train, labelled, question.seed)
    origin = f"images of {calibration}" if unlabelled else f"training images of {question.data}"
    return CompressionImages(
        calibration=chosen,
        scored=scored.paths,
        calibration_source=f"{len(chosen)} {origin}",
        scored_source=_describe_scored(images, scored, question, whole),
        labels=_list_truth(parts, scored, order),
        training=training,
    )


def _learn_from_labels(recipes: Sequence[Recipe], question: Question) -> bool:
    """Return whether a recipe scores or trains, and applies to the task."""
    for recipe in recipes:
        if recipe.needs >= Needs.SCORING and recipe_applies(recipe, question):
            return True
    return False


def _read_labelled(question: Question) -> Images | None:
    """Return the labelled images of a question, split; None if it has none."""
    try:
        return read_images(question, lambda _text: None)
    except AmbiguousInput as error:  # the model says the task, and no option does
        tasks = [reading.meaning for reading in error.readings if "task" in reading.options]
        # Other readings of a folder are for the user to choose;
        # the task is not, as the model has one already.
        if not tasks:
            raise
        hint = f"{', '.join(tasks)}; the model is a classifier: give class folders"
        raise UsageError(error.message, hint) from None


def _divide_holdout(images: Images) -> Images:
    """Return the images with half of their hold-out as validation part,
    if the hold-out is large enough.
    """
    split = images.split
    by_group = dict[int, list[int]]()
    for index, group in enumerate(images.groups):
        by_group.setdefault(group, []).append(index)
    chosen_on, scored = split_halves(
        images.dataset, split.holdout, split.seed, list(by_group.values())
    )
    if not chosen_on:
        return images
    return replace(images, split=replace(split, validation=chosen_on, holdout=scored))


def _draw_calibration(
    unlabelled: tuple[Path, ...], train: Part, labelled: bool, seed: int
) -> tuple[Path, ...]:
    """Return the images to calibrate on: of the user's folder for it, else training images."""
    paths = unlabelled
    if not paths and not labelled:
        paths = train.paths
    chosen = draw_paths(paths, CalibrationImages.USUAL, seed)
    if chosen:
        return chosen
    # Images with classes are drawn class by class,
    # so that a rare class takes part in the ranges, too.
    indices = choose_images(train.labels, CalibrationImages.USUAL, seed)
    return tuple(train.paths[index] for index in indices)


def _describe_scored(images: Images, scored: Part, question: Question, whole: bool) -> str:
    """Return in words which images score the files."""
    held_out = len(images.split.holdout)
    if len(scored.paths) < held_out:
        return (
            f"{len(scored.paths)} of the {held_out} images held out of {question.data}; a recipe"
            " used the others to choose"
        )
    if whole:
        return f"all {held_out} images of {question.data}"
    return f"the {held_out} images held out of {question.data}"


def _list_labels(part: Part, order: Sequence[int], labelled: bool) -> tuple[int, ...]:
    """Return the labels of a part as numbers of the model's classes; as they are if its images
    have no class each.
    """
    if not labelled:
        return tuple(part.labels)
    return tuple(order[label] for label in part.labels)


def _list_truth(images: Images, part: Part, order: Sequence[int]) -> tuple[Any, ...]:
    """Return the truth of each image of a part, see :class:`CompressionImages`."""
    if images.boxes is None:
        return _list_labels(part, order, labelled=True)
    places = dict(enumerate(order))
    truth = []
    for index, objects in zip(part.indices, part.objects, strict=True):
        size = images.boxes.sizes[index]
        truth.append((Detections.of_true_boxes(objects).relabel_boxes(places), size[::-1]))
    return tuple(truth)


def _use_unlabelled(images: tuple[Path, ...], folder: Path | None, seed: int) -> CompressionImages:
    """Return images without labels, of which some calibrate and the others score the files;
    without any, the bundled photographs do.
    """
    if not images:
        return CompressionImages()
    chosen = draw_paths(images, CalibrationImages.USUAL, seed)
    others = tuple(path for path in images if path not in set(chosen))
    # With few images, the same ones calibrate and score.
    scored = chosen
    use = "that were calibrated on, too"
    if len(others) >= 2 * CalibrationImages.FEWEST:
        scored = draw_paths(others, SCORED, seed)
        use = "that were not calibrated on"
    return CompressionImages(
        chosen,
        scored,
        f"{len(chosen)} images of {folder}",
        f"{len(scored)} images of {folder} {use}",
    )
