"""Tell what the columns of a table without titles mean, and the words in a line of a list.

``_table_rows.py`` gives such columns these names, and ``_column_search.py`` finds them by them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.datasets._image_names import SUFFIXES, is_image_name
from advisor.datasets._parts import part_of

# Of a box: two corners, or a corner and sides.
UNTITLED_EDGES = ("value_1", "value_2", "value_3", "value_4")
CORNERS = ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4")  # Of a box, turned or not
PATH = "path"
LABEL = "label"
SPLIT = "split"
# Cells of images that are in no part of the user's split.
NO_PART = frozenset({"", "unassigned", "none", "unused"})

_SUFFIX = "|".join(sorted(map(re.escape, SUFFIXES)))
_IMAGE_FIRST = re.compile(rf"(?P<path>\S.*?(?:{_SUFFIX}))\s+(?P<rest>\S.*)", re.IGNORECASE)
# Number, class, image.
_MXNET = re.compile(rf"\d+\s+(?P<rest>[\d.]+)\s+(?P<path>\S.*(?:{_SUFFIX}))", re.IGNORECASE)
_IMAGE_LAST = re.compile(rf"(?P<rest>\S+)\s+(?P<path>\S.*(?:{_SUFFIX}))", re.IGNORECASE)


def name_untitled_columns(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Return names for the columns of a table; None if its first row has titles.

    A row without titles has the name of an image. Four columns of numbers are the edges of a box.
    Columns that say nothing have an empty name.
    """
    if not rows or not any(map(is_image_name, rows[0])):
        return None
    width = max(map(len, rows))
    columns = [_list_cells(rows, place) for place in range(width)]
    names = [""] * width
    first_image = list(map(is_image_name, rows[0])).index(True)
    names[first_image] = PATH
    with_cells = [place for place in range(width) if any(columns[place])]
    others = [place for place in with_cells if place != first_image]
    numbers = [place for place in others if all(map(_is_number, filter(None, columns[place])))]
    texts = [place for place in others if place not in numbers]
    edges = CORNERS if len(numbers) >= len(CORNERS) else UNTITLED_EDGES
    if len(numbers) >= len(edges):
        for place, edge in zip(numbers, edges, strict=False):
            names[place] = edge
        others = [*texts, *numbers[len(edges) :]]
    parts = [place for place in others if _are_parts(columns[place])]
    # A column alone is the class, even where the classes are called `train` and `test`.
    if parts and len(others) > 1:
        names[parts[0]] = SPLIT
        others.remove(parts[0])
    for place in others:
        names[place] = f"column {place + 1}"
    # Columns with the same words are several classes of an image.
    if others and not _share_cells([columns[place] for place in others]):
        names[others[0]] = LABEL
    return names


def _list_cells(rows: Sequence[Sequence[str]], place: int) -> list[str]:
    """Return the cells of a column; rows may be shorter than the longest one."""
    return [row[place].strip() for row in rows if place < len(row)]


def _are_parts(cells: Sequence[str]) -> bool:
    """Return whether cells are words of a split's parts; an image may be in none."""
    if not any(map(part_of, cells)):
        return False
    return all(part_of(cell) or cell.casefold() in NO_PART for cell in cells)


def _share_cells(columns: Sequence[Sequence[str]]) -> bool:
    """Return whether columns of text have the same words: several classes of an image."""
    words_before: set[str] = set()
    for cells in columns:
        words = set()
        for cell in filter(None, cells):
            if not _is_number(cell):
                words.add(cell)
        if words & words_before:
            return True
        words_before |= words
    return False


def split_line(line: str) -> list[str]:
    """Return the path and the word beside it in a line of a list, or nothing.

    Such a line is ``images/1.jpg cat``. The path may have blanks if the other word is after it.
    Several words with a number among them are no class, except in lists of Tiny ImageNet.
    """
    match = _MXNET.fullmatch(line) or _IMAGE_FIRST.fullmatch(line) or _IMAGE_LAST.fullmatch(line)
    if match is None:
        return []
    words = match["rest"].split()
    are_numbers = list(map(_is_number, words))
    # Tiny ImageNet has the class, and the edges of a box.
    if are_numbers == [False] + [True] * len(UNTITLED_EDGES):
        return [match["path"], words[0]]
    if len(words) > 1 and any(are_numbers):
        return []
    return [match["path"], " ".join(words)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
