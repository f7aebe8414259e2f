"""Define the values that describe images with boxes, before and after the images are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.datasets.dataset import Listing, Rejected
from advisor.datasets.layouts import Entry

ONE_CLASS = "all images"
"""The only class of the images themselves: their boxes have the classes."""


@dataclass(frozen=True, slots=True)
class Box:
    """One object in an image.

    Attributes:
        label: its class.
        left: edge in pixels of the upright image, or in shares of its width before the image is opened.
        top: as ``left``, of the height.
        right: as ``left``.
        bottom: as ``top``.
        line: line, row or number of the box in its file; 0 if it was not read from one.
    """

    label: str
    left: float
    top: float
    right: float
    bottom: float
    line: int = 0

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.right, self.bottom

    @property
    def width(self) -> float:
        """Width, in the unit of the edges."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height, in the unit of the edges."""
        return self.bottom - self.top

    def at(self, left: float, top: float, right: float, bottom: float) -> Box:
        """Return the box with other edges."""
        return replace(self, left=left, top=top, right=right, bottom=bottom)

    def scaled(self, width: float, height: float) -> Box:
        """Return a box with edges in shares as one in pixels of an image."""
        return self.at(self.left * width, self.top * height, self.right * width, self.bottom * height)

    def clipped(self, width: float, height: float) -> Box:
        """Return the part of the box that is inside an image; it has no area if the box is outside."""
        left, right = (min(max(edge, 0.0), width) for edge in (self.left, self.right))
        top, bottom = (min(max(edge, 0.0), height) for edge in (self.top, self.bottom))
        return self.at(left, top, right, bottom)


def box_of(label: str, edges: Sequence[Any], line: int) -> Box:
    """Return a box of four values of a file; what is not a number becomes NaN, see :mod:`.screening`."""
    left, top, right, bottom = map(number, edges)
    return Box(label, left, top, right, bottom, line)


def number(written: Any) -> float:
    """Return a value of a file as a number, NaN if it is none."""
    try:
        return float(written)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def stated_size(width: Any, height: Any) -> tuple[int, int] | None:
    """Return the size of an image as a file states it, None if it states none."""
    sides = number(width), number(height)
    return (int(sides[0]), int(sides[1])) if all(1 <= side < 2**31 for side in sides) else None


@dataclass(frozen=True, slots=True)
class BoxEntry:
    """One image of a listing.

    Attributes:
        path: the image; it may be missing, or not an image.
        boxes: its boxes as written.
        source: the file that has them.
        part: ``train``, ``validation``, ``holdout`` or empty.
        group: images of one group stay on one side of a split; empty for none.
        size: width and height of the image as ``source`` states them, None if it does not.
    """

    path: Path
    boxes: tuple[Box, ...]
    source: Path
    part: str = ""
    group: str = ""
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BoxFault:
    """A box that was left out.

    Attributes:
        path: its image, or the file that has it if no image is known.
        place: file and line.
        reason: why it was left out.
    """

    path: Path
    place: str
    reason: str


@dataclass(frozen=True)
class BoxListing:
    """A set of images with boxes before the images are opened.

    Attributes:
        root: paths in reports are relative to it.
        entries: the images.
        classes: class names that exist even without a box.
        rejected: images without a usable annotation.
        faults: boxes that were left out.
        relative: edges are shares of the image's sides; None if this is not known yet.
        unit: what ``Box.line`` counts: ``line``, ``row``, ``annotation``.
    """

    root: Path
    entries: Sequence[BoxEntry]
    classes: Sequence[str] = ()
    rejected: Sequence[Rejected] = ()
    faults: Sequence[BoxFault] = ()
    relative: bool | None = None
    unit: str = "line"

    @property
    def images(self) -> Listing:
        """The images without their boxes."""
        entries = [Entry(entry.path, ONE_CLASS, entry.part, entry.group) for entry in self.entries]
        return Listing(self.root, entries, (), self.rejected)

    def place(self, source: Path, line: int) -> str:
        """Return the file and line of a box."""
        return f"{self.unit} {line} of '{source.name}'"

    def fault(self, entry: BoxEntry, box: Box, reason: str) -> BoxFault:
        """Return a box that is left out."""
        return BoxFault(entry.path, self.place(entry.source, box.line), reason)
