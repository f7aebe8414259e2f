"""Tell by their names which files are images, and read the class of one from its name.

``cat.12.jpg`` may be a cat: ``_layouts.py`` asks the user, or reads the pattern that the user
gave.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

HEIC_SUFFIXES = frozenset({".heic", ".heif"})
_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .webp .bmp .gif .tif .tiff .avif .ppm .pgm .pbm .pnm"
SUFFIXES = HEIC_SUFFIXES | frozenset(_SUFFIXES.split())
_RAW = ".dng .cr2 .cr3 .nef .arw .orf .rw2 .raf"
_FOREIGN = ".jp2 .j2k .jxl .psd .tga .exr .dcm"
RAW_SUFFIXES = frozenset(_RAW.split())  # Of what a sensor measured
FOREIGN_SUFFIXES = RAW_SUFFIXES | frozenset(_FOREIGN.split())  # Of images that are not read

LABEL_IN_NAME = "{class}"  # Where the class stands in a pattern of names
IMAGES_PER_CLASS = 2  # Fewest images of each class, in the mean, of names that seem to have one

_NUMBER_BEHIND = re.compile(
    r"(?P<label>\D.*?)(?P<separator>[-_. ]*)(?:\(?\d+\)?)(?P<suffix>\.\w+)"
)
_NUMBER_BEFORE = re.compile(
    r"(?P<start>(?:[^\W\d]+[-_ ])?)\d+(?P<separator>[-_."
    r" ]+)(?P<label>[^\W\d][^\d.]*)(?P<suffix>\.\w+)"
)


def is_image_name(name: str) -> bool:
    """Return whether a name ends like that of an image."""
    suffix = PurePath(name.strip()).suffix.lower()
    return suffix in SUFFIXES or suffix in FOREIGN_SUFFIXES


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern of names.

    ``{class}`` is the group ``label``, ``#`` a number, and ``*`` any text.
    """
    expression = re.escape(pattern)
    for written, meaning in (
        (re.escape(LABEL_IN_NAME), "(?P<label>.+?)"),
        (re.escape("#"), r"\d+"),
        (r"\*", ".*"),
    ):
        expression = expression.replace(written, meaning)
    return re.compile(expression, re.IGNORECASE)


def find_pattern(images: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], str, list[str]]:
    """Return the folder, pattern and classes that the names of images seem to have.

    The pattern is empty for none. The folder is the one with most images of that kind.

    Args:
        images: the names of the folders that each image is in, then its own.
    """
    for form in (_NUMBER_BEFORE, _NUMBER_BEHIND):
        labels_of_folders: dict[tuple[str, ...], set[str]] = {}
        patterns: Counter[tuple[tuple[str, ...], str]] = Counter()
        for *folders, name in images:
            match = form.fullmatch(name)
            if match:
                labels_of_folders.setdefault(tuple(folders), set()).add(match["label"])
                patterns[tuple(folders), _make_pattern(match)] += 1
        if not patterns:
            continue
        (folder, pattern), count = patterns.most_common(1)[0]
        labels = sorted(labels_of_folders[folder])
        if len(labels) >= 2 and count >= IMAGES_PER_CLASS * len(labels):
            return folder, pattern, labels
    return (), "", []


def _make_pattern(match: re.Match[str]) -> str:
    """Return the pattern of a name whose number is before or behind its class."""
    separator = match["separator"]
    suffix = match["suffix"]
    if "start" in match.groupdict():
        return f"{match['start']}#{separator}{LABEL_IN_NAME}{suffix}"
    return f"{LABEL_IN_NAME}{separator}#{suffix}"
