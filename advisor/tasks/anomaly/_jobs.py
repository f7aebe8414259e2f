"""The job that runs an anomaly detector over images and over copies with drawn faults.

The search calls :func:`mark` in a child process, by module and name. Sets without faulty images
are judged by the copies, so what :func:`spoil_image` draws is a part of each figure: a change
needs a new version of the stage (:func:`.over_images`). ``heats.npz`` is kept in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from advisor.datasets import InputSpec, load
from advisor.measurement import Floats, Pixels, Runner

# Output of a file: how unusual each place is, (1, rows, columns, 1);
# its largest value is the score.
HEAT = "heat"


# Shares of the image that a patch covers.
LARGEST = 0.05


SMALLEST = 0.002


THIN = 0.012  # Width of a scratch over the side of the image


def spoil_image(pixels: Pixels, seed: int) -> Pixels:
    """Return an image, uint8 (S, S, 3), with a patch from another place, a spot or a scratch.

    Patches from the image itself: C.-L. Li et al., "CutPaste" (2021).
    """
    draw = np.random.default_rng(seed)
    side = len(pixels)
    shape = Image.new("L", (side, side))
    # In turn, so that every part of a set has patches, spots and scratches alike.
    kind = seed % 3
    pen = ImageDraw.Draw(shape)
    x, y = draw.uniform(0.1, 0.9, 2) * side
    # Each doubling of the area is as frequent as any other.
    area = np.exp(draw.uniform(np.log(SMALLEST), np.log(LARGEST)))
    radius = side * float(np.sqrt(area / np.pi))
    wide = radius * float(np.exp(draw.normal(0, 0.4)))
    high = radius
    if kind == 2:
        turns = np.cumsum(draw.normal(0, 0.3, 12)) + draw.uniform(0, 2 * np.pi)
        steps = np.stack([np.cos(turns), np.sin(turns)], axis=1) * side * draw.uniform(0.01, 0.04)
        line = np.cumsum(steps, axis=0) + np.array([x, y])
        pen.line(line.reshape(-1).tolist(), 255, max(2, round(THIN * side)))
    else:
        draw_patch = pen.ellipse if kind else pen.rectangle
        draw_patch((x - wide, y - high, x + wide, y + high), 255)
    alpha = np.asarray(shape.filter(ImageFilter.GaussianBlur(0.7)), np.float32)[..., None] / 255
    other = np.roll(pixels, draw.integers(side // 4, side // 2, 2), (0, 1)).astype(np.float32)
    brighter = float(draw.choice((-1, 1)) * draw.uniform(25, 90))
    new = other + draw.normal(0, 20) if kind == 0 else pixels.astype(np.float32) + brighter
    return np.clip(np.rint(pixels + alpha * (new - pixels)), 0, 255).astype(np.uint8)


class Marker(Runner[Floats]):
    """A loaded file with the output ``heat``, (1, rows, columns, 1): how unusual each place is."""

    outputs = (HEAT,)
    kind = "an anomaly detector"


def mark(
    _: bool,
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    _classes: Sequence[str],
) -> None:
    """Run a file over images and over copies with drawn faults, and write the maps.

    The arrays ``own`` and ``drawn`` are float32 (N, rows, columns).
    """
    run = Marker(model, view)
    # The place of the image is the seed, so that all files are judged by the same faults.
    drawn = []
    for place, image in enumerate(images):
        pixels = spoil_image(load(image, view.size), place)
        drawn.append(run.answer_for(view.normalise(pixels)))
    own = list(run.over(images))
    np.savez(path, own=np.stack(own)[..., 0], drawn=np.stack(drawn)[..., 0])
