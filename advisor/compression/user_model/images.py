"""The images that the forms of a user's own file are calibrated, trained and judged on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.compression.calibration import choose
from advisor.compression.image_folder import CALIBRATION, FEWEST, drawn, find_images
from advisor.compression.recipes.base import Rung
from advisor.compression.recipes.inputs import TrainingImages
from advisor.core.errors import UsageError
from advisor.datasets.checks.repeated import kept_together
from advisor.datasets.checks.requirements import require_usable
from advisor.datasets.dataset import Dataset
from advisor.datasets.duplicates import near_duplicates
from advisor.datasets.images import InputSpec
from advisor.datasets.split import Split, halved, split
from advisor.datasets.survey import survey

JUDGED = 200
"""Unlabelled images that agreement with float is counted on, at most."""

PHOTOGRAPHS = "everyday photographs that come with the installation: give your own with --calibration"


@dataclass(frozen=True)
class Images:
    """What is read of the user's folders.

    Attributes:
        calibration: images to calibrate on; empty for the bundled photographs.
        calibration_source: which these are, for the reader.
        judged: images to judge the forms on; empty for the bundled photographs.
        labels: their classes in the order of the model's output; empty where they are not labelled.
        judged_source: which these are, for the reader.
        training: for recipes that score or train; None without labelled images.
    """

    calibration: tuple[Path, ...]
    calibration_source: str
    judged: tuple[Path, ...]
    labels: tuple[int, ...]
    judged_source: str
    training: TrainingImages | None = None


def read_images(
    calibration: Path | None,
    data: Path | None,
    view: InputSpec,
    names: Sequence[str],
    classes: int,
    seed: int,
    rungs: Collection[Rung],
) -> Images:
    """Read the user's folders, or none.

    With both folders, and no recipe that learns, all of ``--data`` is judged on; else its hold-out, split off as
    ``advisor search`` does it, and the rest serves to calibrate and to learn. A model that a search shipped has learnt
    from all but the hold-out: a recipe that chooses by labels gets half of it, and the forms are judged on the other.

    Args:
        calibration: folder of images, labelled or not.
        data: folder of labelled images.
        view: how the model reads images.
        names: the model's labels, empty where it has none.
        classes: how many the model tells apart.
        seed: of every draw.
        rungs: those of the recipes asked for.

    Raises:
        UsageError: a folder is missing or unfit, holds too few images, or its classes are not the model's.
    """
    own = find_images(calibration) if calibration else ()
    if data is None:
        return _unlabelled(own, calibration, seed)
    read = survey(data)
    dataset = read.dataset
    require_usable(dataset)
    order = class_order(dataset.classes, names, classes)
    if own and max(rungs) < Rung.SCORED:
        labels = tuple(order[image.label] for image in dataset.images)
        paths = tuple(image.path for image in dataset.images)
        chosen = drawn(own, CALIBRATION, seed)
        return Images(chosen, _said(chosen, calibration), paths, labels, f"all {len(paths)} images of {data}")
    together = kept_together(dataset, near_duplicates(read.thumbnails))
    whole = split(dataset, seed, together=together, given=dataset.own_parts)
    parts = _for_choosing(dataset, whole, together) if Rung.SCORED in rungs else whole
    learnt = [dataset.images[index] for index in parts.train]
    chosen = drawn(own, CALIBRATION, seed) or tuple(
        learnt[place].path for place in choose([image.label for image in learnt], CALIBRATION, seed)
    )
    source = _said(chosen, calibration) if own else f"{len(chosen)} training images of {data}"
    train, validation, judged = (
        _labelled(dataset, part, order) for part in (parts.train, parts.validation, parts.holdout)
    )
    training = TrainingImages(*train, classes, view, seed, *validation)
    return Images(chosen, source, *judged, _held_out(parts, whole, data), training)


def _for_choosing(dataset: Dataset, parts: Split, together: Sequence[Sequence[int]]) -> Split:
    """Return the split with half of its hold-out in the place of the validation part, where there is enough of it."""
    chosen_on, judged = halved(dataset, parts.holdout, parts.seed, together)
    return replace(parts, validation=chosen_on, holdout=judged) if chosen_on else parts


def class_order(folders: Sequence[str], names: Sequence[str], classes: int) -> tuple[int, ...]:
    """Return for each class folder its place among the model's outputs: by name, or in order where it has no labels.

    Raises:
        UsageError: they are not the same classes.
    """
    if not names:
        if len(folders) != classes:
            raise UsageError(
                f"--data: {len(folders)} class folders, and the model tells {classes} classes apart (it has no labels)",
                "one folder a class, which sort in the order of the model's outputs",
            )
        return tuple(range(classes))
    known = {" ".join(name.split()).casefold(): place for place, name in enumerate(names)}
    plain = [" ".join(folder.split()).casefold() for folder in folders]
    unknown = [folder for folder, name in zip(folders, plain, strict=True) if name not in known]
    if unknown:
        raise UsageError(
            f"--data: the model has no class {', '.join(map(repr, unknown[:5]))}",
            f"its classes: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
        )
    return tuple(known[name] for name in plain)


def _unlabelled(own: tuple[Path, ...], folder: Path | None, seed: int) -> Images:
    if not own:
        return Images((), PHOTOGRAPHS, (), (), PHOTOGRAPHS)
    chosen = drawn(own, CALIBRATION, seed)
    others = tuple(path for path in own if path not in set(chosen))
    judged = drawn(others, JUDGED, seed) if len(others) >= 2 * FEWEST else chosen
    new = "that were not calibrated on" if judged is not chosen else "that were calibrated on, too"
    return Images(chosen, _said(chosen, folder), judged, (), f"{len(judged)} images of {folder} {new}")


def _labelled(
    dataset: Dataset, indices: Sequence[int], order: Sequence[int]
) -> tuple[tuple[Path, ...], tuple[int, ...]]:
    images = [dataset.images[index] for index in indices]
    return tuple(image.path for image in images), tuple(order[image.label] for image in images)


def _held_out(parts: Split, whole: Split, data: Path) -> str:
    judged, held = len(parts.holdout), len(whole.holdout)
    if judged == held:
        return f"the {held} images held out of {data}"
    return f"{judged} of the {held} images held out of {data}: by the others a recipe chose"


def _said(chosen: Sequence[Path], folder: Path | None) -> str:
    return f"{len(chosen)} images of {folder}"
