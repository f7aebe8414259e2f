"""Find out which images were taken on one occasion: a visit, a film, a burst."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Dataset
from advisor.datasets.image_stats import Shot
from advisor.datasets.look_alikes import groups_tell_classes, look_alikes
from advisor.datasets.survey import Survey
from advisor.datasets.whole_groups import UNGROUPED, Grouping, Source

PAUSE_S = 600.0
"""A longer pause between two photos of a camera starts another group."""

TIMED = 0.8
"""Least share of images with a time."""

LEAST_MEAN = 2.0
"""Inferred groups have at least this many images in the mean; otherwise the images are single ones."""

NUMBERED = 0.8
"""Least share of images with a number in their names."""

ALIKE = 0.8
"""File names are sequences if neighbours differ by less than this share of what two images of the class differ by."""

JUMP = 3.0
"""A new group starts where neighbours differ by this many times the median of their class."""

GAP = 10
"""A new group starts where more numbers are missing."""

_NUMBER = re.compile(r"\d+(?=\D*$)")


def find_groups(read: Survey) -> Grouping:
    """Return the groups of a data set, by the first source that has groups.

    The sources are the manifest, time and camera, numbers in file names, and appearance. Groups that are inferred lie
    inside one part of the user's own split. Raises UsageError if the manifest has one group that holds every image.
    """
    dataset = read.dataset
    if any(image.group for image in dataset.images):
        return _named(dataset)
    parts = [image.part for image in dataset.images]
    for numbers, source in (
        (by_camera(read.shots), Source.CAMERA),
        (by_sequence(dataset, read.colours), Source.SEQUENCE),
    ):
        if _plausible(numbers):
            return Grouping(_numbered(list(zip(numbers, parts, strict=True))), source)
    cells = [(image.label, image.part) for image in dataset.images]
    alike = look_alikes(read.colours, cells)
    if _plausible(alike) and groups_tell_classes(read.colours, read.histograms, dataset.labels, alike):
        return Grouping(alike, Source.APPEARANCE)
    return UNGROUPED


def by_camera(shots: Sequence[Shot]) -> tuple[int, ...]:
    """Return the group of each image by time and camera, empty if too few images have a time.

    Photos of one camera without a long pause are a group. An image without a time is a group.
    """
    timed = [index for index, shot in enumerate(shots) if shot.taken_s is not None]
    if not timed or len(timed) < TIMED * len(shots):
        return ()
    found, number = [-1] * len(shots), -1
    last: tuple[str, float] | None = None
    for camera, taken_s, index in sorted((shots[i].camera, shots[i].taken_s or 0.0, i) for i in timed):
        if last is None or last[0] != camera or taken_s - last[1] > PAUSE_S:
            number += 1
        found[index], last = number, (camera, taken_s)
    return tuple(number + 1 + index if group < 0 else group for index, group in enumerate(found))


def by_sequence(dataset: Dataset, colours: NDArray[np.uint8]) -> tuple[int, ...]:
    """Return the group of each image by the numbers in file names, empty if neighbours do not look alike.

    Neighbours have the same folder, class and name but for the last number. A gap in the numbers or a jump in
    appearance starts another group. Names that were numbered in random order say nothing.
    """
    flat = colours.reshape(len(colours), -1).astype(np.float32)
    series: dict[tuple[str, int, str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, image in enumerate(dataset.images):
        found = _NUMBER.search(image.path.stem)
        if found:
            name = image.path.stem
            key = str(image.path.parent), image.label, name[: found.start()], name[found.end() :]
            series[key].append((int(found.group()), index))
    if sum(map(len, series.values())) < NUMBERED * len(dataset.images):
        return ()
    ordered = [sorted(rows) for rows in series.values()]
    steps = [_steps(flat, rows) for rows in ordered]
    if not _near(flat, ordered, steps):
        return ()
    numbers, number = {}, 0
    for rows, distances in zip(ordered, steps, strict=True):
        limit = JUMP * float(np.median(distances)) if len(distances) else 0.0
        for place, (written, index) in enumerate(rows):
            if place == 0 or written - rows[place - 1][0] > GAP or distances[place - 1] > limit:
                number += 1
            numbers[index] = number
    return tuple(numbers.get(index, number + 1 + index) for index in range(len(dataset.images)))


def _named(dataset: Dataset) -> Grouping:
    names = [image.group or (index,) for index, image in enumerate(dataset.images)]
    if len(set(names)) == 1 and len(names) > 1:
        raise UsageError(
            f"--data: all {len(names)} images are in one group, '{names[0]}': none could be held out",
            "name at least three groups (visits, subjects, films), or remove the column 'group'",
        )
    return Grouping(_numbered(names), Source.MANIFEST)


def _plausible(numbers: Sequence[int]) -> bool:
    """Return whether these are groups: more than one, and more than single images."""
    count = len(set(numbers))
    return count > 1 and len(numbers) >= LEAST_MEAN * count


def _numbered(names: Sequence[object]) -> tuple[int, ...]:
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(known[name] for name in names)


def _steps(flat: NDArray[np.float32], rows: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
    """Return the distance of each image of a sequence to the next."""
    indices = [index for _, index in rows]
    found: NDArray[np.float32] = np.linalg.norm(np.diff(flat[indices], axis=0), axis=1)
    return found


def _near(
    flat: NDArray[np.float32], ordered: Sequence[Sequence[tuple[int, int]]], steps: Sequence[NDArray[np.float32]]
) -> bool:
    """Return whether neighbours in the sequences resemble each other more than images of one sequence at random."""
    random = np.random.default_rng(0)
    near = far = 0.0
    for rows, distances in zip(ordered, steps, strict=True):
        if len(rows) > 2:
            indices = np.array([index for _, index in rows])
            one, other = random.permutation(indices), random.permutation(indices)
            unequal = one != other
            apart = np.linalg.norm(flat[one[unequal]] - flat[other[unequal]], axis=1)
            near += float(distances.mean()) * len(rows)
            far += float(apart.mean()) * len(rows) if len(apart) else float(distances.mean()) * len(rows)
    return far > 0 and near < ALIKE * far
