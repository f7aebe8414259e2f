"""Give each image with boxes a stratum, so that each part of a split gets its share of classes and crowded images.

The stratum is the rarest class in the image and whether it has few, some or many boxes. Small strata are joined.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from advisor.datasets.boxes.reading import BoxSurvey
from advisor.datasets.dataset import Dataset

LEAST = 10
"""Groups of images in a stratum: fewer do not give two to the hold-out."""

NO_BOX = "no boxes"
OTHERS = "others"

_CROWD = ("few boxes", "some boxes", "many boxes")

Stratum = tuple[str, ...]


def stratified(read: BoxSurvey) -> Callable[[Sequence[int]], Dataset]:
    """Return a function that takes the group of each image, and returns the images with their strata as classes."""
    dataset = read.images.dataset

    def with_strata(groups: Sequence[int]) -> Dataset:
        found = strata(read.contents, groups, [image.part for image in dataset.images])
        names = tuple(sorted(set(found)))
        place = {name: number for number, name in enumerate(names)}
        images = (replace(image, label=place[name]) for image, name in zip(dataset.images, found, strict=True))
        return replace(dataset, classes=names, images=tuple(images))

    return with_strata


def strata(contents: Sequence[Counter[str]], groups: Sequence[int], parts: Sequence[str]) -> tuple[str, ...]:
    """Return the stratum of each image.

    A stratum stays if it has :data:`LEAST` groups, and an image in each part of the user's own split.

    Args:
        contents: for each image the number of boxes of each class.
        groups: for each image the number of its group; groups are never divided.
        parts: for each image its part in the user's own split, or empty.
    """
    fine = _fine(contents)
    classes = {stratum[0] for stratum in _small(fine, groups, parts)}
    coarse = [stratum[:1] if stratum[0] in classes else stratum for stratum in fine]
    small = _small(coarse, groups, parts)
    joined = [(OTHERS,) if stratum in small else stratum for stratum in coarse]
    if (OTHERS,) in _small(joined, groups, parts):
        large = Counter(stratum for stratum in joined if stratum != (OTHERS,)).most_common(1)
        joined = [large[0][0] if large and stratum == (OTHERS,) else stratum for stratum in joined]
    return tuple(", ".join(stratum) for stratum in joined)


def _fine(contents: Sequence[Counter[str]]) -> list[Stratum]:
    images = Counter(label for content in contents for label in content)
    counts = [content.total() for content in contents if content]
    limits = np.quantile(counts, (1 / 3, 2 / 3)) if counts else np.zeros(2)

    def stratum(content: Counter[str]) -> Stratum:
        if not content:
            return (NO_BOX,)
        rarest = min(content, key=lambda label: (images[label], label))
        return rarest, _CROWD[int(np.searchsorted(limits, content.total()))]

    return [stratum(content) for content in contents]


def _small(found: Sequence[Stratum], groups: Sequence[int], parts: Sequence[str]) -> set[Stratum]:
    """Return the strata with too few groups, or without an image in a part of the user's split."""
    groups_of, parts_of = defaultdict(set), defaultdict(set)
    for stratum, group, part in zip(found, groups, parts, strict=True):
        groups_of[stratum].add(group)
        parts_of[stratum].add(part)
    everywhere = set(parts) - {""}
    return {one for one in groups_of if len(groups_of[one]) < LEAST or not parts_of[one] >= everywhere}
