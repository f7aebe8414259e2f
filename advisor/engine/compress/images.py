"""Choose the images that the forms of a file are calibrated, trained and scored on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.compression.calibration import CALIBRATION, FEWEST, choose, drawn, find_images
from advisor.compression.recipes.base import Needs, TrainingImages
from advisor.compression.user_model.values import TrueBoxes
from advisor.core.errors import UsageError
from advisor.datasets.dataset import class_order
from advisor.datasets.images import InputSpec
from advisor.datasets.split import halved
from advisor.engine.pipeline.images import Images, Part, Role
from advisor.engine.question import Question
from advisor.engine.space.images import read_images

SCORED = 200
"""Unlabelled images to count agreement with float on, at most."""

PHOTOGRAPHS = "bundled everyday photographs; give your own images with --calibration"


@dataclass(frozen=True)
class CompressionImages:
    """The images of the user's folders, by their purpose.

    Attributes:
        calibration: images to calibrate on; empty for the bundled photographs.
        calibration_source: says which these are.
        scored: images to score the files on; empty for the bundled photographs.
        labels: the truth of each, in the order of the model's classes: its class, or its boxes; empty if not known.
        scored_source: says which these are.
        training: for recipes that score or train; None without labelled images.
    """

    calibration: tuple[Path, ...]
    calibration_source: str
    scored: tuple[Path, ...]
    labels: tuple[int, ...] | tuple[TrueBoxes, ...]
    scored_source: str
    training: TrainingImages | None = None


NO_IMAGES = CompressionImages((), PHOTOGRAPHS, (), (), PHOTOGRAPHS)


def images_for(
    question: Question,
    calibration: Path | None,
    spec: InputSpec,
    names: Sequence[str],
    classes: int,
    needs: Collection[Needs],
) -> CompressionImages:
    """Read the user's folders, or none.

    With both folders and no recipe that uses labels, all labelled images score the files. Otherwise their hold-out
    scores them, split off as in a search. A model that a search exported was trained on everything but the hold-out. A
    recipe that chooses by labels gets half of the hold-out, and the other half scores the files.

    Args:
        question: names the task and the labelled images.
        calibration: folder of images, labelled or not; None for none.
        spec: how the model reads images.
        names: the model's labels; empty if it has none.
        classes: number of classes of the model.
        needs: what the recipes need.

    Raises:
        UsageError: a folder is missing or cannot be used, holds too few images, or its classes are not the model's.
    """
    data, seed, labelled = question.data, question.seed, question.of_task.labelled
    own = find_images(calibration) if calibration else ()
    whole = bool(own) and not (labelled and max(needs) >= Needs.SCORING)
    read = _read(replace(question, judged_whole=whole))
    if read is None:
        return _unlabelled(own, calibration, seed)
    order = class_order(read.classes, names, classes)
    halves = _for_choosing(read) if labelled and Needs.SCORING in needs and not whole else read
    scored, held = halves.part(Role.HOLDOUT), len(read.split.holdout)
    judged = f"all {held} images of {data}" if whole else f"the {held} images held out of {data}"
    if len(scored.paths) < held:
        judged = f"{len(scored.paths)} of the {held} images held out of {data}; a recipe used the others to choose"
    train, source = read.part(Role.TRAIN), f"images of {calibration}" if own else f"training images of {data}"
    chosen = drawn(own or (() if labelled else train.paths), CALIBRATION, seed)
    if not chosen:
        chosen = tuple(train.paths[index] for index in choose(train.labels, CALIBRATION, seed))
    found = CompressionImages(chosen, f"{len(chosen)} {source}", scored.paths, _truth(halves, scored, order), judged)
    if whole or not labelled:
        return found
    validation = halves.part(Role.VALIDATION)
    learnt, judging = (tuple(order[label] for label in part.labels) for part in (train, validation))
    training = TrainingImages(train.paths, learnt, classes, spec, seed, validation.paths, judging)
    return replace(found, training=training)


def _read(question: Question) -> Images | None:
    """Read the labelled images as a search does."""
    try:
        return read_images(question, lambda _text: None)
    except UsageError as error:
        hint, other, _ = error.hint.partition(": add --task ")
        raise UsageError(
            error.message, f"{hint}; the model is a classifier: give class folders" if other else hint
        ) from None


def _for_choosing(images: Images) -> Images:
    """Return the images with half of their hold-out as validation part, if the hold-out is large enough."""
    split, together = images.split, dict[int, list[int]]()
    for index, group in enumerate(images.groups):
        together.setdefault(group, []).append(index)
    chosen_on, scored = halved(images.dataset, split.holdout, split.seed, list(together.values()))
    return replace(images, split=replace(split, validation=chosen_on, holdout=scored)) if chosen_on else images


def _truth(images: Images, part: Part, order: Sequence[int]) -> tuple[int, ...] | tuple[TrueBoxes, ...]:
    """Return the truth of some images in the order of the model's classes."""
    if images.boxes is None:
        return tuple(order[label] for label in part.labels)
    sizes = (images.boxes.sizes[index] for index in part.indices)
    return tuple(
        TrueBoxes(tuple((order[row[0]], *row[1:]) for row in rows), size[::-1])
        for rows, size in zip(part.objects, sizes, strict=True)
    )


def _unlabelled(own: tuple[Path, ...], folder: Path | None, seed: int) -> CompressionImages:
    if not own:
        return NO_IMAGES
    chosen = drawn(own, CALIBRATION, seed)
    others = tuple(path for path in own if path not in set(chosen))
    scored = drawn(others, SCORED, seed) if len(others) >= 2 * FEWEST else chosen
    new = "that were not calibrated on" if scored is not chosen else "that were calibrated on, too"
    source = f"{len(chosen)} images of {folder}"
    return CompressionImages(chosen, source, scored, (), f"{len(scored)} images of {folder} {new}")
