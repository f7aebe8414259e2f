"""Split a data set into three parts, stratified; it depends only on the images' bytes and the seed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from advisor.core.errors import UsageError
from advisor.datasets.dataset import Dataset

HOLDOUT_SHARE = 0.2
VALIDATION_SHARE = 0.2
"""Share of what is not in the hold-out."""

TRAIN, VALIDATION, HOLDOUT = "train", "validation", "holdout"
PARTS = (TRAIN, VALIDATION, HOLDOUT)
"""Names of the parts, from the one for training to the one that is used last."""


Group = list[int]
"""Indices of images that stay on one side of a split."""


@dataclass(frozen=True)
class Split:
    """Indices into ``Dataset.images``, each sorted.

    Attributes:
        train: for training while candidates are compared.
        validation: for comparing candidates; the model that ships is trained on these too.
        holdout: for the final accuracy of the finalists; never trained on.
        seed: the seed of the split.
        given: names of the parts in the user's own split.
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    holdout: tuple[int, ...]
    seed: int
    given: tuple[str, ...] = ()

    @property
    def learnt(self) -> tuple[int, ...]:
        """Everything but the hold-out: the training images of the model that ships."""
        return tuple(sorted((*self.train, *self.validation)))

    def to_json(self, dataset: Dataset) -> dict[str, object]:
        """Return the split as a JSON object with the hash, class and relative path of every image."""
        return {
            "seed": self.seed,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
            "given": list(self.given),
            TRAIN: [_row(dataset, index) for index in self.train],
            VALIDATION: [_row(dataset, index) for index in self.validation],
            HOLDOUT: [_row(dataset, index) for index in self.holdout],
        }


def split(
    dataset: Dataset,
    seed: int,
    holdout: float = HOLDOUT_SHARE,
    together: Sequence[Sequence[int]] = (),
    given: Sequence[str | None] = (),
    validation: float = VALIDATION_SHARE,
) -> Split:
    """Return a split: ``holdout`` of each class, ``validation`` of the rest, and the remainder for training.

    Byte-identical images stay on one side, even across classes. A class of two different images has none in the
    validation part. The user's own split is used unchanged, including leaks. A part that it does not name is drawn from
    its training part. If it names only two parts, the second is the hold-out.

    Args:
        dataset: the images.
        seed: any integer; equal seeds and equal bytes give equal splits.
        holdout: share of each class for the hold-out, between 0 and 1.
        together: groups of indices that stay on one side, such as near duplicates.
        given: for each image one of :data:`PARTS`, or None to draw it; empty if the user has no split.
        validation: share of each class's rest for validation, between 0 and 1.

    Raises:
        UsageError: a class has no image in the training part or the hold-out, or nothing is left for validation.
    """
    for name, share in ((HOLDOUT, holdout), (VALIDATION, validation)):
        if not 0 < share < 1:
            raise UsageError(f"{name}: {share} is not between 0 and 1", "write for example 0.2")
    by_class = _groups_by_class(dataset, seed, together)
    own = _own_parts(dataset, given, by_class)
    aside = _drawn(HOLDOUT, own, by_class, holdout, {})
    held = dict.fromkeys(aside, HOLDOUT)
    compared = _drawn(VALIDATION, own, by_class, validation, held)
    part_of = {**own, **held, **dict.fromkeys(compared, VALIDATION)}
    parts = {part: tuple(i for i in range(len(dataset.images)) if part_of.get(i, TRAIN) == part) for part in PARTS}
    named = tuple(part for part in PARTS if part in own.values())
    result = Split(parts[TRAIN], parts[VALIDATION], parts[HOLDOUT], seed, named)
    _require_images(dataset, result)
    return result


def group_numbers(dataset: Dataset, together: Sequence[Sequence[int]] = ()) -> tuple[int, ...]:
    """Return the number of the group of each image, from 0 in the order of the images; copies share a group.

    Args:
        dataset: the images.
        together: groups of indices that belong together; groups that share an image become one.
    """
    ordered = sorted(_united(dataset, together), key=min)
    number_of = {index: number for number, group in enumerate(ordered) for index in group}
    return tuple(number_of[index] for index in range(len(dataset.images)))


def halved(
    dataset: Dataset, indices: Sequence[int], seed: int, together: Sequence[Sequence[int]] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two halves of some of the images, class by class, in whole groups.

    A class with one group has it in the second half. The first half may be empty.
    """
    among = set(indices)
    first = _set_aside(_groups_by_class(dataset, seed, together), 0.5, among.issuperset)
    return tuple(sorted(first)), tuple(sorted(among - first))


def _own_parts(dataset: Dataset, given: Sequence[str | None], by_class: Sequence[Sequence[Group]]) -> dict[int, str]:
    """Return the part of each image that has one; the others of its group get the last of the group's parts."""
    own = {index: part for index, part in enumerate(given) if part is not None}
    for index, part in own.items():
        if part not in PARTS:
            path = dataset.images[index].path
            raise UsageError(f"'{path}': '{part}' is not a part of a split", f"one of: {', '.join(PARTS)}")
    if HOLDOUT not in own.values():
        own = {index: HOLDOUT if part == VALIDATION else part for index, part in own.items()}
    for groups in by_class:
        for group in groups:
            named = [own[index] for index in group if index in own]
            if named:
                own |= {index: max(named, key=PARTS.index) for index in group if index not in own}
    return own


def _drawn(
    part: str, own: Mapping[int, str], by_class: Sequence[Sequence[Group]], share: float, held: Mapping[int, str]
) -> set[int]:
    """Draw a part from images without one, and from the training part if the user's split does not name the part."""
    free = {None} if part in own.values() else {None, TRAIN}
    return _set_aside(by_class, share, lambda group: all((held.get(i) or own.get(i)) in free for i in group))


def _require_images(dataset: Dataset, result: Split) -> None:
    for name, side in (("training part", result.train), ("hold-out", result.holdout)):
        present = {dataset.images[index].label for index in side}
        missing = [repr(dataset.classes[label]) for label in range(len(dataset.classes)) if label not in present]
        if missing:
            raise _missing(", ".join(missing), name, bool(result.given))
    if not result.validation:
        raise UsageError(
            "--data: no image is left for validation: no class has three different images",
            "add different images",
        )


def _missing(classes: str, part: str, given: bool) -> UsageError:
    if given:
        return UsageError(
            f"--data: the split has no image of {classes} in the {part}",
            "put some of them there, or remove the split: one is drawn then",
        )
    return UsageError(
        f"--data: no image of {classes} is left for the {part}, as its images are copies of one another or of "
        "another class's",
        "remove the copies and add different images of the class",
    )


def _row(dataset: Dataset, index: int) -> dict[str, str]:
    image = dataset.images[index]
    return {
        "sha256": image.sha256,
        "class": dataset.classes[image.label],
        "path": dataset.shown(image.path),
    }


def _groups_by_class(dataset: Dataset, seed: int, together: Sequence[Sequence[int]]) -> list[list[Group]]:
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


def _set_aside(by_class: Sequence[Sequence[Group]], share: float, may: Callable[[Group], bool]) -> set[int]:
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
