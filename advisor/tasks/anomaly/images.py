"""Read images of good and of faulty things: what is learnt from, and what judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from advisor.core.errors import UsageError
from advisor.core.units import listed, plural
from advisor.datasets.boxes.values import folder_in
from advisor.datasets.checks import repeated, unreadable
from advisor.datasets.checks.findings import Finding, counted
from advisor.datasets.checks.image_quality import OF_ANY_PLACE, conditions, sizes
from advisor.datasets.dataset import Entry, Listing
from advisor.datasets.division import Division, divide
from advisor.datasets.duplicates import Pair, groups, near_duplicates
from advisor.datasets.layouts import SUFFIXES, images_in, list_manifest
from advisor.datasets.survey import Progress, Survey, survey
from advisor.engine.data_check import SEED, DataCheck, Say, advance, checked
from advisor.engine.pipeline.materials import Images, Part
from advisor.engine.question import Question
from advisor.engine.space.resolved import divided
from advisor.tasks.classification.images import Classes

ANOMALY = "anomaly"
GOOD = ("good", "normal", "free", "ok", "fine", "intact", "pass", "defect-free")
IMAGES, MASKS = ("images", "image", "imgs"), ("ground_truth", "masks", "mask")
ALIKE = 0.2  # Share of the images in one group of near copies, above which near copies tell nothing
LEAST = 30  # Groups of good images that are learnt from, at least
NEXT = "advisor search --task anomaly --data {manifest} --budget 50ms"
HINT = "put good images into DIR/good; faulty ones, which only judge, into folders of other names, such as DIR/scratch"


@dataclass(frozen=True)
class FaultImages(Images):
    """Good images, the first kind, and images of faults, with masks where they are known."""

    masks: tuple[str, ...] = ()  # path of the mask of each image, empty without

    @property
    def classes(self) -> tuple[str, ...]:
        """The meaning of a network's output."""
        return (ANOMALY,)

    def _part(self, indices: tuple[int, ...]) -> Part:
        return replace(super()._part(indices), objects=tuple(self.masks[index] for index in indices))


def survey_faults(
    path: Path, progress: Progress | None = None, most: int | None = None
) -> tuple[Survey, tuple[str, ...]]:
    """Read images in folders, or of a table with the columns path and label; return them, and the paths of their masks.

    The first class is that of the good images; a path is empty without a mask.

    Raises UsageError if the path does not exist, has no image, or does not tell which images are good.
    """
    if not path.exists():
        raise UsageError(f"--data: '{path}' does not exist", HINT)
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--data: '{path}' is neither a folder nor a table", HINT)
    root, entries, masks = path, list[Entry](), dict[tuple[str, str], str]()
    if path.is_file():
        root, entries = path.parent, list(list_manifest(path).entries)
    else:
        own, truth = folder_in(path, *IMAGES), folder_in(path, *MASKS)
        files = [file for file in images_in(own) if truth == path or truth not in file.parents]
        entries = [Entry(file, file.parent.name if file.parent != own else GOOD[0]) for file in files]
        known = images_in(truth) if truth != path else []
        masks = {(file.parent.name, file.stem.removesuffix("_mask")): str(file) for file in known}
    good = _good({entry.label for entry in entries}, path)
    read = survey(Listing(root, entries), progress, most)
    order = (good, *sorted(set(read.dataset.classes) - {good}))
    names = read.dataset.classes
    images = [replace(image, label=order.index(names[image.label])) for image in read.dataset.images]
    found = [masks.get((image.path.parent.name, image.path.stem), "") if image.label else "" for image in images]
    dataset = replace(read.dataset, classes=order, images=tuple(images))
    return replace(read, dataset=dataset), tuple(found)


def _good(kinds: set[str], path: Path) -> str:
    if not kinds:
        raise UsageError(f"--data: '{path}' holds no images", HINT)
    good = sorted(kind for kind in kinds if kind.casefold() in GOOD)
    if len(good) == 1 or (not good and len(kinds) == 1):
        return good[0] if good else next(iter(kinds))
    what = f"several kinds of good images: {listed(good)}" if good else f"no kind named 'good': {listed(sorted(kinds))}"
    raise UsageError(f"--data: '{path}' has {what}", HINT)


def read(question: Question, say: Say) -> Images:
    """Return images of which good ones are learnt from; UsageError if they cannot be read, or are too few."""
    found, masks = survey_faults(question.require_data(), advance(say), question.most_images)
    division, lost = divided_faults(found, question.seed)
    dataset = found.dataset
    notes = division.notes(replace(dataset, classes=dataset.classes[:1]))
    if lost:
        notes = (*notes, f"{plural(lost, 'faulty image')} judge nothing, as near copies of them are learnt from.")
    if len(dataset.classes) == 1:
        notes = (*notes, "There are no faulty images: networks are judged by faults that are drawn into good images.")
    plain = divided(dataset, division, notes, say)
    return FaultImages.of(plain, masks=masks)


def copies(read: Survey) -> tuple[Pair, ...]:
    """Return pairs of near copies; none where most images are alike, as those of one part from one place are."""
    pairs, count = near_duplicates(read.thumbnails), len(read.dataset.images)
    return () if max(map(len, groups(pairs, count)), default=0) > ALIKE * count else pairs


def divided_faults(read: Survey, seed: int, alike: tuple[Pair, ...] | None = None) -> tuple[Division, int]:
    """Return the division, in which only good images are learnt from, and the number of faulty images in no part.

    Faulty images of the training part judge candidates, unless good images of their group are learnt from.
    """
    dataset = read.dataset
    kinds = (dataset.classes[0], ANOMALY)[: 1 + any(dataset.labels)]
    plain = tuple(replace(image, label=min(image.label, 1)) for image in dataset.images)
    division = divide(
        replace(read, dataset=replace(dataset, classes=kinds, images=plain)),
        seed,
        copies(read) if alike is None else alike,
    )
    parts, numbers = division.split, division.groups
    good = tuple(index for index in parts.train if not dataset.images[index].label)
    learnt = {numbers[index] for index in good}
    if len(learnt) < LEAST:
        what = f"{plural(len(good), 'good image')} in {plural(len(learnt), 'group')} of near copies"
        raise UsageError(
            f"--data: there are {what} to learn from, at least {LEAST} groups are needed", "add good images"
        )
    moved = [index for index in parts.train if dataset.images[index].label and numbers[index] not in learnt]
    split = replace(parts, train=good, validation=tuple(sorted((*parts.validation, *moved))))
    return replace(division, split=split), len(parts.train) - len(good) - len(moved)


class FaultKind(StrEnum):
    """A kind of finding about good and faulty images."""

    ODD = "good images unlike the others"


def check_faults(path: Path, say: Say) -> DataCheck:
    """Check good and faulty images; they are not changed."""
    say(f"reading images of {path}")
    read, _ = survey_faults(path, advance(say))
    say("comparing images")
    pairs = copies(read)
    dataset, content = read.dataset, Classes(read.dataset, (), NEXT)
    findings = [*unreadable(dataset), *repeated(dataset, pairs), *_odd(read), *sizes(read)]
    shown = conditions(read, OF_ANY_PLACE)
    return checked(path, read, content, findings, lambda: divided_faults(read, SEED, pairs)[0].overview(dataset), shown)


def _odd(read: Survey) -> Iterator[Finding]:
    """Yield the good images whose small version is far from that of any other: they may be faulty.

    Far is more than the upper quartile of these distances and three times the range between the quartiles (J. Tukey,
    "Exploratory Data Analysis", 1977).
    """
    from scipy.spatial.distance import cdist

    good = [place for place, image in enumerate(read.dataset.images) if not image.label]
    if len(good) < LEAST:
        return
    small = read.thumbnails[good].reshape(len(good), -1).astype(np.float32)
    small = (small - small.mean(axis=1, keepdims=True)) / (small.std(axis=1, keepdims=True) + 1)  # whatever the light
    nearest = np.sort(cdist(small, small), axis=1)[:, 1]  # the first is the image itself
    low, high = np.quantile(nearest, (0.25, 0.75))
    order = np.argsort(-nearest)
    odd = [read.dataset.images[good[place]].path for place in order if nearest[place] > high + 3 * (high - low)]
    if odd:
        message = f"{counted(len(odd), 'good image is', 'good images are')} unlike all others"
        yield Finding(
            FaultKind.ODD, message, "look whether they are good", tuple((path,) for path in odd), (), tuple(odd)
        )
