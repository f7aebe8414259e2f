"""Define the values that describe images with boxes, before and after the images are opened.

The reader of each format returns a :class:`BoxListing` with the boxes as written; then
:func:`screen_boxes` leaves out those that cannot be right, with the reason. So a reader only turns
text into numbers, and judges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from advisor.datasets._boxes.marks import read_number
from advisor.datasets._dataset import Entry, Listing, Rejected

ONE_CLASS = "all images"  # The only class of the images themselves: their boxes have the classes
MAX_BOXES = 10_000  # Boxes of one image, at most: two boxes for each of 5,000 objects
MAX_LABEL = 1000
# Shares of an image beyond this are pixels: a box outside the image is not twice as far away.
_FAR = 2.0


@dataclass(frozen=True, slots=True)
class Box:
    """One object in an image."""

    label: str  # its class
    # Edge in pixels of the upright image, or in shares of its width before the image is opened.
    left: float
    top: float  # as ``left``, of the height
    right: float  # as ``left``
    bottom: float  # as ``top``
    line: int = 0  # line, row or number of the box in its file; 0 if it was not read from one

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

    def with_edges(self, left: float, top: float, right: float, bottom: float) -> Box:
        """Return the box with other edges."""
        return replace(self, left=left, top=top, right=right, bottom=bottom)

    def scale_to(self, width: float, height: float) -> Box:
        """Return a box with edges in shares as one in pixels of an image."""
        return self.with_edges(
            self.left * width, self.top * height, self.right * width, self.bottom * height
        )

    def clip_to(self, width: float, height: float) -> Box:
        """Return the part of the box inside an image; a box that is outside has no area."""
        return self.with_edges(
            min(max(self.left, 0.0), width),
            min(max(self.top, 0.0), height),
            min(max(self.right, 0.0), width),
            min(max(self.bottom, 0.0), height),
        )


def make_box(label: str, edges: Sequence[Any], line: int) -> Box:
    """Return a box of four values of a file; what is not a number becomes NaN.

    :func:`screen_boxes` leaves such a box out, with its reason.
    """
    left, top, right, bottom = map(read_number, edges)
    return Box(label, left, top, right, bottom, line)


@dataclass(frozen=True, slots=True)
class BoxEntry:
    """One image of a listing."""

    path: Path  # the image; it may be missing, or not an image
    boxes: tuple[Box, ...]  # its boxes as written
    source: Path  # the file that has them
    part: str = ""  # ``train``, ``validation``, ``holdout`` or empty
    group: str = ""  # images of one group stay on one side of a split; empty for none
    # Width and height of the image as ``source`` states them, None if it does not.
    size: tuple[int, int] | None = None

    def convert_boxes(self, convert_box: Callable[[Box], Box]) -> BoxEntry:
        """Return the image with each of its boxes converted."""
        return replace(self, boxes=tuple(map(convert_box, self.boxes)))


@dataclass(frozen=True, slots=True)
class BoxFault:
    """A box that was left out."""

    path: Path  # its image, or the file that has it if no image is known
    place: str  # file and line
    reason: str  # why it was left out


@dataclass(frozen=True)
class BoxListing:
    """A set of images with boxes before the images are opened."""

    root: Path  # paths in reports are relative to it
    entries: Sequence[BoxEntry]  # the images
    classes: Sequence[str] = ()  # class names that exist even without a box
    rejected: Sequence[Rejected] = ()  # images without a usable annotation
    faults: Sequence[BoxFault] = ()  # boxes that were left out
    # Edges are shares of the image's sides; None if this is not known yet.
    relative: bool | None = None
    unit: str = "line"  # what ``Box.line`` counts: ``line``, ``row``, ``annotation``
    notes: Sequence[str] = ()  # a sentence about each thing that a reader may not expect

    @property
    def images(self) -> Listing:
        """The images without their boxes."""
        entries = [Entry(entry.path, ONE_CLASS, entry.part, entry.group) for entry in self.entries]
        return Listing(self.root, entries, (), self.rejected, tuple(self.notes))

    def make_fault(self, entry: BoxEntry, box: Box, reason: str) -> BoxFault:
        """Return a box that is left out."""
        return BoxFault(entry.path, f"{self.unit} {box.line} of '{entry.source.name}'", reason)


def convert_coco_box(box: Box) -> Box:
    """Return the box of left, top, width and height, which stand where the edges are."""
    return box.with_edges(box.left, box.top, box.left + box.right, box.top + box.bottom)


def convert_centre_box(box: Box) -> Box:
    """Return the box of centre, width and height, which stand where the edges are."""
    half_width = box.right / 2
    half_height = box.bottom / 2
    return box.with_edges(
        box.left - half_width, box.top - half_height, box.left + half_width, box.top + half_height
    )


def are_centres(entries: Sequence[BoxEntry]) -> bool:
    """Return whether more boxes are inside their images by a centre than by a corner.

    Each box is a point, width and height; those that fit both ways say nothing.
    """
    boxes = collect_boxes(entries)
    is_share = all(max(box.edges) <= 1 for box in boxes)
    # Without a size, a box can still be outside at the left or above.
    unknown_size = (1, 1) if is_share else (math.inf, math.inf)
    votes = 0
    for entry in entries:
        width, height = entry.size or unknown_size
        for box in entry.boxes:
            # Boxes that fit both ways say nothing, so they add and subtract one vote.
            votes += _is_inside(convert_centre_box(box), width, height)
            votes -= _is_inside(convert_coco_box(box), width, height)
    return votes > 0


def collect_boxes(entries: Sequence[BoxEntry]) -> list[Box]:
    return list(chain.from_iterable(entry.boxes for entry in entries))


def _is_inside(box: Box, width: float, height: float) -> bool:
    slack = 1e-3 if width <= 1 else 1.0  # of rounded edges
    if min(box.edges) < -slack:
        return False
    return box.right <= width + slack and box.bottom <= height + slack


def are_corners(entries: Sequence[BoxEntry]) -> bool:
    """Return whether more boxes are inside their images as two corners than as COCO's edges."""
    votes = 0
    for entry in entries:
        if entry.size is None:
            continue
        # Rounding may put an edge one pixel outside.
        width = entry.size[0] + 1
        height = entry.size[1] + 1
        for box in entry.boxes:
            fits_as_corners = box.left < box.right <= width and box.top < box.bottom <= height
            fits_as_coco = box.left + box.right <= width and box.top + box.bottom <= height
            # Boxes that fit both ways say nothing, so only those count that fit one way alone.
            votes += fits_as_corners - fits_as_coco
    return votes > 0


def screen_boxes(listing: BoxListing) -> BoxListing:
    """Return a listing without the boxes that cannot be right, with the reasons in ``faults``.

    Edges are shares if most boxes are inside 0 to 1, unless the listing says what they are.
    """
    relative = listing.relative
    if relative is None:
        boxes = collect_boxes(listing.entries)
        # By the majority: a box of one pixel in the corner looks like a share.
        relative = sum(map(_within_one, boxes)) > len(boxes) / 2
    entries: dict[Path, BoxEntry] = {}
    faults: list[BoxFault] = []
    rejected: list[Rejected] = []
    for entry in listing.entries:
        name = entry.path.name
        count = len(entry.boxes)
        if entry.path in entries:
            rejected.append(
                Rejected(entry.source, f"it has '{name}' a second time; the first counts")
            )
        elif count > MAX_BOXES:
            rejected.append(
                Rejected(
                    entry.source, f"{count:,} boxes of '{name}', above the limit of {MAX_BOXES:,}"
                )
            )
        else:
            usable = []
            for box in entry.boxes:
                reason = _find_fault(box, relative)
                if reason:
                    faults.append(listing.make_fault(entry, box, reason))
                else:
                    usable.append(box)
            entries[entry.path] = replace(entry, boxes=tuple(usable))
    rejected = [*listing.rejected, *rejected]
    faults = [*listing.faults, *faults]
    return replace(
        listing,
        entries=list(entries.values()),
        rejected=rejected,
        faults=faults,
        relative=relative,
    )


def _find_fault(box: Box, relative: bool) -> str:
    """Return what is wrong with a box, empty if nothing is."""
    if not all(map(math.isfinite, box.edges)):
        return "an edge is missing or not a number"
    if not box.label.strip():
        return "no label"
    if len(box.label) > MAX_LABEL or "\0" in box.label:
        return f"a label with NUL or of more than {MAX_LABEL:,} characters"
    if relative and max(map(abs, box.edges)) > _FAR:
        return "pixels, where coordinates from 0 to 1 are expected"
    if not relative and _within_one(box) and box.right > box.left:
        return "coordinates from 0 to 1, where pixels are expected"
    if box.right < box.left or box.bottom < box.top:
        return "the right edge is left of the left one, or the bottom above the top"
    if box.width > 0 and box.height > 0:
        return ""
    return "no width or no height"


def _within_one(box: Box) -> bool:
    return all(0 <= edge <= 1 for edge in box.edges)
