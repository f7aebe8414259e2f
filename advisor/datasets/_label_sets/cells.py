"""Split the cells of a column of labels: lists as programs write them, or names with a mark.

``tables.py`` calls :func:`split_cells` with all cells of a column, because only together do they
show what separates labels.
``inside.py`` asks :func:`are_flags` of lists in Parquet and Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from advisor.core import listed
from advisor.datasets._json_labels import split_cell

# The first one that a column has counts; blanks if it has none.
SEPARATORS = ("|", ";", ",", "；", "，", "、")
# A name may contain one of them, so the cells must show that they separate labels.
DOUBTFUL_SEPARATORS = ("&", "+", "/", ":")
# Share of the names beside such a mark that stand alone, or before and after it.
SEPARATED_SHARE = 0.5
NO_LABELS = frozenset({"", "nan", "null", "none"})  # Cells of images without a label
# Lists of Python, NumPy, pandas and SQL; round brackets are a list only around quotes.
_BRACKETS = re.compile(r"(?:set)?(?:\[(.*)\]|\{(.*)\}|\((.*)\))", re.DOTALL)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_BETWEEN = re.compile(r"[\s,;]*")


@dataclass(frozen=True)
class SplitCells:
    """The labels of each cell of a column, and sentences on how they were found."""

    labels: Mapping[str, frozenset[str]]
    notes: tuple[str, ...] = ()


def split_cells(cells: Collection[str], table: str) -> SplitCells:
    """Return the labels of cells; ``table`` names their table in sentences."""
    lists = {}
    texts = []
    for cell in dict.fromkeys(cells):
        names = _read_list(cell)
        if names is not None:
            lists[cell] = names
        elif cell.casefold() in NO_LABELS:
            lists[cell] = []
        else:
            texts.append(cell)
    if not texts and are_flags(list(lists.values())):
        return _name_by_place(lists, table)
    # A name in brackets among others is a name.
    are_lists = bool(texts) and all(map(_BRACKETS.fullmatch, texts))
    inner = {}
    for cell in texts:
        inner[cell] = _strip_brackets(cell) if are_lists else cell
    mark, is_doubtful = _find_mark(set(inner.values()))
    labels = {}
    for cell, names in lists.items():
        labels[cell] = frozenset(filter(None, names))
    for cell, text in inner.items():
        labels[cell] = frozenset(filter(None, map(str.strip, re.split(mark, text))))
    notes = []
    if is_doubtful:
        shown = listed(sorted(frozenset().union(*labels.values())), 4)
        what = "Blanks separate" if mark == r"\s+" else f"'{mark[-1]}' separates"
        notes.append(f"{what} the labels of '{table}': {shown}.")
    return SplitCells(labels, tuple(notes))


def _read_list(cell: str) -> list[str] | None:
    """Return the names of a cell that is a list of quoted names or numbers; None if it is none."""
    names = split_cell(cell)
    if names:
        return list(map(str.strip, names))
    brackets = _BRACKETS.fullmatch(cell)
    inner = cell if brackets is None else _strip_brackets(cell)
    if not inner.strip():
        return None if brackets is None else []
    # A name in quotes is a list only in brackets, or beside others.
    quoted = list(_QUOTED.finditer(inner))
    is_list = bool(quoted) and _BETWEEN.fullmatch(_QUOTED.sub("", inner)) is not None
    if not is_list or (brackets is None and len(quoted) < 2 and inner[0] != '"'):
        return None
    names = []
    for match in quoted:
        names.append((match[1] or match[2] or "").strip())
    return names


def _strip_brackets(cell: str) -> str:
    brackets = _BRACKETS.fullmatch(cell)
    if brackets is None:
        return cell
    return next(filter(None, brackets.groups()), "")


def are_flags(lists: Sequence[Sequence[str]]) -> bool:
    """Return whether lists have 1 or 0 for each class, in one order.

    A list of the numbers of classes has no number twice.
    """
    lengths = set(map(len, lists))
    values = frozenset[str]().union(*lists)
    repeats = any(len(set(names)) < len(names) for names in lists)
    return len(lengths) == 1 and values <= {"0", "1"} and repeats


def _name_by_place(lists: Mapping[str, Sequence[str]], table: str) -> SplitCells:
    """Return the labels of lists of 1 and 0: the numbers of the places that have 1."""
    labels = {}
    for cell, flags in lists.items():
        labels[cell] = name_flags(flags)
    return SplitCells(labels, (describe_flags(table),))


def name_flags(flags: Sequence[str]) -> frozenset[str]:
    """Return the numbers of the places that have 1, from 0."""
    return frozenset(str(place) for place, flag in enumerate(flags) if flag == "1")


def describe_flags(table: str) -> str:
    """Return a sentence on lists whose labels are numbers of places."""
    return f"The lists of 1 and 0 of '{table}' are read by place: the labels are counted from 0."


def _find_mark(cells: Collection[str]) -> tuple[str, bool]:
    """Return the pattern of what separates labels, and whether it might be a part of a name."""
    for separator in SEPARATORS:
        if any(separator in cell for cell in cells):
            return re.escape(separator), False
    for separator in DOUBTFUL_SEPARATORS:
        if _separates_names(separator, cells):
            return re.escape(separator), True
    # A line break in a cell is no part of a name.
    return (r"\s+", True) if _have_common_words(cells) else (r"\n", False)


def _separates_names(mark: str, cells: Collection[str]) -> bool:
    """Return whether most names beside a mark stand alone elsewhere, or on its other side.

    Those of a hierarchy, such as ``animal/cat``, do not.
    """
    alone = set[str]()
    places: dict[str, set[int]] = {}
    for cell in cells:
        names = list(map(str.strip, cell.split(mark)))
        if len(names) == 1:
            alone.update(names)
        elif all(names):
            for place, name in enumerate(names):
                places.setdefault(name, set()).add(place)
    free = 0
    for name, seen in places.items():
        free += name in alone or len(seen) > 1
    return free > SEPARATED_SHARE * len(places)


def _have_common_words(cells: Collection[str]) -> bool:
    """Return whether a word is in several cells, so that blanks seem to separate labels."""
    words_before = set[str]()
    for cell in cells:
        words = set(cell.split())
        if len(cell.split()) > 1 and words & words_before:
            return True
        words_before |= words
    return False
