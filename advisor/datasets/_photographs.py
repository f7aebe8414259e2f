"""Make crops of the everyday photographs that are installed with scikit-image.

Calibration and exports use them where the user gives no images. Other crops calibrate other files:
they need a new ``PHOTOGRAPHS_VERSION`` in ``_calibration.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
"""The everyday colour photographs inside scikit-image's wheel;
its other images are downloaded on first use.

Its images from a telescope, a microscope and an eye clinic are not used. Calibrated with them,
int8 EfficientNet-Lite0 agrees with float on 77 % of everyday crops, without them on 89 %; int8
MobileNetV2 on 80 % and 88 %.
"""

CROPS_A_PHOTOGRAPH = 17


def photograph_crops(size: int, seed: int = 0) -> list[Callable[[], NDArray[np.uint8]]]:
    """Return functions that make random crops of photographs, uint8 (size, size, 3)."""
    from PIL import Image

    def resize_crop(
        photograph: Image.Image, box: tuple[float, float, float, float]
    ) -> NDArray[np.uint8]:
        return np.asarray(photograph.resize((size, size), Image.Resampling.BILINEAR, box=box))

    draw = random.Random(seed)
    crops = list[Callable[[], NDArray[np.uint8]]]()
    # Importing the package would be slow.
    folder = Path(str(distribution("scikit-image").locate_file("skimage/data")))
    for name in PHOTOGRAPHS:
        photograph = Image.open(folder / name).convert("RGB")
        width, height = photograph.size
        for _ in range(CROPS_A_PHOTOGRAPH):
            side = draw.uniform(0.5, 1.0) * min(width, height)
            left = draw.uniform(0, width - side)
            top = draw.uniform(0, height - side)
            crops.append(partial(resize_crop, photograph, (left, top, left + side, top + side)))
    return crops
