"""Tell which folders hold images that belong to other images, such as masks: none is a class.

``_scan.py`` and ``_archives.py`` leave these folders out before the classes are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from advisor.datasets._parts import NEUTRAL_WORDS, split_words

Names = tuple[str, ...]
"""An image below a folder: the names of the folders that it is in, then its own."""

_COMPANIONS = """
annotation annotations annot annots label labels trimap trimaps mask masks segmentation
segmentations segmentationclass segmentationobject groundtruth gt depth heatmap heatmaps saliency
"""
COMPANION_WORDS = frozenset(_COMPANIONS.split())
"""Words for folders with images that say something of other images, such as masks."""

# From this share of images on that have the names of others, their folder belongs to these others.
LEAST_REPEATED = 0.9


def find_companion_folders(images: Sequence[Names]) -> set[Names]:
    """Return the folders whose images belong to other images, such as masks.

    Such a folder is named so, and is beside one with a neutral name (``images``), or has the names
    of images elsewhere.
    """
    siblings: dict[Names, set[str]] = {}
    for names in images:
        for depth in range(len(names) - 1):
            siblings.setdefault(names[:depth], set()).add(names[depth])
    companions: set[Names] = set()
    for place, inner in siblings.items():
        named = set(filter(is_companion_name, inner))
        others = inner - named
        if not named or not others:
            continue
        # Beside classes, `masks` could be a class itself,
        # unless its images are named as those of the others.
        beside_images = any(set(split_words(name)) <= NEUTRAL_WORDS for name in others)
        for name in named:
            folder = (*place, name)
            if beside_images or _repeats_names(folder, images):
                companions.add(folder)
    return companions


def is_companion_name(name: str) -> bool:
    """Return whether a folder is named as one of masks or annotations."""
    joined = "".join(filter(str.isalpha, name.casefold()))
    words = {joined} if joined in COMPANION_WORDS else set(split_words(name))
    return bool(words & COMPANION_WORDS) and words <= COMPANION_WORDS | NEUTRAL_WORDS


def _repeats_names(folder: Names, images: Sequence[Names]) -> bool:
    """Return whether nearly all images of a folder have the names of images elsewhere.

    The folders of these must have equal names, too.
    """
    inside: list[Names] = []
    elsewhere: set[Names] = set()
    for names in images:
        key = (*names[-2:-1], PurePath(names[-1]).stem)
        if names[: len(folder)] == folder:
            inside.append(key)
        else:
            elsewhere.add(key)
    return sum(key in elsewhere for key in inside) >= LEAST_REPEATED * len(inside)
