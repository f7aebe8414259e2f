"""Cut a large image into tiles, each an input of a detector, and join what it finds in them.

A photograph of 4,000 pixels loses its small objects where it becomes an input of 320. Tiles keep
them: each is an input of its own. F. C. Akyon, S. O. Altinuc and A. Temizel, "Slicing Aided Hyper
Inference" (2022), have the idea.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core import StageError, UsageError
from advisor.datasets._image_decoding import convert_to_rgb, decode_image, turn_upright
from advisor.datasets._image_files import describe_read_error

Boxes = NDArray[np.floating]
Window = tuple[float, float, float, float]

MOST_TILES = 8
"""Largest number of tiles in a row."""

MOST_OVERLAP = 0.5
"""Largest share of a tile's side that the next tile may have, too."""

WHOLE: Window = (0.0, 0.0, 1.0, 1.0)
# Share of the smaller of two boxes in the other one, from which on both are one object;
# sahi has the same.
SAME = 0.5
LEAST_AREA = 1e-12  # Of a box without area, as files give some
EDGE = 0.01  # Share of a tile's side, within which a box ends at the tile's edge


@dataclass(frozen=True)
class Tiling:
    """The rows and columns of equal tiles that overlap; the whole image is a tile, too."""

    across: int  # tiles in a row, and in a column
    overlap: float  # share of a tile's side that the next tile has, too

    @classmethod
    def of_options(cls, tiles: int, overlap: float) -> Tiling | None:
        """Return how photographs are cut; None for one tile, which is the whole photograph.

        Raises:
            UsageError: a number outside its limits.
        """
        if not 1 <= tiles <= MOST_TILES:
            raise UsageError(
                f"--tiles: {tiles} is not between 1 and {MOST_TILES}",
                "write for example --tiles 2",
            )
        if not 0.0 <= overlap <= MOST_OVERLAP:
            raise UsageError(
                f"--overlap: {overlap:g} is not between 0 and {MOST_OVERLAP:g}",
                "write for example 0.2",
            )
        return cls(tiles, overlap) if tiles > 1 else None

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Top, left, bottom and right of each tile in shares of the image; the whole is first."""
        side = 1.0 / (self.across - (self.across - 1) * self.overlap)
        step = side * (1.0 - self.overlap)
        edges = []
        for place in range(self.across):
            start = place * step
            # The last tile ends at the edge of the image, whatever rounding makes of it.
            end = min(start + side, 1.0)
            edges.append((start, end))
        windows = [WHOLE]
        for top, bottom in edges:
            for left, right in edges:
                windows.append((top, left, bottom, right))
        return tuple(windows)

    def read(self, path: Path, size: int) -> list[NDArray[np.uint8]]:
        """Return each tile of an image as an input, RGB uint8 (size, size, 3), upright.

        Errors are those of :func:`._images.load`.
        """
        return load_windows(path, size, self.windows)

    def place_boxes(self, boxes: Boxes, tile: int) -> Boxes:
        """Return boxes in shares of a tile as shares of the image, (n, 4)."""
        top, left, bottom, right = self.windows[tile]
        sides = np.array([bottom - top, right - left] * 2)
        return np.asarray(boxes.reshape(-1, 4) * sides + np.array([top, left, top, left]))

    def choose_boxes(
        self,
        boxes: Boxes,
        labels: NDArray[np.int64],
        scores: Boxes,
        tiles: NDArray[np.int64],
    ) -> list[int]:
        """Return the places of the boxes that stay, one for each object, by score.

        ``boxes`` are in shares of the image, (n, 4), and ``tiles`` are the numbers of the tiles
        that they are from. Of two boxes of one class from different tiles, the one that is not cut
        stays; else the one with the higher score.
        """
        is_cut = self._find_cut(boxes, tiles)
        order = np.lexsort((-scores, is_cut))
        chosen: list[int] = []
        for place in order.tolist():
            rivals = []
            for other in chosen:
                # What one run finds was joined by the file.
                if labels[other] == labels[place] and tiles[other] != tiles[place]:
                    rivals.append(other)
            shares = _compute_shares(boxes[rivals], boxes[place])
            if not (shares >= SAME).any():
                chosen.append(place)
        chosen.sort(key=lambda place: -float(scores[place]))
        return chosen

    def _find_cut(self, boxes: Boxes, tiles: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which boxes end at an edge of their tile inside the image.

        The object probably goes on there.
        """
        table = np.array(self.windows)
        windows = table[tiles].reshape(-1, 4)
        heights = windows[:, 2:3] - windows[:, :1]
        distances = np.abs(boxes - windows)
        is_inside = (windows > 0.0) & (windows < 1.0)
        is_near = distances <= EDGE * heights
        return np.asarray((is_near & is_inside).any(axis=1))


def _compute_shares(others: Boxes, box: Boxes) -> Boxes:
    """Return how much of the smaller of two boxes is in the other one, for each of the others."""
    low = np.maximum(others[:, :2], box[:2])
    high = np.minimum(others[:, 2:], box[2:])
    sides = np.clip(high - low, 0.0, None)
    shared = sides.prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1)
    area = (box[2:] - box[:2]).prod()
    smaller = np.minimum(areas, area)
    return np.asarray(shared / np.maximum(smaller, LEAST_AREA))


def load_windows(path: Path, size: int, windows: Sequence[Window]) -> list[NDArray[np.uint8]]:
    """Decode an image once, and resize each window of it, RGB uint8 (size, size, 3).

    ``windows`` are top, left, bottom and right in shares of the upright image. Errors are of the
    type of those of :func:`._images.load`, without a hint.
    """
    sides = [bottom - top for top, _, bottom, _ in windows]
    # A large JPEG is decoded at a scale at
    # which the smallest window has twice the pixels of the input.
    least = round(2 * size / min(sides))
    try:
        with decode_image(path, least) as (image, _completed):
            upright = turn_upright(convert_to_rgb(image), image)
            width, height = upright.size
            inputs = []
            for top, left, bottom, right in windows:
                box = (left * width, top * height, right * width, bottom * height)
                pixels = upright.resize((size, size), Image.Resampling.BILINEAR, box)
                inputs.append(np.asarray(pixels, np.uint8))
            return inputs
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise StageError(
            f"the image '{path}' cannot be read: {describe_read_error(error)}"
        ) from error
