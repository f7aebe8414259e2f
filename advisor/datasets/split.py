"""A stratified split that depends on the pictures' bytes and the seed alone, never on the order of files."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.core.errors import UsageError
from advisor.datasets.folder import Dataset

HOLDOUT_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """Indices into ``Dataset.pictures``: what may be learnt from, and what is kept for the verdict.

    Attributes:
        train: sorted indices of the training part (any validation part is taken from it).
        holdout: sorted indices of the hold-out.
        seed: the seed that made it.
    """

    train: tuple[int, ...]
    holdout: tuple[int, ...]
    seed: int

    def to_json(self, dataset: Dataset) -> dict[str, Any]:
        """Return the split as a JSON object that names every picture by its hash, class and relative path."""
        return {
            "seed": self.seed,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
            "train": [_row(dataset, index) for index in self.train],
            "holdout": [_row(dataset, index) for index in self.holdout],
        }


def split(dataset: Dataset, seed: int, holdout: float = HOLDOUT_SHARE, together: Sequence[Sequence[int]] = ()) -> Split:
    """Put about ``holdout`` of each class aside; byte-identical pictures stay on one side, even across classes.

    Args:
        dataset: the pictures.
        seed: any integer; equal seeds and equal bytes give equal splits.
        holdout: share of each class to put aside, between 0 and 1.
        together: groups of indices that stay on one side, such as near duplicates.

    Raises:
        UsageError: a class that would miss from one side, as its pictures are all copies of one another.
    """
    if not 0 < holdout < 1:
        raise UsageError(f"holdout: {holdout} is not between 0 and 1", "write for example 0.2")
    aside = {index for groups in _groups_by_class(dataset, seed, together) for index in _take(groups, holdout)}
    everything = range(len(dataset.pictures))
    result = Split(
        train=tuple(index for index in everything if index not in aside), holdout=tuple(sorted(aside)), seed=seed
    )
    _require_both_sides(dataset, result)
    return result


def _groups_by_class(dataset: Dataset, seed: int, together: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    """Return per class its groups of pictures that stay together, in an order drawn from seed and pictures' hashes."""
    by_class: list[list[list[int]]] = [[] for _ in dataset.classes]
    drawn = {}
    for group in _united(dataset, together):
        first = min(dataset.pictures[index].sha256 for index in group)
        drawn[hashlib.sha256(f"{seed}:{first}".encode()).digest()] = group
    for _, group in sorted(drawn.items()):
        by_class[min(dataset.pictures[index].label for index in group)].append(group)
    return by_class


def _united(dataset: Dataset, together: Sequence[Sequence[int]]) -> list[list[int]]:
    """Join copies and the groups given into groups that share no picture."""
    copies: dict[str, list[int]] = defaultdict(list)
    for index, picture in enumerate(dataset.pictures):
        copies[picture.sha256].append(index)
    group_of = {index: group for group in copies.values() for index in group}
    for linked in together:
        joined = {id(group_of[index]): group_of[index] for index in linked}
        merged = sorted(index for group in joined.values() for index in group)
        group_of.update(dict.fromkeys(merged, merged))
    return list({id(group): group for group in group_of.values()}.values())


def _take(groups: list[list[int]], holdout: float) -> list[int]:
    """Take whole groups up to the share of pictures (at least one group, never all of them)."""
    if len(groups) < 2:
        return []
    room = max(1, round(holdout * sum(map(len, groups))))
    taken: list[int] = []
    for group in groups:
        if len(taken) + len(group) <= room:
            taken += group
    return taken or min(groups, key=len)


def _require_both_sides(dataset: Dataset, result: Split) -> None:
    for name, side in (("training part", result.train), ("hold-out", result.holdout)):
        present = {dataset.pictures[index].label for index in side}
        missing = [repr(dataset.classes[label]) for label in range(len(dataset.classes)) if label not in present]
        if missing:
            raise UsageError(
                f"--data: no picture of {', '.join(missing)} is left for the {name}, as its pictures are copies of one "
                "another or of another class's",
                "remove the copies and add different pictures of the class",
            )


def _row(dataset: Dataset, index: int) -> dict[str, str]:
    picture = dataset.pictures[index]
    return {
        "sha256": picture.sha256,
        "class": dataset.classes[picture.label],
        "path": picture.path.relative_to(dataset.root).as_posix(),
    }
