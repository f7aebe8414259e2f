"""Draw a mask as a PNG with a colour for each class: for reports, checks and pages.

All of them show a class in one colour (:func:`colours`), and let the photograph show through where
a mask has background or ignored pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets import BACKGROUND, IGNORED_LABEL
from advisor.tasks._judge import PALETTE, encode_png


def colours(classes: Sequence[str]) -> dict[str, str]:
    """Return the colour of each class but the background."""
    shown = [name for name in classes if name != BACKGROUND]
    # More classes than colours: the palette begins again.
    return dict(zip(shown, cycle(PALETTE), strict=False))


def colour_mask(labels: NDArray[Any], classes: Sequence[str]) -> bytes:
    """Return classes as a PNG of an indexed image in which background
    and ignored pixels are transparent.
    """
    by_name = colours(classes)
    palette = np.zeros((256, 3), np.uint8)
    for place, name in enumerate(classes):
        palette[place] = tuple(bytes.fromhex(by_name.get(name, "#000000")[1:]))
    image = Image.fromarray(labels.astype(np.uint8), "P")
    image.putpalette(palette.tobytes())
    opacity = bytearray([255] * 256)
    opacity[IGNORED_LABEL] = 0
    for place, name in enumerate(classes):
        # The photograph below shows through where nothing was found.
        if name == BACKGROUND:
            opacity[place] = 0
    return encode_png(image, transparency=bytes(opacity))
