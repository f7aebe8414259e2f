"""Draw the folds of cross-validation: whole groups, each class spread over the folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def divided(labels: NDArray[np.int64], groups: Sequence[int]) -> Sequence[int]:
    """Return the groups, with each image of a class of only one group in a group of its own.

    Otherwise one fold holds the whole class, and no head that has not seen the fold knows it.
    """
    if not len(groups):
        return groups
    found, free = np.array(groups, dtype=np.int64), int(max(groups)) + 1
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(set(found[members].tolist())) == 1:
            found[members] = free + members
    own: list[int] = found.tolist()
    return own


def folds(labels: NDArray[np.int64], count: int, seed: int, groups: Sequence[int] = ()) -> NDArray[np.int64]:
    """Return the fold of each image: whole groups, with each class spread as evenly over ``count`` folds as they allow.

    Unlike in scikit-learn, a class may have fewer images than there are folds.

    Args:
        labels: N class indices.
        count: number of folds.
        seed: of the order of groups of equal size.
        groups: N numbers; images of one number belong together. Empty if each image is a group.
    """
    generator = np.random.default_rng(seed)
    if len(set(groups)) < len(groups):
        return _group_folds(labels, np.asarray(groups), count, generator)
    fold = np.empty(len(labels), dtype=np.int64)
    start = 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        fold[members] = (np.arange(len(members)) + start) % count
        start += len(members)
    return fold


def _group_folds(
    labels: NDArray[np.int64], groups: NDArray[np.int64], count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Give each group, the largest first, to the fold with the fewest images of its classes, then with the fewest."""
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    members = np.split(labels[order], np.cumsum(sizes)[:-1])
    filled = np.zeros((count, int(labels.max()) + 1))
    chosen = np.empty(len(sizes), dtype=np.int64)
    for each in sorted(generator.permutation(len(sizes)), key=lambda each: -sizes[each]):
        own = np.bincount(members[each], minlength=filled.shape[1])
        chosen[each] = np.lexsort((filled.sum(axis=1), filled @ own))[0]
        filled[chosen[each]] += own
    return chosen[group]
