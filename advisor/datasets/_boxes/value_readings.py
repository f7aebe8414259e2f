"""Decide what the values in the text files of a set mean: which unit, and which order.

YOLO has centre, width and height in shares, but other programs write pixels or corners under the
same names. ``yolo.py`` asks :func:`choose_reading` once for a set, as a single image may fit
several readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from advisor.core import UsageError
from advisor.datasets._boxes.entries import Box, convert_centre_box, convert_coco_box
from advisor.datasets._boxes.text_rows import SHARES_HINT
from advisor.datasets._image_files import READ_ERRORS, open_image, read_orientation

FAR = 2.0  # Shares beyond this are pixels: a box outside its image is not twice as far away
PERCENT = 100.0
SHARES = "shares"
CENTRES = "centres"
CORNERS = "corners"
SIDES = "sides"
PERCENTS = "percents"

NOTES = {
    SHARES: "",
    CENTRES: "The values of the text files are pixels: centre x, centre y, width and height.",
    CORNERS: "The values of the text files are pixels of two corners of a box.",
    SIDES: "The values of the text files are pixels: left, top, width and height.",
    PERCENTS: "The values of the text files are percents of the sides of an image.",
}
"""Sentences on what the values of rows mean."""

PROBED_IMAGES = 50  # Whose sizes tell what values in pixels mean


@dataclass(frozen=True, slots=True)
class MarkedShape:
    """The values of a row that mark a box, before it is known what they mean.

    They are the first four values behind the class, or the edges around corners.
    """

    box: Box
    are_edges: bool


@dataclass(frozen=True)
class ValueReading:
    """A reading of the values of rows: their unit and their order."""

    meaning: str = SHARES  # a key of :data:`NOTES`
    is_told: bool = True  # whether rows have values that may mean something else

    @property
    def note(self) -> str:
        """A sentence on what they mean, if it is not what YOLO has."""
        return NOTES[self.meaning] if self.is_told else ""

    @property
    def relative(self) -> bool:
        """Return whether edges are shares."""
        return self.meaning in (SHARES, PERCENTS)

    def place_box(self, shape: MarkedShape) -> Box:
        """Return the box that a row marks."""
        box = shape.box
        if not shape.are_edges and self.meaning == SIDES:
            box = convert_coco_box(box)
        elif not shape.are_edges and self.meaning != CORNERS:
            box = convert_centre_box(box)
        if self.meaning == PERCENTS:
            left, top, right, bottom = (edge / PERCENT for edge in box.edges)
            box = box.with_edges(left, top, right, bottom)
        return box


def choose_reading(root: Path, shapes: Mapping[Path, Sequence[MarkedShape]]) -> ValueReading:
    """Return what the values of rows mean: shares, or pixels if most are too large for shares.

    Of the readings in pixels that counts by which most boxes are inside their images. YOLO's own
    order counts if no other fits better. Raises UsageError if two others fit equally well.
    """
    all_shapes = chain.from_iterable(shapes.values())
    # A value that is no number is a fault of its box, and says nothing of the others.
    marked = [shape for shape in all_shapes if all(map(math.isfinite, shape.box.edges))]
    far = sum(max(map(abs, shape.box.edges)) > FAR for shape in marked)
    # Some boxes reach over the edge, so single values above 1 make no pixels.
    if far <= len(marked) / 2:
        return ValueReading()
    sized: list[tuple[MarkedShape, tuple[int, int]]] = []
    probed = 0
    for image, shapes_of_image in shapes.items():
        # Each size is read from its image, so a few images decide for all.
        if not shapes_of_image or probed >= PROBED_IMAGES:
            continue
        size = _read_upright_size(image)
        if size is not None:
            probed += 1
            sized += [(shape, size) for shape in shapes_of_image]
    if _are_percents(sized):
        return ValueReading(PERCENTS)
    best = _choose_best_readings(sized)
    # Small boxes near the left upper corner fit both ways.
    if best[0] != CENTRES and len(best) > 1:
        raise UsageError(
            f"--data: the text files of '{root}' have pixels, and fit as two corners, and as left,"
            " top, width and height",
            SHARES_HINT,
        )
    if all(shape.are_edges for shape in marked):
        return ValueReading(CORNERS, is_told=False)
    return ValueReading(best[0])


def _choose_best_readings(sized: Sequence[tuple[MarkedShape, tuple[int, int]]]) -> Sequence[str]:
    """Return the meanings in pixels by which most boxes are inside their images."""
    counts = {}
    for meaning in (CENTRES, CORNERS, SIDES):
        reading = ValueReading(meaning)
        counts[meaning] = sum(_is_inside(reading.place_box(shape), size) for shape, size in sized)
    return [meaning for meaning, count in counts.items() if count == max(counts.values())]


def _read_upright_size(image: Path) -> tuple[int, int] | None:
    try:
        with open_image(image, reduced=True) as opened:
            width, height = opened.size
            return (height, width) if read_orientation(opened) >= 5 else (width, height)
    except READ_ERRORS:
        return None


def _are_percents(sized: Sequence[tuple[MarkedShape, tuple[int, int]]]) -> bool:
    """Return whether all boxes are in the first 100 pixels of images with larger sides.

    The sides must have more than twice as many pixels.
    """
    large = all(min(size) > 2 * PERCENT for _, size in sized)
    whole = (int(PERCENT), int(PERCENT))
    of_pixels = ValueReading(CENTRES)
    return (
        bool(sized)
        and large
        and all(_is_inside(of_pixels.place_box(shape), whole) for shape, _ in sized)
    )


def _is_inside(box: Box, size: tuple[int, int]) -> bool:
    width, height = size
    if not -1 <= box.left < box.right <= width + 1:
        return False
    return -1 <= box.top < box.bottom <= height + 1
