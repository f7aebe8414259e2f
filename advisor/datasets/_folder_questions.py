"""Ask, or refuse, where the names of folders do not say which of them are the classes.

``_folders.py`` and ``_folder_levels.py`` raise what these functions return. Each answer is a value
of ``--data``, which ``_layouts.py`` must be able to read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from advisor.core import AmbiguousInput, Reading, UsageError
from advisor.datasets._names import plain
from advisor.datasets._parts import part_of
from advisor.datasets._split_part import SplitPart

# Last names of a path: each folder in it is a class, or each that directly holds images.
UPPER = "*"
DEEPEST = "**"

SHOWN_NAMES = 3  # Of several folders or classes in a message

Names = tuple[str, ...]
"""An image below a folder: the names of the folders that it is in, then its own."""


def ask_stray_folder(root: Path, names: Collection[str], reason: str) -> UsageError:
    """Return the question whether folders are classes."""
    first = min(names)
    verb = "is" if len(names) == 1 else "are"
    readings = (
        Reading(
            {"data": str(root / name_without(names))},
            f"{quote_names(sorted(names))} {verb} not used",
        ),
        Reading({"data": str(root / UPPER)}, "each folder is a class"),
    )
    message = f"--data: is '{first}' a class of '{root}'? {reason[0].upper()}{reason[1:]}"
    return AmbiguousInput(message, readings, "move its images to the folder of their class")


def ask_repeated_folders(root: Path, names: Collection[str]) -> UsageError:
    """Return the question whether a folder is the same set again, or a class."""
    first = min(names)
    readings = (
        Reading(
            {"data": str(root / name_without(names))},
            f"{quote_names(sorted(names))} and its images are not used",
        ),
        Reading(
            {"data": str(root / first)}, f"the images in '{first}' are used, and nothing else"
        ),
        Reading({"data": str(root / UPPER)}, "each folder is a class"),
    )
    message = (
        f"--data: '{first}' of '{root}' has the same folders as those beside it, and other images"
    )
    return AmbiguousInput(message, readings)


def ask_pieces(root: Path, images: Sequence[Names], reason: str) -> UsageError:
    """Return the question whether folders are classes or pieces of a set, for a ``reason``."""
    upper = {names[0] for names in images}
    readings = [Reading({"data": str(root / UPPER)}, f"the model tells {some_of(upper)} apart")]
    lower = set()
    for names in images:
        if len(names) > 2:
            lower.add(names[-2])
    if len(lower) > 1:
        meaning = f"the model tells the deeper folders {some_of(lower)} apart"
        readings.insert(0, Reading({"data": str(root / DEEPEST)}, meaning))
    return AmbiguousInput(
        f"--data: are {some_of(upper)} of '{root}' classes? {reason[0].upper()}{reason[1:]}",
        readings,
        "list the images in a table with the columns path and label",
    )


def refuse_disjoint(root: Path, tops: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse parts without a common class (``train/0_cat``, ``test/cat``): nothing is judged."""
    classes: dict[str, set[str]] = {}
    for top, label in zip(tops, labels, strict=True):
        classes.setdefault(top, set()).add(label)
    # The training part first: its classes are those that a model learns.
    first, *others = sorted(classes, key=lambda top: part_of(top) != SplitPart.TRAIN)
    known = set(map(plain, classes[first]))
    are_disjoint = all(known.isdisjoint(map(plain, classes[top])) for top in others)
    if others and are_disjoint:
        raise UsageError(
            f"--data: the parts of '{root}' have no class in common: '{first}' has"
            f" {some_of(classes[first])}, and '{others[0]}' has {some_of(classes[others[0]])}",
            f"name the folders of a class alike, or give one part: --data {root / first}",
        )


def ask_two_levels(root: Path, upper: Collection[str], lower: Collection[str]) -> UsageError:
    """Return the question which of two levels of folders are the classes."""
    readings = (
        Reading(
            {"data": str(root / DEEPEST)},
            f"the model tells the deeper folders {some_of(lower)} apart",
        ),
        Reading(
            {"data": str(root / UPPER)},
            f"the model tells the upper folders {some_of(upper)} apart",
        ),
    )
    return AmbiguousInput(
        f"--data: are the classes of '{root}' {some_of(upper)}, or the {len(lower)} deeper folders"
        f" {some_of(lower)}?",
        readings,
        "list the images in a manifest",
    )


def ask_mixed_folders(root: Path, parts: Sequence[str], others: Sequence[str]) -> UsageError:
    """Return the question whether folders beside parts of a split are left out.

    The other answer is that all of them are classes.
    """
    trained = min(parts, key=lambda name: part_of(name) != SplitPart.TRAIN)
    which = "the part" if len(parts) == 1 else "the parts"
    together = sorted((*parts, *others))
    readings = [
        Reading(
            {"data": str(root / trained)},
            f"the classes are the folders in '{trained}'; nothing else is used",
        ),
        Reading({"data": str(root / UPPER)}, f"the model tells {some_of(together)} apart"),
    ]
    if len(parts) > 1:
        chosen = root / f"{{{','.join(sorted(parts))}}}"
        readings.insert(
            0,
            Reading(
                {"data": str(chosen)},
                f"{quote_names(sorted(parts))} are the split; nothing else is used",
            ),
        )
    return AmbiguousInput(
        f"--data: '{root}' has {which} {quote_names(sorted(parts))} of a split beside"
        f" {quote_names(others)}",
        readings,
        f"move {quote_names(others)} away",
    )


def quote_names(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def some_of(names: Collection[str]) -> str:
    """Return the first three of several names, for a message."""
    shown = [f"'{name}'" for name in sorted(names)[:SHOWN_NAMES]]
    if len(names) > SHOWN_NAMES:
        shown.append("...")
    return ", ".join(shown)


def name_without(names: Collection[str]) -> str:
    """Return the last name of a path that leaves folders out, such as ``!(backup|tmp)``."""
    return f"!({'|'.join(sorted(names))})"
