"""Group images that a split must keep together, and draw whole groups."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence

from advisor.datasets.dataset import Dataset

Group = list[int]
"""Indices of images that stay on one side of a split."""


def groups_by_class(dataset: Dataset, seed: int, together: Sequence[Sequence[int]]) -> list[list[Group]]:
    """Return the groups of each class in an order drawn from the seed and the images' hashes.

    Args:
        dataset: the images; byte-identical ones form a group, even across classes.
        seed: any integer.
        together: further groups of indices, such as near duplicates.
    """
    by_class: list[list[Group]] = [[] for _ in dataset.classes]
    drawn = {}
    for group in _united(dataset, together):
        first = min(dataset.images[index].sha256 for index in group)
        drawn[hashlib.sha256(f"{seed}:{first}".encode()).digest()] = group
    for _, group in sorted(drawn.items()):
        by_class[min(dataset.images[index].label for index in group)].append(group)
    return by_class


def set_aside(by_class: Sequence[Sequence[Group]], share: float, may: Callable[[Group], bool]) -> set[int]:
    """Return about ``share`` of the images of each class, in whole groups that ``may`` accepts."""
    return {index for groups in by_class for index in _take([group for group in groups if may(group)], share)}


def _united(dataset: Dataset, together: Sequence[Sequence[int]]) -> list[Group]:
    """Merge copies and the given groups into groups that share no image."""
    copies: dict[str, Group] = defaultdict(list)
    for index, image in enumerate(dataset.images):
        copies[image.sha256].append(index)
    group_of = {index: group for group in copies.values() for index in group}
    for linked in together:
        joined = {id(group_of[index]): group_of[index] for index in linked}
        merged = sorted(index for group in joined.values() for index in group)
        group_of.update(dict.fromkeys(merged, merged))
    return list({id(group): group for group in group_of.values()}.values())


def _take(groups: Sequence[Group], share: float) -> Group:
    """Return whole groups up to the share of images: at least one group, never all of them."""
    if len(groups) < 2:
        return []
    most = max(1, round(share * sum(map(len, groups))))
    taken: Group = []
    for group in groups:
        if len(taken) + len(group) <= most:
            taken += group
    return taken or min(groups, key=len)
