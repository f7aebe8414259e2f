"""Change a training image and move its boxes with it: another section, mirrored, in other colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

LEAST_LEFT = 0.3
"""Share of a box's area that must stay in the section; else the object can hardly be told."""

FILLED = (124, 116, 104)
"""RGB outside the image: the mean of ImageNet's images."""


@dataclass(frozen=True)
class RandomChanges:
    """Strengths of the random changes."""

    zoom: float = 1.65  # largest factor between the sides of the section and those of the image, either way
    stretch: float = 1.35  # largest factor between the height and the width of the section
    contrast: float = 0.2  # largest change of contrast: the factor is between 1 - contrast and 1 + contrast
    brightness: float = 20.0  # largest change of all channels, in steps of 255
    tint: float = 8.0  # largest change of each channel


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects in an image."""

    boxes: Floats  # edges (n, 4) as top, left, bottom and right in shares of the image, float32
    labels: NDArray[np.int64]  # index of the class of each, int64 (n,)


def objects_of(rows: Sequence[tuple[int, float, float, float, float]]) -> Objects:
    """Return objects given as label, top, left, bottom and right in shares of the image."""
    table = np.array(rows, np.float64).reshape(-1, 5)
    return Objects(table[:, 1:].astype(np.float32), table[:, 0].astype(np.int64))


def changed(
    pixels: Pixels, objects: Objects, changes: RandomChanges, draw: np.random.Generator
) -> tuple[Pixels, Objects]:
    """Return a section of an image, uint8 (S, S, 3), mirrored half of the time, and the objects in it. Equal states of
    ``draw`` give equal changes.
    """
    zoom, stretch = (math.exp(draw.uniform(-1, 1) * math.log(most)) for most in (changes.zoom, changes.stretch))
    height, width = zoom * math.sqrt(stretch), zoom / math.sqrt(stretch)
    top, left = (draw.uniform(min(0.0, 1 - side), max(0.0, 1 - side)) for side in (height, width))
    found, kept = _section(pixels, (top, left, height, width)), _moved(objects, (top, left, height, width))
    if draw.random() < 0.5:
        found = found[:, ::-1]
        top_, left_, bottom_, right_ = kept.boxes.T
        kept = Objects(np.stack([top_, 1 - right_, bottom_, 1 - left_], axis=1), kept.labels)
    return _recoloured(found, changes, draw), kept


def _section(pixels: Pixels, section: tuple[float, float, float, float]) -> Pixels:
    side = len(pixels)
    top, left, height, width = section
    matrix = (width, 0.0, left * side, 0.0, height, top * side)
    image = Image.fromarray(pixels)
    small = image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=FILLED)
    return np.asarray(small)


def _moved(objects: Objects, section: tuple[float, float, float, float]) -> Objects:
    """Return the objects in shares of the section, without those of which too little is left."""
    top, left, height, width = section
    corner, sides = np.array([top, left, top, left]), np.array([height, width, height, width])
    boxes = (objects.boxes - corner) / sides
    inside = np.clip(boxes, 0.0, 1.0)
    areas = [np.prod(each[:, 2:] - each[:, :2], axis=1) for each in (inside, boxes)]
    left_over = areas[0] > LEAST_LEFT * np.maximum(areas[1], 1e-12)
    return Objects(inside[left_over].astype(np.float32), objects.labels[left_over])


def _recoloured(pixels: Pixels, changes: RandomChanges, draw: np.random.Generator) -> Pixels:
    contrast = draw.uniform(1 - changes.contrast, 1 + changes.contrast)
    shift = draw.uniform(-changes.brightness, changes.brightness) + draw.uniform(-changes.tint, changes.tint, 3)
    found = (pixels.astype(np.float32) - 128.0) * np.float32(contrast) + (128.0 + shift).astype(np.float32)
    recoloured: Pixels = np.clip(np.rint(found), 0, 255).astype(np.uint8)
    return recoloured
