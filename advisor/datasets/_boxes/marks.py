"""Define what the reader of a tool's file returns, and read its values whatever they hold.

``tool_formats.py``, ``label_studio.py`` and ``services.py`` build :class:`MarkedImage` with these
functions. Files are untrusted: a value of another type becomes NaN, an empty object or no box, and
``entries.screen_boxes`` later says what is wrong with the box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NO_EDGES = (float("nan"),) * 4
_MOST_PIXELS = 2**31  # Of a side that a file states: more is no size of an image


@dataclass(frozen=True)
class MarkedImage:
    """An image with the boxes that a file states."""

    name: str  # its path as written
    boxes: Sequence[tuple[str, Sequence[Any]]]  # class; left, top, right and bottom
    size: tuple[int, int] | None = None  # width and height, if the file states them
    part: str = ""  # its part of a split as written, if the file states it


@dataclass(frozen=True)
class ToolForm:
    """A form of file: how it is recognised, and the function that reads it."""

    words: Sequence[str]  # words that the beginning or the end of the file has, all of them
    # Yields the images of a file from its parsed content and its path.
    read: Callable[[Any, Path], Iterator[MarkedImage]]


def read_number(written: Any) -> float:
    """Return a value of a file as a number, NaN if it is none."""
    try:
        return float(written)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def objects_in(values: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, or of an object whose values are objects."""
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


def object_of(value: Any) -> Mapping[str, Any]:
    """Return an object of a file; an empty one for another value."""
    return value if isinstance(value, dict) else {}


def edges_around(points: Any) -> Sequence[float]:
    """Return the edges of the box around points."""
    pairs = []
    for point in points if isinstance(points, list) else ():
        if isinstance(point, list) and len(point) == 2:
            pairs.append(point)
    # One point has no width and no height.
    if len(pairs) < 2:
        return NO_EDGES
    across = [read_number(point[0]) for point in pairs]
    down = [read_number(point[1]) for point in pairs]
    return min(across), min(down), max(across), max(down)


def edges_from_corner(left: Any, top: Any, width: Any, height: Any) -> Sequence[float]:
    """Return the edges of a box of its left upper corner and its sides."""
    return (
        read_number(left),
        read_number(top),
        read_number(left) + read_number(width),
        read_number(top) + read_number(height),
    )


def edges_around_ellipse(
    across: Any, down: Any, half_width: Any, half_height: Any
) -> Sequence[float]:
    """Return the edges of the box around an ellipse, given its centre and its half axes."""
    left = read_number(across) - read_number(half_width)
    top = read_number(down) - read_number(half_height)
    return edges_from_corner(left, top, 2 * read_number(half_width), 2 * read_number(half_height))


def read_stated_size(width: Any, height: Any) -> tuple[int, int] | None:
    """Return the size of an image as a file states it, None if it states none."""
    across = read_number(width)
    down = read_number(height)
    # Infinity and NaN fail these comparisons, too.
    if not 1 <= across < _MOST_PIXELS or not 1 <= down < _MOST_PIXELS:
        return None
    return int(across), int(down)
