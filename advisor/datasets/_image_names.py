"""Tell by their names which files are images, and read the class of one from its name, such as ``cat.12.jpg``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

HEIC_SUFFIXES = frozenset({".heic", ".heif"})
_SUFFIXES = ".jpg .jpeg .jpe .jfif .png .webp .bmp .gif .tif .tiff .avif .ppm .pgm .pbm .pnm"
SUFFIXES = HEIC_SUFFIXES | frozenset(_SUFFIXES.split())
_FOREIGN = ".jp2 .j2k .jxl .dng .cr2 .cr3 .nef .arw .orf .rw2 .raf .psd .tga .exr .dcm"
FOREIGN_SUFFIXES = frozenset(_FOREIGN.split())  # Of images that are not read

LABEL_IN_NAME = "{class}"  # Where the class stands in a pattern of names
IMAGES_PER_CLASS = 2  # Fewest images of each class, in the mean, of names that seem to have one

_NUMBERED = re.compile(r"(?P<label>\D.*?)(?P<separator>[-_. ]*)(?:\(?\d+\)?)(?P<suffix>\.\w+)")


def is_image_name(name: str) -> bool:
    """Return whether a name ends like that of an image."""
    suffix = PurePath(name.strip()).suffix.lower()
    return suffix in SUFFIXES or suffix in FOREIGN_SUFFIXES


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the expression of a pattern: ``{class}`` is the group ``label``, ``#`` a number, and ``*`` any text."""
    expression = re.escape(pattern)
    for written, meaning in ((re.escape(LABEL_IN_NAME), "(?P<label>.+?)"), (re.escape("#"), r"\d+"), (r"\*", ".*")):
        expression = expression.replace(written, meaning)
    return re.compile(expression, re.IGNORECASE)


def pattern_of_names(images: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], str, list[str]]:
    """Return the folder, the pattern and the classes that the names of images seem to have; an empty pattern for none.

    The folder is the one with most images of that kind.

    Args:
        images: the names of the folders that each image is in, then its own.
    """
    matches = [(names[:-1], match) for names in images if (match := _NUMBERED.fullmatch(names[-1]))]
    kinds = Counter((folder, match["separator"], match["suffix"]) for folder, match in matches)
    if not kinds:
        return (), "", []
    (folder, separator, suffix), count = kinds.most_common(1)[0]
    labels = sorted({match["label"] for place, match in matches if place == folder})
    if len(labels) < 2 or count < IMAGES_PER_CLASS * len(labels):
        return (), "", []
    return folder, f"{LABEL_IN_NAME}{separator}#{suffix}", labels
