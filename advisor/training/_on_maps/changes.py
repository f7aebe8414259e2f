"""Change an image with its labels at random: another section, mirrored, in other colours.

Boxes or masks move with the image; each task has its own :class:`Labels`. `kept.py` changes the
images of a training. Equal draws must give equal changes, as trained networks are cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

Floats = NDArray[np.float32]

# Share of a box's area that must stay in the section; else the object is hard to recognise.
LEAST_LEFT = 0.3

# RGB outside the image: the mean of ImageNet's images.
FILLED = (124, 116, 104)


@dataclass(frozen=True)
class RandomChanges:
    """Strengths of the random changes."""

    # Largest factor between the sides of the section and those of the image, either way.
    zoom: float = 1.65
    stretch: float = 1.35  # largest factor between the height and the width of the section
    # Largest change of contrast: the factor is between 1 - contrast and 1 + contrast.
    contrast: float = 0.2
    brightness: float = 20.0  # largest change of all channels, in steps of 255
    tint: float = 8.0  # largest change of each channel


@dataclass(frozen=True)
class ImageSection:
    """A section of an image in shares of its sides.

    It may reach over the edges, and be mirrored from left to right.
    """

    top: float
    left: float
    height: float
    width: float
    mirrored: bool

    def of(
        self, pixels: NDArray[np.uint8], filled: Any, method: Image.Resampling
    ) -> NDArray[np.uint8]:
        """Return the section of an image, uint8 (h, w) or (h, w, 3), at the image's size.

        ``filled`` is the value of pixels outside of the image.
        """
        rows, columns = pixels.shape[:2]
        matrix = (self.width, 0.0, self.left * columns, 0.0, self.height, self.top * rows)
        image = Image.fromarray(pixels)
        section = np.asarray(
            image.transform(image.size, Image.Transform.AFFINE, matrix, method, fillcolor=filled)
        )
        if self.mirrored:
            return section[:, ::-1]
        return section


class Labels(Protocol):
    """The targets that a network learns of an image."""

    def within(self, section: ImageSection) -> Self:
        """Return the labels of a section of the image."""


Labelled = TypeVar("Labelled", bound=Labels)


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects in an image."""

    boxes: Floats  # edges (n, 4) as top, left, bottom and right in shares of the image, float32
    labels: NDArray[np.int64]  # index of the class of each, int64 (n,)

    def within(self, section: ImageSection) -> Objects:
        """Return the objects in shares of a section, without those of which too little is left."""
        corner = np.array([section.top, section.left, section.top, section.left])
        sides = np.array([section.height, section.width, section.height, section.width])
        boxes = (self.boxes - corner) / sides
        inside = np.clip(boxes, 0.0, 1.0)
        areas = _compute_areas(boxes)
        areas_inside = _compute_areas(inside)
        enough = areas_inside > LEAST_LEFT * np.maximum(areas, 1e-12)
        boxes_inside = inside[enough].astype(np.float32)
        if section.mirrored:
            top, left, bottom, right = boxes_inside.T
            boxes_inside = np.stack([top, 1 - right, bottom, 1 - left], axis=1)
        return Objects(boxes_inside, self.labels[enough])


def _compute_areas(edges: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    return np.asarray(np.prod(edges[:, 2:] - edges[:, :2], axis=1))


def objects_of(rows: Sequence[tuple[int, float, float, float, float]]) -> Objects:
    """Return objects given as label, top, left, bottom and right in shares of the image."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    return Objects(table[:, 1:].astype(np.float32), table[:, 0].astype(np.int64))


def change_image(
    pixels: Pixels, labels: Labelled, changes: RandomChanges, draw: np.random.Generator
) -> tuple[Pixels, Labelled]:
    """Return a section of an image, uint8 (S, S, 3), and the labels in it.

    It is mirrored half of the time.
    """
    # Evenly in the logarithm: a factor and its inverse are equally likely.
    zoom = math.exp(draw.uniform(-1, 1) * math.log(changes.zoom))
    stretch = math.exp(draw.uniform(-1, 1) * math.log(changes.stretch))
    height = zoom * math.sqrt(stretch)
    width = zoom / math.sqrt(stretch)
    # A section that is larger than the image holds the whole image somewhere.
    top = draw.uniform(min(0.0, 1 - height), max(0.0, 1 - height))
    left = draw.uniform(min(0.0, 1 - width), max(0.0, 1 - width))
    section = ImageSection(top, left, height, width, bool(draw.random() < 0.5))
    cut = section.of(pixels, FILLED, Image.Resampling.BILINEAR)
    contrast = draw.uniform(1 - changes.contrast, 1 + changes.contrast)
    brightness = draw.uniform(-changes.brightness, changes.brightness)
    shift = brightness + draw.uniform(-changes.tint, changes.tint, 3)
    offset = (128.0 + shift).astype(np.float32)
    coloured = (cut.astype(np.float32) - 128.0) * np.float32(contrast) + offset
    return np.clip(np.rint(coloured), 0, 255).astype(np.uint8), labels.within(section)
