"""Read good and faulty images for a search, and check them for ``advisor data check``.

Good images are learnt from, faulty ones only judge. ``read`` returns the images of a question,
divided into parts. ``check_faults`` returns the findings of a check; its content is that of
classes. The names of folders in :data:`GOOD`, :data:`IMAGES` and :data:`MASKS` are documented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from advisor.core import UsageError, listed, plural
from advisor.datasets import (
    Division,
    Entry,
    Finding,
    Listing,
    Overview,
    Pair,
    Progress,
    SplitPart,
    Survey,
    check_images,
    folder_in,
    images_in,
    list_files,
    phrase_count,
)
from advisor.engine import (
    DataCheck,
    Images,
    Question,
    Say,
)
from advisor.tasks._task import report_progress
from advisor.tasks.classification._images import Classes

ANOMALY = "anomaly"
GOOD = ("good", "normal", "free", "ok", "fine", "intact", "pass", "defect-free")
IMAGES = ("images", "image", "imgs")
MASKS = ("ground_truth", "masks", "mask")
# Share of the images in one group of near copies, above which near copies tell nothing.
ALIKE = 0.2
LEAST = 30  # Groups of good images that are learnt from, at least
NEXT = "advisor search --task anomaly --data {manifest} --budget 50ms"
# Kinds of findings of this task.
FaultKind = StrEnum("FaultKind", {"ODD": "good images unlike the others"})
HINT = (
    "put good images into DIR/good; faulty ones, which only judge, into folders of other names,"
    " such as DIR/scratch"
)


def survey_faults(
    path: Path, progress: Progress | None = None, most: int | None = None
) -> tuple[Survey, list[str]]:
    """Return the images in folders, or those without masks in any file, and the paths of masks.

    The first class is that of the good images; a path is empty without a mask.

    Raises:
        UsageError: the path does not exist, has no image, or does not tell which images are good.
    """
    listing, masks = _list_images(path)
    good = _choose_good({entry.label for entry in listing.entries}, path)
    read = Survey.read(listing, progress, most)
    names = read.dataset.classes
    order = (good, *sorted(set(names) - {good}))
    images = tuple(
        replace(image, label=order.index(names[image.label])) for image in read.dataset.images
    )
    mask_paths = []
    for image in images:
        # Good images have no mask, whatever lies there.
        key = (image.path.parent.name, image.path.stem)
        mask_paths.append(masks.get(key, "") if image.label else "")
    return replace(read, dataset=replace(read.dataset, classes=order, images=images)), mask_paths


def _list_images(path: Path) -> tuple[Listing, dict[tuple[str, str], str]]:
    """Return the images by kind, and the path of each mask by kind and name of its image."""
    if not path.is_dir():
        listing = list_files(path)
        entries = [entry for entry in listing.entries if entry.label.casefold() not in MASKS]
        return replace(listing, entries=entries), {}
    folder = folder_in(path, *IMAGES)
    truth = folder_in(path, *MASKS)
    files = []
    for file in images_in(folder):
        if truth == path or truth not in file.parents:
            files.append(file)
    # The folder itself is returned where no folder inside has the name.
    known = images_in(truth) if truth != path else []
    # MVTec names a mask as its image, with _mask behind it,
    # and each kind counts its images from 0 on.
    masks = {(file.parent.name, file.stem.removesuffix("_mask")): str(file) for file in known}
    entries = []
    for file in files:
        # Images beside the folders of kinds are good.
        kind = file.parent.name if file.parent != folder else GOOD[0]
        entries.append(Entry(file, kind))
    return Listing(path, entries), masks


def _choose_good(kinds: set[str], path: Path) -> str:
    """Return the kind of the good images; UsageError if none or several could be it."""
    if not kinds:
        raise UsageError(f"--data: '{path}' holds no images", HINT)
    good = sorted(kind for kind in kinds if kind.casefold() in GOOD)
    if len(good) == 1:
        return good[0]
    if not good and len(kinds) == 1:
        return next(iter(kinds))
    what = f"no kind named 'good': {listed(sorted(kinds))}"
    if good:
        what = f"several kinds of good images: {listed(good)}"
    raise UsageError(f"--data: '{path}' has {what}", HINT)


def read(question: Question, say: Say) -> Images:
    """Return images with masks, of which good ones are learnt from.

    Raises:
        UsageError: they are unreadable, or too few.
    """
    reading, masks = survey_faults(
        question.require_data(), report_progress(say), question.most_images
    )
    division, lost = divide_faults(reading, question.seed)
    dataset = reading.dataset
    notes = division.list_notes(replace(dataset, classes=dataset.classes[:1]))
    if lost:
        judging = plural(lost, "faulty image judges", "faulty images judge")
        notes = (*notes, f"{judging} nothing, as near copies are learnt from.")
    if len(dataset.classes) == 1:
        note = (
            "There are no faulty images: networks are judged by faults that are drawn into good"
            " images."
        )
        notes = (*notes, note)
    return replace(
        Images.of_division(dataset, division, notes, say), objects=tuple(masks), outputs=(ANOMALY,)
    )


def find_copies(read: Survey) -> tuple[Pair, ...]:
    """Return pairs of near copies; none where most images are alike.

    Images of one part from one place are all alike, which says nothing.
    """
    pairs = Pair.find_alike(read.thumbnails)
    count = len(read.dataset.images)
    if max(map(len, Pair.group_images(pairs, count)), default=0) > ALIKE * count:
        return ()
    return pairs


def divide_faults(
    read: Survey, seed: int, alike: tuple[Pair, ...] | None = None
) -> tuple[Division, int]:
    """Return the division, and the number of faulty images in no part.

    Only good images are learnt from. Faulty images of the training part judge candidates, unless
    good images of their group are learnt from.

    Raises:
        UsageError: there are fewer than :data:`LEAST` groups of good images to learn from.
    """
    dataset = read.dataset
    kinds = (dataset.classes[0], ANOMALY)[: 1 + any(dataset.labels)]
    plain = tuple(replace(image, label=min(image.label, 1)) for image in dataset.images)
    two = replace(read, dataset=replace(dataset, classes=kinds, images=plain))
    pairs = find_copies(read) if alike is None else alike
    division = Division.of_survey(two, seed, pairs)
    parts = division.split
    numbers = division.groups
    good = tuple(index for index in parts.train if not dataset.images[index].label)
    learnt = {numbers[index] for index in good}
    if len(learnt) < LEAST:
        what = (
            f"{plural(len(good), 'good image')} in {plural(len(learnt), 'group')} of near copies"
            " to learn from"
        )
        raise UsageError(
            f"--data: there are {what}, at least {LEAST} groups are needed", "add good images"
        )
    moved = []
    # A faulty image is never learnt from, so one without a good near copy can still judge.
    for index in parts.train:
        if dataset.images[index].label and numbers[index] not in learnt:
            moved.append(index)
    split = replace(parts, train=good, validation=tuple(sorted((*parts.validation, *moved))))
    lost = len(parts.train) - len(good) - len(moved)
    unused = dict(division.copies)
    if lost:
        unused[SplitPart.TRAIN] = lost
    return replace(division, split=split, copies=unused), lost


def check_faults(path: Path, say: Say) -> DataCheck:
    """Check good and faulty images; they are not changed."""
    say(f"reading images of {path}")
    read, _ = survey_faults(path, report_progress(say))
    say("comparing images")
    pairs = find_copies(read)
    content = Classes(read.dataset, (), NEXT)
    findings = check_images(read, pairs, _list_odd(read))

    def overview(seed: int) -> Overview:
        division, _ = divide_faults(read, seed, pairs)
        return division.make_overview(read.dataset)

    return DataCheck.of_survey(path, read, content, findings, overview)


def _list_odd(read: Survey) -> Iterator[Finding]:
    """Yield the good images whose small version is far from that of any other: they may be faulty.

    Far is more than the upper quartile of these distances and three times the range between the
    quartiles (J. Tukey, "Exploratory Data Analysis", 1977).
    """
    from scipy.spatial.distance import cdist

    good = np.flatnonzero(np.array(read.dataset.labels) == 0)
    if len(good) < LEAST:
        return
    small = read.thumbnails[good].reshape(len(good), -1).astype(np.float32)
    # Another light alone is no difference.
    small = (small - small.mean(axis=1, keepdims=True)) / (small.std(axis=1, keepdims=True) + 1)
    nearest = np.sort(cdist(small, small), axis=1)[:, 1]  # the first is the image itself
    low, high = np.quantile(nearest, (0.25, 0.75))
    order = np.argsort(-nearest)
    far = good[order[nearest[order] > high + 3 * (high - low)]]
    odd = tuple(read.dataset.images[place].path for place in far)
    if odd:
        message = f"{phrase_count(len(odd), 'good image is', 'good images are')} unlike all others"
        images = tuple((path,) for path in odd)
        yield Finding(FaultKind.ODD, message, "look whether they are good", images, (), odd)
