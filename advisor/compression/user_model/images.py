"""Choose the images that the compressed files are calibrated, trained and scored on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.compression.calibration import CALIBRATION, FEWEST, choose, drawn, find_images
from advisor.compression.recipes.base import Needs, TrainingImages
from advisor.core.errors import UsageError
from advisor.datasets.boxes import formats_of
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.checks.check import require_usable
from advisor.datasets.dataset import Dataset, class_order
from advisor.datasets.division import divide, divide_boxes
from advisor.datasets.images import InputSpec
from advisor.datasets.split import Split, halved
from advisor.datasets.survey import Survey, survey

SCORED = 200
"""Unlabelled images to count agreement with float on, at most."""

PHOTOGRAPHS = "bundled everyday photographs; give your own images with --calibration"


@dataclass(frozen=True)
class TrueBoxes:
    """The true boxes in an image.

    Attributes:
        rows: class in the order of the model, then top, left, bottom and right in shares of the image.
        size: height and width of the image in pixels.
    """

    rows: tuple[tuple[int, float, float, float, float], ...]
    size: tuple[int, int]


@dataclass(frozen=True)
class ImageRequest:
    """The images that are asked for, and the model that they are for.

    Attributes:
        calibration: folder of images, labelled or not; None for none.
        data: folder of labelled images; None for none.
        spec: how the model reads images.
        names: the model's labels; empty if it has none.
        classes: number of classes of the model.
        seed: of every draw.
        needs: what the recipes need.
    """

    calibration: Path | None
    data: Path | None
    spec: InputSpec
    names: Sequence[str]
    classes: int
    seed: int
    needs: Collection[Needs]


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


def read_images(request: ImageRequest) -> CompressionImages:
    """Read the user's folders of a classifier, or none.

    With both folders and no recipe that uses labels, all of ``--data`` scores the files. Otherwise its hold-out scores
    them, split off as in ``advisor search``, and the rest is for calibration and training. A model that a search
    exported was trained on everything but the hold-out. A recipe that chooses by labels gets half of the hold-out, and
    the other half scores the files.

    Raises:
        UsageError: a folder is missing or cannot be used, holds too few images, or its classes are not the model's.
    """
    calibration, data, seed = request.calibration, request.data, request.seed
    own = find_images(calibration) if calibration else ()
    if data is None:
        return _unlabelled(own, calibration, seed)
    read = _survey(data)
    dataset = read.dataset
    order = class_order(dataset.classes, request.names, request.classes)
    if own and max(request.needs) < Needs.SCORING:
        chosen, scored = drawn(own, CALIBRATION, seed), _labelled(dataset, range(len(dataset.images)), order)
        source = f"{len(chosen)} images of {calibration}"
        return CompressionImages(chosen, source, *scored, f"all {len(dataset.images)} images of {data}")
    division = divide(read, seed)
    whole = division.split
    parts = (
        _for_choosing(dataset, whole, (*division.together, *division.grouping.members))
        if Needs.SCORING in request.needs
        else whole
    )
    training = [dataset.images[index] for index in parts.train]
    chosen = drawn(own, CALIBRATION, seed) or tuple(
        training[index].path for index in choose([image.label for image in training], CALIBRATION, seed)
    )
    source = f"{len(chosen)} images of {calibration}" if own else f"{len(chosen)} training images of {data}"
    train, validation, scored = (
        _labelled(dataset, part, order) for part in (parts.train, parts.validation, parts.holdout)
    )
    for_recipes = TrainingImages(*train, request.classes, request.spec, seed, *validation)
    return CompressionImages(chosen, source, *scored, _held_out(parts, whole, data), for_recipes)


def _survey(data: Path) -> Survey:
    """Read images that have classes."""
    try:
        read = survey(data)
        require_usable(read.dataset)
        return read
    except UsageError as error:
        formats = formats_of(data) if data.is_dir() else {}
        if not formats:
            raise
        hint = f"the folder has boxes, {' and '.join(formats)}; the model is a classifier: give class folders"
        raise UsageError(error.message, hint) from None


def read_boxes(request: ImageRequest) -> CompressionImages:
    """Read the user's folders for a detector, or none.

    With both folders, all of ``--data`` scores the files. Otherwise its hold-out scores them, split off as in
    ``advisor search``.

    Raises:
        UsageError: a folder is missing or cannot be used, or the classes of its boxes are not the model's.
    """
    calibration, data, seed = request.calibration, request.data, request.seed
    own = find_images(calibration) if calibration else ()
    if data is None:
        return _unlabelled(own, calibration, seed)
    read = survey_boxes(data)
    order, objects = class_order(read.classes, request.names, request.classes), read.objects
    paths = [image.path for image in read.images.dataset.images]
    chosen, scored = drawn(own, CALIBRATION, seed), tuple(range(len(paths)))
    source, judged = f"{len(chosen)} images of {calibration}", f"all {len(paths)} images of {data}"
    if not own:
        parts = divide_boxes(read, seed)[0].split
        chosen = drawn(tuple(paths[index] for index in parts.train), CALIBRATION, seed)
        scored, judged = parts.holdout, f"the {len(parts.holdout)} images held out of {data}"
        source = f"{len(chosen)} training images of {data}"
    truth = tuple(
        TrueBoxes(tuple((order[row[0]], *row[1:]) for row in objects[index]), read.sizes[index][::-1])
        for index in scored
    )
    return CompressionImages(chosen, source, tuple(paths[index] for index in scored), truth, judged)


def _for_choosing(dataset: Dataset, parts: Split, together: Sequence[Sequence[int]]) -> Split:
    """Return the split with half of its hold-out as validation part, if the hold-out is large enough."""
    chosen_on, scored = halved(dataset, parts.holdout, parts.seed, together)
    return replace(parts, validation=chosen_on, holdout=scored) if chosen_on else parts


def _unlabelled(own: tuple[Path, ...], folder: Path | None, seed: int) -> CompressionImages:
    if not own:
        return CompressionImages((), PHOTOGRAPHS, (), (), PHOTOGRAPHS)
    chosen = drawn(own, CALIBRATION, seed)
    others = tuple(path for path in own if path not in set(chosen))
    scored = drawn(others, SCORED, seed) if len(others) >= 2 * FEWEST else chosen
    new = "that were not calibrated on" if scored is not chosen else "that were calibrated on, too"
    source = f"{len(chosen)} images of {folder}"
    return CompressionImages(chosen, source, scored, (), f"{len(scored)} images of {folder} {new}")


def _labelled(
    dataset: Dataset, indices: Sequence[int], order: Sequence[int]
) -> tuple[tuple[Path, ...], tuple[int, ...]]:
    images = [dataset.images[index] for index in indices]
    return tuple(image.path for image in images), tuple(order[image.label] for image in images)


def _held_out(parts: Split, whole: Split, data: Path) -> str:
    scored, held = len(parts.holdout), len(whole.holdout)
    if scored == held:
        return f"the {held} images held out of {data}"
    return f"{scored} of the {held} images held out of {data}; a recipe used the others to choose"
