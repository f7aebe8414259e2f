"""Give images without one class a stratum, of which each part of a split gets its share.

Images with boxes, masks or sets of labels have several classes. Their stratum is the rarest of
these, with few, some or many boxes. :meth:`.Division.of_survey` calls the function of
:func:`make_stratifier` when it knows the groups. Other strata give existing data other splits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from advisor.datasets._dataset import Dataset

LEAST = 10  # Groups of images in a stratum: fewer do not give two to the hold-out
NO_BOX = "no boxes"
OTHERS = "others"
_CROWD = ("few boxes", "some boxes", "many boxes")
Stratum = tuple[str, ...]
# From the group of each image to the images with strata as classes.
Stratify = Callable[[Sequence[int]], Dataset]


def make_stratifier(dataset: Dataset, contents: Sequence[Counter[str]]) -> Stratify:
    """Return a function from the group of each image to the images with strata as classes.

    So each part of a split gets its share of classes and crowded images.
    ``contents`` are the classes in each image.
    """

    def with_strata(groups: Sequence[int]) -> Dataset:
        parts = [image.part for image in dataset.images]
        strata = list_strata(contents, groups, parts)
        names = tuple(sorted(set(strata)))
        label_of = {name: label for label, name in enumerate(names)}
        images = []
        for image, stratum in zip(dataset.images, strata, strict=True):
            images.append(replace(image, label=label_of[stratum]))
        return replace(dataset, classes=names, images=tuple(images))

    return with_strata


def list_strata(
    contents: Sequence[Counter[str]], groups: Sequence[int], parts: Sequence[str]
) -> tuple[str, ...]:
    """Return the stratum of each image: its rarest class, and few, some or many boxes.

    A stratum stays if it has :data:`LEAST` groups, which are never divided, and an image in each
    part of the user's own split. Others are joined.
    """
    fine = _list_fine_strata(contents)
    # Too small with the number of boxes:
    # then the class alone decides, and at last all rare classes together.
    small_classes = {stratum[0] for stratum in _find_small(fine, groups, parts)}
    coarse = [stratum[:1] if stratum[0] in small_classes else stratum for stratum in fine]
    small = _find_small(coarse, groups, parts)
    others = (OTHERS,)
    joined = [others if stratum in small else stratum for stratum in coarse]
    if others in _find_small(joined, groups, parts):
        # Even together they are too few to be drawn from, so the largest stratum takes them.
        large = Counter(stratum for stratum in joined if stratum != others).most_common(1)
        if large:
            largest, _ = large[0]
            joined = [largest if stratum == others else stratum for stratum in joined]
    return tuple(map(", ".join, joined))


def _list_fine_strata(contents: Sequence[Counter[str]]) -> list[Stratum]:
    # Iterating over the counter of an image gives each of its classes once.
    images = Counter(chain.from_iterable(contents))
    counts = [content.total() for content in contents if content]
    limits = np.quantile(counts, (1 / 3, 2 / 3)) if counts else np.zeros(2)

    def choose_stratum(content: Counter[str]) -> Stratum:
        if not content:
            return (NO_BOX,)
        # A common class gets its share of each part however the images are drawn,
        # a rare one does not.
        rarest = min(content, key=lambda label: (images[label], label))
        crowd = int(np.searchsorted(limits, content.total()))
        return rarest, _CROWD[crowd]

    return list(map(choose_stratum, contents))


def _find_small(
    image_strata: Sequence[Stratum], groups: Sequence[int], parts: Sequence[str]
) -> set[Stratum]:
    """Return the strata with too few groups, or without an image in a part of the user's split."""
    groups_of = defaultdict(set)
    parts_of = defaultdict(set)
    for stratum, group, part in zip(image_strata, groups, parts, strict=True):
        groups_of[stratum].add(group)
        parts_of[stratum].add(part)
    named_parts = set(parts) - {""}
    small = set()
    for stratum, its_groups in groups_of.items():
        lacks_part = not parts_of[stratum] >= named_parts
        if len(its_groups) < LEAST or lacks_part:
            small.add(stratum)
    return small
