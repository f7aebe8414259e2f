"""Read the rows of the text file with the labels of one image: YOLO, KITTI, DOTA, and plain ones.

``yolo.py`` calls :func:`read_text_rows` for each image. A row stays as it is written: what its
numbers mean is decided over all images in ``value_readings.py``, and its class in
``class_names.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core import UsageError, plain
from advisor.datasets._boxes.marks import read_number
from advisor.datasets._boxes.set_folders import read_short_text
from advisor.datasets._category_files import make_key

SHARES_HINT = "write a class number and centre x, centre y, width and height, each from 0 to 1"
KITTI_VALUES = (14, 15)  # Behind the class, the last with a score
UNCOUNTED = "dontcare"  # Class of KITTI for regions that nobody marked
DOTA_VALUES = 8  # Corners before the class
DOTA_HEADERS = ("imagesource:", "gsd:")
VISDRONE_VALUES = 8  # Joined by commas
SHOWN = 60  # Characters of a row in an error


@dataclass(frozen=True, slots=True)
class TextRow:
    """One row of a text file."""

    line: int  # number of the line from 1
    label: str  # number or name of the class
    values: Sequence[float]  # those behind the class
    form: str = ""  # ``kitti`` or ``dota``; empty for YOLO

    @property
    def is_uncounted(self) -> bool:
        """Return whether the row is a region of KITTI that nobody marked."""
        return bool(self.form) and self.label.casefold() == UNCOUNTED


def read_text_rows(labels: Path) -> list[TextRow]:
    """Return the rows of a text file.

    UsageError if it cannot be read, or has values of VisDrone, whose meaning is another one.
    """
    rows: list[TextRow] = []
    for line, text in enumerate(read_short_text(labels).splitlines(), start=1):
        words = text.split()
        if len(words) == 1:  # A comma separates where no blank does
            words = text.strip().rstrip(",").split(",")
            if len(words) == VISDRONE_VALUES and all(map(is_number, words)):
                raise UsageError(
                    f"'{labels.name}' has rows as VisDrone does: '{plain(text.strip())[:SHOWN]}'",
                    SHARES_HINT,
                )
        if words and not words[0].startswith(DOTA_HEADERS):
            without_commas = [word.rstrip(",") for word in words]
            rows.append(_read_row(line, without_commas))
    return rows


def _read_row(line: int, words: Sequence[str]) -> TextRow:
    values = list(map(read_number, words[1:]))
    are_numbers = list(map(is_number, words))
    if not are_numbers[0] and len(values) in KITTI_VALUES and all(are_numbers[1:]):
        return TextRow(line, words[0], values, "kitti")
    has_corners = len(words) > DOTA_VALUES and all(are_numbers[:DOTA_VALUES])
    if has_corners and not are_numbers[DOTA_VALUES]:
        corners = list(map(read_number, words[:DOTA_VALUES]))
        return TextRow(line, words[DOTA_VALUES], corners, "dota")
    return TextRow(line, make_key(words[0]), values)


def is_number(word: str) -> bool:
    """Return whether a word is a finite number."""
    return math.isfinite(read_number(word))
