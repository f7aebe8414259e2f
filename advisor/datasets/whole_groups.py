"""Define groups of images that were taken on one occasion, and draw some of the images in whole groups."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from advisor.core.codec import Written
from advisor.datasets.dataset import Dataset

Unit = Sequence[int]
"""Indices of images that are never separated: copies, near duplicates."""

_DIGITS = re.compile(r"(\d+)")


class Source(StrEnum):
    """The source of the groups, in the words of messages."""

    NONE = ""
    MANIFEST = "column 'group' of the manifest"
    CAMERA = "time and camera of each photo"
    SEQUENCE = "file names in sequence"
    APPEARANCE = "similar light and background"


@dataclass(frozen=True)
class Grouping(Written):
    """Groups of images, each taken on one occasion.

    Attributes:
        of: number of the group of each image of the dataset; empty if the images do not come in groups.
        source: how the groups were found.
    """

    entries = ("source", "groups=count", "largest")

    of: tuple[int, ...] = ()
    source: Source = Source.NONE

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(set(self.of))

    @property
    def largest(self) -> int:
        """Images in the largest group, 0 without groups."""
        return max(Counter(self.of).values(), default=0)

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The indices of each group."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, number in enumerate(self.of):
            found[number].append(index)
        return tuple(tuple(group) for group in found.values())


UNGROUPED = Grouping()


def draw_groups(
    dataset: Dataset, groups: Sequence[Sequence[Unit]], share: float, *, divide: bool, keep: int
) -> set[int]:
    """Return about ``share`` of the images of each class, in whole groups, taken in their order.

    A group is taken if the shares of its classes get closer to ``share`` and ``keep`` groups of each stay. A class
    without a group so far gives its smallest one. No class gives its last group. With ``divide``, a class that can
    spare no group gives the last units of its largest group, in the order of file names, and keeps ``keep`` of them.
    """
    labels = dataset.labels
    counts = [Counter(labels[index] for unit in group for index in unit) for group in groups]
    wanted = {label: share * total for label, total in sum(counts, Counter[int]()).items()}
    spare = Counter(label for count in counts for label in count)
    held: Counter[int] = Counter()
    taken: list[int] = []

    def take(number: int) -> None:
        taken.append(number)
        held.update(counts[number])
        spare.subtract(counts[number].keys())

    for number, count in enumerate(counts):
        if _can_spare(count, spare, keep) and _closer(count, held, wanted):
            take(number)
    for label in sorted(wanted):
        free = [
            i for i, count in enumerate(counts) if label in count and i not in taken and _can_spare(count, spare, 1)
        ]
        if not held[label] and free:
            take(min(free, key=lambda number: sum(counts[number].values())))
    found = {index for number in taken for unit in groups[number] for index in unit}
    if divide:
        for label in sorted(label for label in wanted if not held[label]):
            found.update(
                _last(dataset, [group for i, group in enumerate(groups) if i not in taken], label, share, keep)
            )
    return found


def _can_spare(count: Collection[int], spare: Mapping[int, int], keep: int) -> bool:
    return all(spare[label] > keep for label in count)


def _closer(count: Mapping[int, int], held: Mapping[int, int], wanted: Mapping[int, float]) -> bool:
    """Return whether the shares of the classes get closer to those wanted with a group that has ``count`` images."""
    gain = (abs(wanted[c] - held[c]) - abs(wanted[c] - held[c] - more) for c, more in count.items())
    return sum(gain) > 0


def _last(dataset: Dataset, groups: Sequence[Sequence[Unit]], label: int, share: float, keep: int) -> list[int]:
    """Return the last units of a class's largest group, up to ``share`` of its images: at least one unit."""
    of_class = [[unit for unit in group if any(dataset.labels[i] == label for i in unit)] for group in groups]
    largest: list[Unit] = max(of_class, key=lambda units: len(units))
    units = sorted(largest, key=lambda unit: min(_natural(dataset, index) for index in unit))
    most = max(1.0, share * sum(map(len, units)))
    found: list[int] = []
    for unit in reversed(units[min(keep, len(units) - 1) :]):
        if found and len(found) + len(unit) > most:
            break
        found += unit
    return found


def _natural(dataset: Dataset, index: int) -> list[tuple[int, str]]:
    """Return the order of a path with its numbers as numbers: 2 before 10."""
    parts = _DIGITS.split(str(dataset.images[index].path))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
