"""Refuse class folders where it is not clear on which level the classes are.

``_folders.py`` calls these checks after it found the parts of a split, with the names of the
folders of each image. Each raises a question (``AmbiguousInput``) or a UsageError; none guesses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from advisor.core import AmbiguousInput, Reading, UsageError
from advisor.datasets._folder_questions import UPPER, Names, ask_two_levels, some_of
from advisor.datasets._parts import NEUTRAL_WORDS, find_parts_of_siblings, split_words
from advisor.datasets._stray_folders import explain_pieces

# Above this share of images in deeper folders it is not clear which folders are the classes.
NESTED = 0.5
# From this share of folders that are named as parts on, a part with class folders is no class.
MANY_PARTS = 0.5
_DIGIT = re.compile(r"\d")


def refuse_nested_folders(root: Path, images: Sequence[Names]) -> None:
    """Ask which level is the classes of ``DIR/Fruit/Apple/1.jpg``.

    Deeper folders whose names recur in several, such as ``images``, are no classes.
    """
    upper = {names[0] for names in images}
    nested = []
    for names in images:
        if len(names) > 2:
            nested.append(names)
    places = {(names[0], names[-2]) for names in nested}
    lower = {name for _, name in places}
    if len(nested) <= NESTED * len(images) or len(lower) <= len(upper):
        return
    # A name that recurs, such as `images` in each class, is no class itself.
    recurring = len(places) - len(lower)
    if recurring <= len(lower) / 2:
        raise ask_two_levels(root, upper, lower)


def refuse_same_folders(root: Path, images: Sequence[Names]) -> None:
    """Ask which level is the classes where all upper folders have the same two or more folders.

    So it is in ``DIR/day/cat/1.jpg`` and ``DIR/night/cat/1.jpg``. Deeper folders with a word and a
    number (``visit 1``) or neutral words (``images``) are no classes.
    """
    lower: dict[str, set[str]] = {}
    for names in images:
        below = ""
        if len(names) > 2:
            below = names[1]
        lower.setdefault(names[0], set()).add(below)
    shared = next(iter(lower.values()), set())
    if len(lower) < 2 or len(shared) < 2:
        return
    are_equal = all(inner == shared for inner in lower.values())
    if are_equal and all(map(_may_be_class, shared)):
        raise ask_two_levels(root, set(lower), shared)


def refuse_neutral_folder(root: Path, images: Sequence[Names]) -> None:
    """Ask about ``DIR/images/train/cat/1.jpg`` beside ``DIR/docs/1.jpg``.

    A folder with a neutral name that holds a split is no class.
    """
    inner: dict[str, set[str]] = {}
    for names in images:
        below = ""
        if len(names) > 3:
            below = names[1]
        inner.setdefault(names[0], set()).add(below)
    if len(inner) < 2:
        return
    for name in sorted(inner):
        is_neutral = set(split_words(name)) <= NEUTRAL_WORDS
        if is_neutral and find_parts_of_siblings(inner[name]).keys() == inner[name]:
            readings = (
                Reading(
                    {"data": str(root / name)}, f"the split in '{name}' is used, and nothing else"
                ),
                Reading({"data": str(root / UPPER)}, f"the model tells {some_of(inner)} apart"),
            )
            raise AmbiguousInput(
                f"--data: is '{name}' a class of '{root}'? It has the parts of a split", readings
            )


def _may_be_class(name: str) -> bool:
    if name.isdecimal():
        return True
    return bool(name) and not _DIGIT.search(name) and not set(split_words(name)) <= NEUTRAL_WORDS


def refuse_homonyms(images: Sequence[Names]) -> None:
    """Refuse deepest folders of one name in several places, such as ``Fruit/Other``,
    ``Pets/Other``.

    Where all upper folders have the same deeper ones, as ``day/cat`` and ``night/cat``, these are
    one class. So they are in pieces of a set, as ``fold1/cat`` and ``fold2/cat``.
    """
    places: dict[str, set[str]] = {}
    lower: dict[str, set[str]] = {}
    for names in images:
        places.setdefault(names[-2], set()).add("/".join(names[:-1]))
        lower.setdefault(names[0], set()).add("/".join(names[1:-1]))
    contents = set(map(frozenset, lower.values()))
    if explain_pieces(lower) or (len(lower) > 1 and len(contents) == 1):
        return
    homonyms = sorted(name for name, folders in places.items() if len(folders) > 1)
    if homonyms:
        raise UsageError(
            f"--data: the class '{homonyms[0]}' would be several folders:"
            f" {some_of(places[homonyms[0]])}",
            "rename them, or list the images in a manifest",
        )


def are_parts_mixed_with_classes(
    parts: Mapping[str, str], with_classes: Sequence[str], others: Sequence[str]
) -> bool:
    """Return whether folders named as parts of a split stand beside others by mistake.

    A model would learn to tell the parts. One folder that is named as a part among many others is
    a class, such as ``train`` among vehicles.
    """
    share = len(parts) / (len(parts) + len(others))
    several = len({parts[top] for top in with_classes}) > 1
    return several or (bool(with_classes) and share >= MANY_PARTS)
