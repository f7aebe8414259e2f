"""Draw a fault into an image: of a general kind, for sets that have no faulty image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from advisor.measurement.accuracy import Pixels

LARGEST, SMALLEST = 0.05, 0.002  # Shares of the image that a patch covers
THIN = 0.012  # Width of a scratch over the side of the image


def spoiled(pixels: Pixels, seed: int) -> tuple[Pixels, NDArray[np.bool_]]:
    """Return an image, uint8 (S, S, 3), with a patch from another place, a spot or a scratch, and the mask of it.

    Patches from the image itself: C.-L. Li et al., "CutPaste" (2021).
    """
    draw, side = np.random.default_rng(seed), len(pixels)
    shape, kind = Image.new("L", (side, side)), seed % 3
    pen, (x, y) = ImageDraw.Draw(shape), draw.uniform(0.1, 0.9, 2) * side
    radius = side * float(np.sqrt(np.exp(draw.uniform(np.log(SMALLEST), np.log(LARGEST))) / np.pi))
    wide, high = radius * float(np.exp(draw.normal(0, 0.4))), radius
    if kind == 2:
        turns = np.cumsum(draw.normal(0, 0.3, 12)) + draw.uniform(0, 2 * np.pi)
        steps = np.stack([np.cos(turns), np.sin(turns)], axis=1) * side * draw.uniform(0.01, 0.04)
        pen.line(
            [(float(a), float(b)) for a, b in np.cumsum(steps, axis=0) + np.array([x, y])],
            255,
            max(2, round(THIN * side)),
        )
    else:
        (pen.ellipse if kind else pen.rectangle)((x - wide, y - high, x + wide, y + high), 255)
    alpha = np.asarray(shape.filter(ImageFilter.GaussianBlur(0.7)), np.float32)[..., None] / 255
    other = np.roll(pixels, draw.integers(side // 4, side // 2, 2), (0, 1)).astype(np.float32)
    brighter = float(draw.choice((-1, 1)) * draw.uniform(25, 90))
    new = other + draw.normal(0, 20) if kind == 0 else pixels.astype(np.float32) + brighter
    found = pixels + alpha * (new - pixels)
    return np.clip(np.rint(found), 0, 255).astype(np.uint8), alpha[..., 0] > LEAST_ALPHA


LEAST_ALPHA = 0.4  # Share of a fault in a pixel from which on the pixel is of it
