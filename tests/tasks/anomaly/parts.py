"""Images of a part: a bright disc on a dark plate; faulty ones have a spot on it."""

from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 64


def part(number: int, spot: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return an image and the mask of its fault; each number is another light, noise and place of the spot."""
    draw = np.random.default_rng([number, spot])
    rows, columns = np.mgrid[:SIDE, :SIDE]
    disc = (rows - 32) ** 2 + (columns - 32) ** 2 < 22**2
    pixels = np.where(disc, 170.0, 60.0)[..., None] * draw.uniform(0.8, 1.2) + draw.normal(0, 6, (SIDE, SIDE, 3))
    y, x = draw.integers(22, 42, 2)
    mask = ((rows - y) ** 2 + (columns - x) ** 2 < 5**2) & spot
    pixels[mask] = 30
    return np.clip(pixels, 0, 255).astype(np.uint8), mask


def parts(root: Path, good: int = 60, faulty: int = 20, masks: bool = True) -> Path:
    """Write a folder of good images and one of spots, with their masks."""
    for name, count in (("good", good), ("spot", faulty)):
        for number in range(count):
            pixels, mask = part(number, name == "spot")
            path = root / name / f"{number:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
            if masks and mask.any():
                truth = root / "ground_truth" / name / f"{number:03}_mask.png"
                truth.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(mask).save(truth)
    return root
