"""Number and order the units and groups that a split keeps whole.

Three levels, from the smallest:

- *image*: an index into ``Dataset.images``;
- *unit*: images that no split may separate, because they are copies, near duplicates, or named as
  one group in a manifest. An image without any of these is a unit alone;
- *group*: units whose images were taken on one occasion (see ``_grouping.py``). A split keeps it
  whole where it can.

``_split.py`` and ``_division.py`` call these functions before they draw. The order is drawn from
the seed and the images' hashes: with another order, a resumed run and a cached stage would see
other parts.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from advisor.datasets._dataset import Dataset, members_of
from advisor.datasets._image_groups import Grouping

Unit = list[int]
Group = list[Unit]


def number_units(dataset: Dataset, together: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
    """Return the number of the unit of each image, from 0 in the order of the images.

    Copies are in one unit, and so are images that a chain of the sets in ``together`` connects.
    """
    ordered = sorted(_unite_images(dataset, together), key=min)
    number_of: dict[int, int] = {}
    for number, unit in enumerate(ordered):
        number_of.update(dict.fromkeys(unit, number))
    return tuple(number_of[index] for index in range(len(dataset.images)))


def order_units(
    dataset: Dataset, seed: int, together: Sequence[Sequence[int]]
) -> list[list[Unit]]:
    """Return the units of each class, in an order drawn from the seed and the images' hashes."""
    units_by_class: list[list[Unit]] = [[] for _ in dataset.classes]
    ranked = {}
    for unit in _unite_images(dataset, together):
        ranked[_rank_group(dataset, seed, [unit])] = unit
    for _, unit in sorted(ranked.items()):
        # Copies may lie in several classes, and a unit is drawn once: the first class has it.
        label = min(dataset.images[index].label for index in unit)
        units_by_class[label].append(unit)
    return units_by_class


def order_groups(
    dataset: Dataset, seed: int, together: Sequence[Sequence[int]], grouping: Grouping
) -> list[Group]:
    """Return the groups of all classes, in an order drawn from the seed and the images' hashes.

    Groups that share a unit become one. Empty if the images do not come in groups.
    """
    if not grouping.of:
        return []
    group_of_image = number_units(dataset, [*together, *grouping.members])
    groups: dict[int, Group] = defaultdict(list)
    for unit in _unite_images(dataset, together):
        groups[group_of_image[unit[0]]].append(unit)
    ranked = [(_rank_group(dataset, seed, group), group) for group in groups.values()]
    return [group for _, group in sorted(ranked)]


def _rank_group(dataset: Dataset, seed: int, group: Sequence[Unit]) -> bytes:
    # Hashes of the bytes, and no places in a list: other names of the files give the same split.
    first = min(dataset.images[index].sha256 for index in chain.from_iterable(group))
    return hashlib.sha256(f"{seed}:{first}".encode()).digest()


def _unite_images(dataset: Dataset, together: Sequence[Sequence[int]]) -> list[Unit]:
    """Return the units: copies and the sets of ``together``, merged until they share no image."""
    copies = members_of(image.sha256 for image in dataset.images).values()
    unit_of: dict[int, Unit] = {}
    for unit in copies:
        unit_of.update(dict.fromkeys(unit, unit))
    for linked in together:
        # The images of one unit share one list object,
        # so its identity tells whether two images are linked already.
        joined = {id(unit_of[index]): unit_of[index] for index in linked}
        merged = sorted(chain.from_iterable(joined.values()))
        unit_of.update(dict.fromkeys(merged, merged))
    return list({id(unit): unit for unit in unit_of.values()}.values())
