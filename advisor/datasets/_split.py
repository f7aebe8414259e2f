"""Split a data set into three parts, stratified;
it depends only on the images' bytes and the seed.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from advisor.core import UsageError
from advisor.datasets._dataset import Dataset, members_of
from advisor.datasets._image_groups import Grouping, Source

Group = list[int]  # Indices of images that are never separated: copies, near duplicates

_DIGITS = re.compile(r"(\d+)")

HOLDOUT_SHARE = 0.2
VALIDATION_SHARE = 0.2  # Share of what is not in the hold-out


TRAIN = "train"
VALIDATION = "validation"
HOLDOUT = "holdout"
# Names of the parts, from the one for training to the one that is used last.
PARTS = (TRAIN, VALIDATION, HOLDOUT)

UNGROUPED: Grouping = Grouping()


def expect_parts(images: int) -> tuple[int, int]:
    """Return how many of so many images validation and hold-out have, roughly."""
    held_out = round(HOLDOUT_SHARE * images)
    return round(VALIDATION_SHARE * (images - held_out)), held_out


def draw_groups(
    dataset: Dataset, groups: Sequence[Sequence[Group]], share: float, *, divide: bool, keep: int
) -> set[int]:
    """Return about ``share`` of the images of each class, in whole groups, taken in their order.

    A group is taken if that brings its classes closer to ``share`` and leaves ``keep`` groups of
    each. A class of which no group was taken gives its smallest one. No class gives its last
    group. With ``divide``, a class that can spare no group gives the last units of its largest
    group, in the order of file names, and keeps ``keep`` of them.
    """
    labels = dataset.labels
    counts = []
    for group in groups:
        members = chain.from_iterable(group)
        counts.append(Counter(labels[index] for index in members))
    totals = sum(counts, Counter[int]())
    wanted = {label: share * total for label, total in totals.items()}
    # The groups that have a class, however many of its images:
    # iterating over a counter gives each class once.
    spare = Counter(chain.from_iterable(counts))
    held: Counter[int] = Counter()
    taken: list[int] = []

    def take_group(number: int) -> None:
        taken.append(number)
        held.update(counts[number])
        spare.subtract(counts[number].keys())

    def can_spare(count: Counter[int], least: int) -> bool:
        return all(spare[label] > least for label in count)

    for number, count in enumerate(counts):
        gain = 0.0
        for label, more in count.items():
            lacking = wanted[label] - held[label]
            gain += abs(lacking) - abs(lacking - more)
        # A group may have images of several classes,
        # so it is taken where it brings all of them nearer to their shares.
        if can_spare(count, keep) and gain > 0:
            take_group(number)
    for label in sorted(wanted):
        if held[label]:
            continue
        others = []
        for number in range(len(groups)):
            if number not in taken and label in counts[number]:
                others.append(number)
        free = [number for number in others if can_spare(counts[number], 1)]
        if free:
            # The smallest of them: it takes the fewest images of other classes along.
            take_group(min(free, key=lambda number: counts[number].total()))
    indices: set[int] = set()
    for number in taken:
        indices.update(chain.from_iterable(groups[number]))
    if divide:
        rest = [group for number, group in enumerate(groups) if number not in taken]
        lacking_labels = sorted(label for label in wanted if not held[label])
        for label in lacking_labels:
            indices.update(_take_last_units(dataset, rest, label, share, keep))
    return indices


def _take_last_units(
    dataset: Dataset, groups: Sequence[Sequence[Group]], label: int, share: float, keep: int
) -> list[int]:
    """Return the last units of a class's largest group, up to ``share`` of its images:
    at least one unit.
    """
    labels = dataset.labels

    def has_label(unit: Group) -> bool:
        return any(labels[index] == label for index in unit)

    units_by_group: list[list[Group]] = [list(filter(has_label, group)) for group in groups]
    largest = max(units_by_group, key=len)
    units = sorted(largest, key=lambda unit: min(_natural(dataset, index) for index in unit))
    # The last of a visit are the furthest in time from those that are learnt from.
    most = max(1.0, share * sum(map(len, units)))
    indices: list[int] = []
    for unit in reversed(units[min(keep, len(units) - 1) :]):
        if indices and len(indices) + len(unit) > most:
            break
        indices += unit
    return indices


def _natural(dataset: Dataset, index: int) -> list[tuple[int, str]]:
    """Return the order of a path with its numbers as numbers: 2 before 10."""
    parts = _DIGITS.split(str(dataset.images[index].path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


@dataclass(frozen=True)
class Split:
    """Indices into ``Dataset.images``, each sorted."""

    train: tuple[int, ...]  # for training while candidates are compared
    # For comparing candidates; the model that ships is trained on these too.
    validation: tuple[int, ...]
    holdout: tuple[int, ...]  # for the final accuracy of the finalists; never trained on
    seed: int  # the seed of the split
    given: tuple[str, ...] = ()  # names of the parts in the user's own split

    @property
    def learnt(self) -> tuple[int, ...]:
        """Everything but the hold-out: the training images of the model that ships."""
        return tuple(sorted((*self.train, *self.validation)))

    def to_json(self, dataset: Dataset, grouping: Grouping = UNGROUPED) -> dict[str, object]:
        """Return the split as a JSON object with the hash, class,
        relative path and group of every image.
        """
        rows_by_part = {}
        for name in PARTS:
            indices: tuple[int, ...] = getattr(self, name)
            rows_by_part[name] = [_row(dataset, index, grouping) for index in indices]
        return {
            "seed": self.seed,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
            "given": list(self.given),
            "grouping": grouping.to_json(),
            **rows_by_part,
        }


def draw_split(
    dataset: Dataset,
    seed: int,
    holdout: float = HOLDOUT_SHARE,
    together: Sequence[Sequence[int]] = (),
    given: Sequence[str | None] = (),
    validation: float = VALIDATION_SHARE,
    grouping: Grouping = UNGROUPED,
) -> Split:
    """Return a split: ``holdout`` of each class, ``validation`` of the rest,
    and the remainder for training.

    Equal seeds and equal bytes give equal splits. Byte-identical images and groups of ``together``
    stay on one side, even across classes. A class of two different images has none in the
    validation part. Where the images come in groups, whole groups are drawn, see
    :func:`draw_groups`. Inferred groups are divided if a class has no other. The user's own split,
    ``given``, is used unchanged, including leaks. A part that it does not name is drawn from its
    training part. If it names only two parts, the second is the hold-out.

    Raises UsageError if a class has no image in the training part or the hold-out,
    or nothing is left for validation.
    """
    for name, share in ((HOLDOUT, holdout), (VALIDATION, validation)):
        if not 0 < share < 1:
            raise UsageError(f"{name}: {share} is not between 0 and 1", "write for example 0.2")
    by_class = _groups_by_class(dataset, seed, together)
    given_parts = _own_parts(dataset, given, by_class)
    drawn = _Draw(
        dataset,
        by_class,
        _visits(dataset, seed, together, grouping),
        grouping.source is not Source.MANIFEST,
    )
    # The hold-out first: its figure is the one that users rely on,
    # so it gets the groups that fit its share best.
    aside = drawn.draw_part(HOLDOUT, given_parts, holdout, {})
    held = dict.fromkeys(aside, HOLDOUT)
    compared = drawn.draw_part(VALIDATION, given_parts, validation, held)
    part_of = {**given_parts, **held, **dict.fromkeys(compared, VALIDATION)}
    places: dict[str, list[int]] = {part: [] for part in PARTS}
    for index in range(len(dataset.images)):
        places[part_of.get(index, TRAIN)].append(index)
    parts = {part: tuple(indices) for part, indices in places.items()}
    named = tuple(part for part in PARTS if part in given_parts.values())
    result = Split(parts[TRAIN], parts[VALIDATION], parts[HOLDOUT], seed, named)
    _require_images(dataset, result, grouping)
    return result


def copies_sentence(copied: Mapping[str, int], left: Mapping[str, int]) -> str:
    """Return how many images judge nothing because copies of them are learnt from;
    empty if there are none.

    ``copied`` are their numbers by part, and ``left`` those of the others.
    """
    names = {VALIDATION: "of validation", HOLDOUT: "of the hold-out"}
    shares = []
    for part, name in names.items():
        count = copied.get(part, 0)
        if count:
            shares.append(f"{count:,} of {count + left[part]:,} images {name}")
    if not shares:
        return ""
    if sum(copied.get(part, 0) for part in names) == 1:
        return (
            f"{shares[0]} copies one that is learnt from. It judges nothing: the figures are"
            " without it."
        )
    return (
        f"{' and '.join(shares)} copy images that are learnt from. They judge nothing: the figures"
        " are without them."
    )


def group_numbers(dataset: Dataset, together: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
    """Return the number of the group of each image, from 0 in the order of the images;
    copies share a group.

    Groups of ``together`` that share an image become one.
    """
    ordered = sorted(_unite_groups(dataset, together), key=min)
    number_of: dict[int, int] = {}
    for number, group in enumerate(ordered):
        number_of.update(dict.fromkeys(group, number))
    return tuple(number_of[index] for index in range(len(dataset.images)))


def split_halves(
    dataset: Dataset, indices: Sequence[int], seed: int, together: Sequence[Sequence[int]] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two halves of some of the images, class by class, in whole groups;
    the first may be empty.

    A class with one group has it in the second half.
    """
    among = set(indices)
    first = _set_aside(_groups_by_class(dataset, seed, together), 0.5, among.issuperset)
    return tuple(sorted(first)), tuple(sorted(among - first))


def _own_parts(
    dataset: Dataset, given: Sequence[str | None], by_class: Sequence[Sequence[Group]]
) -> dict[int, str]:
    """Return the part of each image that has one;
    the others of its group get the last of the group's parts.
    """
    part_of = {index: part for index, part in enumerate(given) if part is not None}
    for index, part in part_of.items():
        if part not in PARTS:
            path = dataset.images[index].path
            raise UsageError(
                f"'{path}': '{part}' is not a part of a split", f"one of: {', '.join(PARTS)}"
            )
    # The one part beside training was not learnt from, so it judges the model that ships.
    if HOLDOUT not in part_of.values():
        part_of = {
            index: HOLDOUT if part == VALIDATION else part for index, part in part_of.items()
        }
    for groups in by_class:
        for group in groups:
            # A copy follows the copy that has a part:
            # drawn apart, it would be learnt from and judge.
            named = [part_of[index] for index in group if index in part_of]
            if named:
                part_of |= {
                    index: max(named, key=PARTS.index) for index in group if index not in part_of
                }
    return part_of


@dataclass(frozen=True)
class _Draw:
    """Draws parts."""

    dataset: Dataset  # the images
    by_class: Sequence[Sequence[Group]]  # units of each class that are never separated
    # Groups of such units, across classes; empty if the images do not come in groups.
    visits: Sequence[Sequence[Group]]
    divide: bool  # a group is divided if its class has no other

    def draw_part(
        self, name: str, given_parts: Mapping[int, str], share: float, held: Mapping[int, str]
    ) -> set[int]:
        """Draw a part from images without one,
        and from the training part if the user's split does not name it.
        """
        free = {None} if name in given_parts.values() else {None, TRAIN}

        def is_free(unit: Group) -> bool:
            # One image with another part is enough:
            # the units that it belongs to are never separated.
            return all((held.get(index) or given_parts.get(index)) in free for index in unit)

        if not self.visits:
            return _set_aside(self.by_class, share, is_free)
        groups = []
        for visit in self.visits:
            units = list(filter(is_free, visit))
            if units:
                groups.append(units)
        # The first draw leaves two groups of each class:
        # one for the second draw, and one to learn from.
        return draw_groups(self.dataset, groups, share, divide=self.divide, keep=1 if held else 2)


def _require_images(dataset: Dataset, result: Split, grouping: Grouping) -> None:
    for name, side in (("training part", result.train), ("hold-out", result.holdout)):
        present = {dataset.images[index].label for index in side}
        missing = []
        for label in range(len(dataset.classes)):
            if label not in present:
                missing.append(repr(dataset.classes[label]))
        if missing:
            raise _missing(", ".join(missing), name, bool(result.given), grouping.source)
    if not result.validation:
        raise UsageError(
            "--data: no image is left for validation: no class has three different images",
            "add different images",
        )


def _missing(classes: str, part: str, given: bool, source: Source) -> UsageError:
    if given:
        return UsageError(
            f"--data: the split has no image of {classes} in the {part}",
            "put some of them there, or remove the split: one is drawn then",
        )
    if source is Source.MANIFEST:
        return UsageError(
            f"--data: no image of {classes} is left for the {part}: all of the class are in one"
            " group",
            "name more groups, or leave the column group empty for this class: its images are then"
            " drawn one by one",
        )
    return UsageError(
        f"--data: no image of {classes} is left for the {part}, as its images are copies of one"
        " another or of another class's",
        "remove the copies and add different images of the class",
    )


def _row(dataset: Dataset, index: int, grouping: Grouping) -> dict[str, object]:
    image = dataset.images[index]
    group = {"group": grouping.of[index]} if grouping.of else {}
    path = dataset.show_path(image.path)
    return {"sha256": image.sha256, "class": dataset.classes[image.label], "path": path, **group}


def _visits(
    dataset: Dataset, seed: int, together: Sequence[Sequence[int]], grouping: Grouping
) -> list[list[Group]]:
    """Return groups of units in an order drawn from the seed and the images' hashes;
    empty without groups.
    """
    if not grouping.of:
        return []
    visit_of = group_numbers(dataset, [*together, *grouping.members])
    visits: dict[int, list[Group]] = defaultdict(list)
    for unit in _unite_groups(dataset, together):
        visits[visit_of[unit[0]]].append(unit)
    ranked = [(_rank(dataset, seed, units), units) for units in visits.values()]
    return [units for _, units in sorted(ranked)]


def _rank(dataset: Dataset, seed: int, units: Sequence[Group]) -> bytes:
    # Hashes of the bytes, and no places in a list: other names of the files give the same split.
    first = min(dataset.images[index].sha256 for index in chain.from_iterable(units))
    return hashlib.sha256(f"{seed}:{first}".encode()).digest()


def _groups_by_class(
    dataset: Dataset, seed: int, together: Sequence[Sequence[int]]
) -> list[list[Group]]:
    """Return the groups of each class in an order drawn from the seed and the images' hashes."""
    by_class: list[list[Group]] = [[] for _ in dataset.classes]
    drawn = {_rank(dataset, seed, [group]): group for group in _unite_groups(dataset, together)}
    for _, group in sorted(drawn.items()):
        # Copies may lie in several classes, and a group is drawn once: the first class has it.
        label = min(dataset.images[index].label for index in group)
        by_class[label].append(group)
    return by_class


def _set_aside(
    by_class: Sequence[Sequence[Group]], share: float, is_free: Callable[[Group], bool]
) -> set[int]:
    """Return about ``share`` of the images of each class,
    in whole groups that ``is_free`` accepts.
    """
    indices: set[int] = set()
    for groups_of_class in by_class:
        groups = list(filter(is_free, groups_of_class))
        most = max(1, round(share * sum(map(len, groups))))
        taken = Group()
        for group in groups:
            if len(taken) + len(group) <= most:
                taken += group
        if len(groups) > 1:  # at least one group, never all of them
            smallest = min(groups, key=len)
            indices.update(taken or smallest)
    return indices


def _unite_groups(dataset: Dataset, together: Sequence[Sequence[int]]) -> list[Group]:
    """Merge copies and the given groups into groups that share no image."""
    copies = members_of(image.sha256 for image in dataset.images).values()
    group_of: dict[int, Group] = {}
    for group in copies:
        group_of.update(dict.fromkeys(group, group))
    for linked in together:
        # Lists of one group are one object,
        # so its identity tells whether two images are linked already.
        joined = {id(group_of[index]): group_of[index] for index in linked}
        merged = sorted(chain.from_iterable(joined.values()))
        group_of.update(dict.fromkeys(merged, merged))
    return list({id(group): group for group in group_of.values()}.values())
