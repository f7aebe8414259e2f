"""Divide images into folds for cross-validation, whole groups together.

The choice of a head (`_head`) and the heads of quantized backbones (`quantized.py`) use the same
folds. Equal labels, groups and seeds must give equal folds: the heads that they choose are cached.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def divide_groups(labels: NDArray[np.int64], groups: Sequence[int]) -> Sequence[int]:
    """Return the groups, with each image of a class of only one group in a group of its own.

    Otherwise one fold holds the whole class, and no head that has not seen the fold knows it.
    """
    if not len(groups):
        return groups
    group_of = np.array(groups, dtype=np.int64)
    free = int(max(groups)) + 1
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(set(group_of[members].tolist())) == 1:
            group_of[members] = free + members
    listed: list[int] = group_of.tolist()
    return listed


def assign_folds(
    labels: NDArray[np.int64], count: int, seed: int, groups: Sequence[int] = ()
) -> NDArray[np.int64]:
    """Return the fold of each image, from 0 to ``count`` - 1.

    Groups stay whole, and each class is spread over the folds as evenly as they allow. Unlike in
    scikit-learn, a class may have fewer images than there are folds. Images of one number in
    ``groups`` belong together; each is a group if it is empty. The seed draws the order of groups
    of equal size.
    """
    generator = np.random.default_rng(seed)
    if len(set(groups)) < len(groups):
        return _assign_groups(labels, np.asarray(groups), count, generator)
    fold = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        # Each class begins where the one before ended: else small classes fill the first folds.
        fold[members] = (np.arange(len(members)) + start) % count
        start += len(members)
    return fold


def _assign_groups(
    labels: NDArray[np.int64],
    groups: NDArray[np.int64],
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Give each group, the largest first, to the fold with the fewest images of its classes.

    Of equal folds, it is the one with the fewest images.
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    members = np.split(labels[order], np.cumsum(sizes)[:-1])
    filled = np.zeros((count, int(labels.max()) + 1))
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    # The sort is stable, so the seed decides the order of groups of one size.
    for number in sorted(generator.permutation(len(sizes)), key=lambda number: -sizes[number]):
        images_of_classes = np.bincount(members[number], minlength=filled.shape[1])
        # lexsort sorts by its last key first.
        fold = np.lexsort((filled.sum(axis=1), filled @ images_of_classes))[0]
        fold_of_group[number] = fold
        filled[fold] += images_of_classes
    return fold_of_group[group]
