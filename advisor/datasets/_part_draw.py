"""Draw the images of one part of a split: whole units, or whole groups of units.

``_split.py`` calls this once for the hold-out and once for validation. Units and groups are
explained in ``_units.py``; they are taken in the order in which they come, which that module draws
from the seed. Another rule of taking gives existing data other parts, and so other results under
the same seed: say so in the changelog.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from advisor.datasets._dataset import Dataset
from advisor.datasets._units import Group, Unit

_DIGITS = re.compile(r"(\d+)")


def draw_units(
    units_by_class: Sequence[Sequence[Unit]], share: float, is_free: Callable[[Unit], bool]
) -> set[int]:
    """Return about ``share`` of the images of each class, in whole units that ``is_free`` accepts.

    A class with two units or more gives at least one of them, and never all.
    """
    indices: set[int] = set()
    for units_of_class in units_by_class:
        units = list(filter(is_free, units_of_class))
        most = max(1, round(share * sum(map(len, units))))
        drawn = Unit()
        for unit in units:
            if len(drawn) + len(unit) <= most:
                drawn += unit
        if len(units) > 1:
            smallest = min(units, key=len)
            indices.update(drawn or smallest)
    return indices


def draw_groups(
    dataset: Dataset,
    groups: Sequence[Group],
    share: float,
    *,
    divide: bool,
    keep: int,
) -> set[int]:
    """Return about ``share`` of the images of each class, in whole groups, taken in their order.

    A group is taken if that brings its classes closer to ``share`` and leaves ``keep`` groups of
    each. A class of which no group was taken gives its smallest one. No class gives its last
    group. With ``divide``, a class that can spare no group gives the last units of its largest
    group, in the order of file names, and keeps ``keep`` of them.
    """
    draw = _GroupDraw(dataset.labels, groups, share)
    draw.take_groups_that_help(keep)
    draw.take_smallest_groups()
    indices: set[int] = set()
    remaining = []
    for number, group in enumerate(groups):
        if number in draw.taken:
            indices.update(chain.from_iterable(group))
        else:
            remaining.append(group)
    if divide:
        for label in draw.list_lacking_labels():
            indices.update(_take_last_units(dataset, remaining, label, share, keep))
    return indices


class _GroupDraw:
    """Takes groups, and counts for each class the images taken and the groups that are left."""

    def __init__(self, labels: Sequence[int], groups: Sequence[Group], share: float) -> None:
        self._labels_of_groups = []  # for each group, its images of each class
        for group in groups:
            members = chain.from_iterable(group)
            self._labels_of_groups.append(Counter(labels[index] for index in members))
        totals = sum(self._labels_of_groups, Counter[int]())
        self._wanted_images = {label: share * total for label, total in totals.items()}
        # The groups left that have a class, however many of its images:
        # iterating over a counter gives each class once.
        self._groups_left = Counter(chain.from_iterable(self._labels_of_groups))
        self._images_taken: Counter[int] = Counter()
        self.taken: set[int] = set()  # places of groups

    def take_groups_that_help(self, keep: int) -> None:
        """Take each group that brings its classes nearer to their shares, in their order.

        At least ``keep`` groups of each class stay.
        """
        for number, count in enumerate(self._labels_of_groups):
            gain = 0.0
            for label, more in count.items():
                lacking = self._wanted_images[label] - self._images_taken[label]
                gain += abs(lacking) - abs(lacking - more)
            # A group may have images of several classes,
            # so it is taken where it brings all of them nearer to their shares.
            if gain > 0 and self._can_spare(number, keep):
                self._take_group(number)

    def take_smallest_groups(self) -> None:
        """Take the smallest group of each class of which nothing was taken, if it has another."""
        for label in self.list_lacking_labels():
            # A group that was taken for the class before may have images of this one, too.
            if self._images_taken[label]:
                continue
            candidates = []
            for number, count in enumerate(self._labels_of_groups):
                if number not in self.taken and label in count and self._can_spare(number, 1):
                    candidates.append(number)
            if candidates:
                # The smallest of them: it takes the fewest images of other classes along.
                self._take_group(
                    min(candidates, key=lambda number: self._labels_of_groups[number].total())
                )

    def list_lacking_labels(self) -> list[int]:
        """Return the classes of which nothing was taken, sorted."""
        return sorted(label for label in self._wanted_images if not self._images_taken[label])

    def _can_spare(self, number: int, least: int) -> bool:
        """Return whether ``least`` groups of each of its classes stay without this group."""
        labels = self._labels_of_groups[number]
        return all(self._groups_left[label] > least for label in labels)

    def _take_group(self, number: int) -> None:
        self.taken.add(number)
        self._images_taken.update(self._labels_of_groups[number])
        self._groups_left.subtract(self._labels_of_groups[number].keys())


def _take_last_units(
    dataset: Dataset,
    groups: Sequence[Group],
    label: int,
    share: float,
    keep: int,
) -> list[int]:
    """Return the last units of a class's largest group, up to ``share`` of its images.

    That is at least one unit.
    """
    labels = dataset.labels

    def has_label(unit: Unit) -> bool:
        return any(labels[index] == label for index in unit)

    units_by_group: list[list[Unit]] = [list(filter(has_label, group)) for group in groups]
    largest = max(units_by_group, key=len)
    units = sorted(largest, key=lambda unit: min(_natural_order(dataset, index) for index in unit))
    # The last images of a visit are the furthest in time from those that are learnt from.
    most = max(1.0, share * sum(map(len, units)))
    indices: list[int] = []
    for unit in reversed(units[min(keep, len(units) - 1) :]):
        if indices and len(indices) + len(unit) > most:
            break
        indices += unit
    return indices


def _natural_order(dataset: Dataset, index: int) -> list[tuple[int, str]]:
    """Return the key that sorts paths with their numbers as numbers: 2 before 10."""
    parts = _DIGITS.split(str(dataset.images[index].path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
