"""The minimum that a set of images with boxes must have for a search, as a whole and in each part of its split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.core.errors import UsageError
from advisor.core.units import listed
from advisor.datasets.boxes.reading import BoxSurvey
from advisor.datasets.checks.check import (
    MAX_UNREADABLE_SHARE,
    MIN_IMAGES_PER_CLASS,
    require_one_spelling,
    require_readable,
)
from advisor.datasets.checks.findings import counted
from advisor.datasets.split import HOLDOUT, TRAIN, VALIDATION, Split

Counts = Mapping[str, Mapping[str, int]]
"""For each part of a split the boxes of each class."""


def require_usable_boxes(read: BoxSurvey) -> None:
    """Check that a detector can be trained and scored on a set.

    Raises:
        UsageError: labels that differ by case or blanks, a class in fewer than ``MIN_IMAGES_PER_CLASS`` images, or more
            than ``MAX_UNREADABLE_SHARE`` of the images or boxes left out.
    """
    require_one_spelling(read.spellings)
    require_readable(read.images.dataset)
    _require_boxes(read)
    images = read.images_per_class
    rare = [f"'{name}' ({images[name]})" for name in read.classes if images[name] < MIN_IMAGES_PER_CLASS]
    if rare:
        raise UsageError(
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} images with a box of {listed(rare)}",
            f"annotate more (at least {MIN_IMAGES_PER_CLASS} images a class, better 50), or remove the class",
        )


def boxes_in_parts(read: BoxSurvey, split: Split) -> Counts:
    """Return the number of boxes of each class in each part.

    Raises:
        UsageError: a part has no box, or the training part lacks a class.
    """
    parts = {TRAIN: split.train, VALIDATION: split.validation, HOLDOUT: split.holdout}
    counts = {part: _counts(read, indices) for part, indices in parts.items()}
    for part, of_class in counts.items():
        if not any(of_class.values()):
            raise UsageError(
                f"--data: the {part} part has {counted(len(parts[part]), 'image')}, but no box",
                "put annotated images into it",
            )
    missing = [f"'{name}'" for name, count in counts[TRAIN].items() if not count]
    if missing:
        raise UsageError(
            f"--data: the training part has no box of {listed(missing)}",
            "put some of their images there; if there is only one group of them, name more groups",
        )
    return counts


def lacking(counts: Counts) -> tuple[str, ...]:
    """Return a sentence about each part that lacks classes."""
    missing = {part: [name for name, count in of_class.items() if not count] for part, of_class in counts.items()}
    return tuple(
        f"The {part} part has no box of {listed(names)}: no average precision there."
        for part, names in missing.items()
        if names
    )


def _require_boxes(read: BoxSurvey) -> None:
    bad, total = len(read.faults), len(read.faults) + read.count
    if bad > MAX_UNREADABLE_SHARE * total:
        examples = "; ".join(f"{fault.place}: {fault.reason}" for fault in read.faults[:3])
        raise UsageError(
            f"--data: {bad:,} of {total:,} boxes cannot be used ({100 * bad / total:.0f} %, "
            f"the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %): {examples}",
            "correct them; is the format what its rows say, in pixels or in shares of the image?",
        )


def _counts(read: BoxSurvey, indices: Sequence[int]) -> dict[str, int]:
    found = dict.fromkeys(read.classes, 0)
    for index in indices:
        for box in read.boxes[index]:
            found[box.label] += 1
    return found
