"""Boxes as SVG paths that lie over a thumbnail: the picture element and the drawing are scaled alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from advisor.datasets.boxes import Box

DRAWN = 400
"""Boxes drawn in one image, at most."""

COLOURS = 8
"""Classes with a colour of their own; further ones share them."""


@dataclass(frozen=True)
class Outline:
    """Boxes of one look.

    Attributes:
        name: class of the style sheet.
        path: SVG path of their edges.
    """

    name: str
    path: str


def outlines(boxes: Sequence[Box], marked: Sequence[Box], colours: Mapping[str, int]) -> tuple[Outline, ...]:
    """Return the outlines of an image: one for each class, and one for the boxes that a finding is about.

    Args:
        boxes: the boxes of the image, in pixels.
        marked: those that a finding is about.
        colours: number of each class.
    """
    by_colour: dict[int, list[Box]] = {}
    for box in boxes[:DRAWN]:
        by_colour.setdefault(colours[box.label] % COLOURS, []).append(box)
    found = [Outline(f"c{number}", _path(some)) for number, some in sorted(by_colour.items())]
    return (*found, *([Outline("marked", _path(marked[:DRAWN]))] if marked else []))


def _path(boxes: Iterable[Box]) -> str:
    return "".join(f"M{box.left:.1f} {box.top:.1f}h{box.width:.1f}v{box.height:.1f}h{-box.width:.1f}z" for box in boxes)
