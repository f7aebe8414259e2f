"""Turn boxes of photos that are stored rotated, with an EXIF orientation, to the upright image.

Cameras store the pixels as the sensor has them and say how to turn them. Models see the upright image. Most annotation
tools show it upright, too, so that is how boxes are read where nothing tells otherwise. If a file states the size of
the image, the size says what its tool worked on: the stored width and height, or the upright ones. Some tools state the
stored size and show the upright image. Then the edges of boxes contradict the size, as some are outside of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.datasets.boxes.values import Box, BoxEntry

Size = tuple[int, int]
"""Width and height in pixels."""

_TRANSPOSED = 5
"""From this orientation on, width and height are exchanged."""

_MIRRORED = {2: (True, False), 3: (True, True), 4: (False, True), 6: (True, False), 7: (True, True), 8: (False, True)}
"""Axes of the upright image that run against the stored ones (EXIF 2.32, tag 0x0112)."""


@dataclass(frozen=True)
class Frame:
    """Size and orientation in which an image is stored.

    Attributes:
        stored: their width and height.
        orientation: how they are turned upright, 1 (they are upright) to 8, as in EXIF.
    """

    stored: Size
    orientation: int = 1

    @property
    def upright(self) -> Size:
        """Width and height of the upright image."""
        return (self.stored[1], self.stored[0]) if self.orientation >= _TRANSPOSED else self.stored

    def by_size(self, entry: BoxEntry) -> bool | None:
        """Return whether the file states the stored size, False for the upright one, None if it does not tell."""
        known = self.upright != self.stored and entry.size in (self.stored, self.upright)
        return entry.size == self.stored if known else None

    def by_edges(self, entry: BoxEntry) -> bool | None:
        """Return whether all boxes are inside the stored image only, False for the upright one, None for neither."""
        stored, upright = _inside(entry, self.stored), _inside(entry, self.upright)
        return None if stored == upright else stored

    def turned(self, box: Box) -> Box:
        """Return a box of the stored image as a box of the upright one, in pixels."""
        width, height = self.upright
        left, top, right, bottom = box.edges
        if self.orientation >= _TRANSPOSED:
            left, top, right, bottom = top, left, bottom, right
        across, down = _MIRRORED.get(self.orientation, (False, False))
        if across:
            left, right = width - right, width - left
        if down:
            top, bottom = height - bottom, height - top
        return box.at(left, top, right, bottom)


def drawn_as_stored(entries: Sequence[BoxEntry], frames: Sequence[Frame], relative: bool) -> list[bool]:
    """Return for each image whether its boxes were drawn on the stored image, False for the upright one.

    Stated sizes tell it, unless the edges of more images contradict them than agree; then edges do. Images that do not
    tell follow the majority of those that do: one tool made the whole set.

    Args:
        entries: the images with their boxes.
        frames: how each image is stored.
        relative: edges are shares of the image's sides; they do not tell.
    """
    pairs = list(zip(entries, frames, strict=True))
    by_size = [frame.by_size(entry) for entry, frame in pairs]
    by_edges = [None if relative else frame.by_edges(entry) for entry, frame in pairs]
    agree = Counter(size == edges for size, edges in zip(by_size, by_edges, strict=True) if None not in (size, edges))
    if agree[False] > agree[True]:
        by_size = [None] * len(pairs)
    told = [edges if size is None else size for size, edges in zip(by_size, by_edges, strict=True)]
    votes = Counter(told)
    return [votes[True] > votes[False] if one is None else one for one in told]


def _inside(entry: BoxEntry, size: Size) -> bool:
    return all(box.right <= size[0] + 1 and box.bottom <= size[1] + 1 for box in entry.boxes)
