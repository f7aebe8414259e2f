"""Change the pixels of an image as each capture condition of phones does.

``_capture.py`` lists these functions, and draws their strength and their seed. Each takes an
image, uint8 (S, S, 3), a strength (0 none, 1 everyday, 2 strong) and a generator. If one returns
other pixels, raise ``CAPTURE_VERSION``: it is in the keys of cached figures.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]

GAMMA = 2.2

_MESH = 14  # Tiles a side that approximate the lens: the error is below half a pixel at 224 pixels


@dataclass(frozen=True)
class CaptureCondition:
    """One capture condition."""

    name: str  # its name in reports
    # Of uint8 (S, S, 3) with strength and generator.
    change: Callable[[Pixels, float, Generator], Pixels]
    moves: bool = False  # what is in the image gets another place


def crop_off_centre(photo: Pixels, strength: float, draw: Generator) -> Pixels:
    """Crop a window of 1/(1 + strength / 3) of the sides at the border of the image."""
    side = len(photo)
    window = side / (1 + strength / 3)
    towards = draw.uniform(-1, 1, 2)
    # The longer of the two ways reaches the border, so the window is always off centre.
    place = (1 + towards / max(abs(towards))) / 2 * (side - window)
    left, top = map(float, place)
    image = Image.fromarray(photo)
    box = (left, top, left + window, top + window)
    return np.asarray(image.resize(image.size, Image.Resampling.BILINEAR, box=box))


def dim_light(photo: Pixels, strength: float, draw: Generator) -> Pixels:
    """Reduce the light to 0.35^strength, and add photon noise.

    The variance of this noise is the number of photons.
    """
    # In linear light, where half as many photons are half the value;
    # the table spares a power for each pixel.
    table = (np.arange(256, dtype=np.float32) / 255) ** GAMMA * np.float32(0.35**strength)
    light = table[photo]
    grain = draw.standard_normal(light.shape, dtype=np.float32)
    variance = light * np.float32(0.002 * strength) + np.float32(1e-6 * strength)
    light += grain * np.sqrt(variance)
    return _round_pixels(np.maximum(light, 0) ** np.float32(1 / GAMMA) * 255)


def cast_colour(photo: Pixels, strength: float, draw: Generator) -> Pixels:
    """Apply a wrong white balance: gains of red, green and blue with a fixed mean."""
    angle = draw.uniform(0, 2 * math.pi)
    warm = math.cos(angle)
    green = 0.5 * math.sin(angle)
    # The three exponents add up to 0, so the image gets no lighter.
    exponents = np.array([warm - green / 2, green, -warm - green / 2])
    gains = np.exp(0.2 * strength * exponents)
    return _round_pixels(photo * gains.astype(np.float32))


def blur_motion(photo: Pixels, strength: float, draw: Generator) -> Pixels:
    """Blur along a straight line with a length of 4 % of the side times the strength."""
    side = len(photo)
    length = 0.04 * strength * side
    angle = draw.uniform(0, math.pi)
    steps = max(1, round(length))
    ways = (np.arange(steps + 1) / steps - 0.5) * length
    margin = math.ceil(length / 2)
    # The pixels at the edge are repeated: what is outside of the image is not known.
    padded = np.pad(photo, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    total = np.zeros(photo.shape, np.uint16)
    for way in ways:
        down = margin + round(way * math.sin(angle))
        right = margin + round(way * math.cos(angle))
        total += padded[down : down + side, right : right + side]
    return _round_pixels(total / np.float32(len(ways)))


def compress_as_jpeg(photo: Pixels, strength: float, draw: Generator) -> Pixels:  # noqa: ARG001 - one signature for all
    """Compress like messenger apps: JPEG of quality 100 * 0.3^strength, with half the colours.

    The quality is 30 at a strength of 1 and 9 at 2; the colour resolution is halved.
    """
    if strength <= 0:
        return photo
    file = BytesIO()
    quality = max(1, round(100 * 0.3**strength))
    Image.fromarray(photo).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def tilt_view(photo: Pixels, strength: float, draw: Generator) -> Pixels:
    """Change the perspective: each corner moves inwards.

    It moves by up to 13 % of the side times the strength.
    """
    side = float(len(photo))
    insets = draw.uniform(0, 0.13 * strength, (4, 2)) * side
    # From top left, counter-clockwise.
    corners = ((0.0, 0.0), (0.0, side), (side, side), (side, 0.0))
    rows = []
    quad = []
    for (u, v), (across, down) in zip(corners, insets.tolist(), strict=True):
        x = u - across if u else across
        y = v - down if v else down
        # Two equations for the eight numbers of Pillow's transform, which maps each target point
        # to its source: x = (a u + b v + c) / (g u + h v + 1), and y = (d u + e v + f) / (g u + h
        # v + 1).
        rows.append([u, v, 1, 0, 0, 0, -x * u, -x * v])
        rows.append([0, 0, 0, u, v, 1, -y * u, -y * v])
        quad += [x, y]
    coefficients = np.linalg.solve(np.array(rows), np.array(quad))
    return _transform_photo(photo, "PERSPECTIVE", coefficients.tolist())


def bend_lens(photo: Pixels, strength: float, draw: Generator) -> Pixels:  # noqa: ARG001 - one signature for all
    """Apply a wide-angle lens: the radius r becomes r + strength / 4 * r^3; the corners stay."""
    return _transform_photo(photo, "MESH", _make_lens_mesh(len(photo), float(strength) / 4))


@lru_cache(maxsize=16)
def _make_lens_mesh(
    side: int, curve: float
) -> list[tuple[tuple[int, int, int, int], tuple[float, ...]]]:
    """Return target boxes with their source corners, for Pillow's mesh transform."""
    cells = min(_MESH, side)  # a cell has at least one pixel
    edges = []
    for place in range(cells + 1):
        edges.append(round(side * place / cells))
    # From -1 to 1, so that the middle of the image is 0
    # and its corners have a squared radius of 2.
    axis_places = 2 * np.array(edges) / side - 1
    x, y = np.meshgrid(axis_places, axis_places)
    growth = 1 + curve * (x * x + y * y)
    scale = growth / (1 + 2 * curve)
    across = (x * scale + 1) * side / 2
    down = (y * scale + 1) * side / 2
    mesh = []
    for row, column in product(range(cells), range(cells)):
        box = edges[column], edges[row], edges[column + 1], edges[row + 1]
        # Pillow's order of the corners: upper left, lower left, lower right, upper right.
        quad = []
        for lower, right in ((0, 0), (1, 0), (1, 1), (0, 1)):
            quad += [float(axis[row + lower, column + right]) for axis in (across, down)]
        mesh.append((box, tuple(quad)))
    return mesh


def _transform_photo(photo: Pixels, method: str, data: Sequence[object]) -> Pixels:
    image = Image.fromarray(photo)
    return np.asarray(
        image.transform(image.size, Image.Transform[method], data, Image.Resampling.BILINEAR)
    )


def _round_pixels(values: NDArray[np.number]) -> Pixels:
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)
