"""Draw how unusual each place of an image is: one colour over the photograph, in reports and apps.

:data:`LEAST` is the threshold of the task. The network is scaled so that a half is the alarm
(``_network.py``), and templates of apps have the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.tasks._judge import encode_png

LEAST = 0.5  # Score from which on an image is an anomaly


HOT = "#e5342c"


def heat_png(heat: NDArray[np.floating[Any]]) -> bytes:
    """Return a map as a PNG of one colour, clear up to half of the least score of an anomaly."""
    image = Image.new("RGB", heat.shape[::-1], HOT)
    opacity = (heat - LEAST / 2) / LEAST * 255
    image.putalpha(Image.fromarray(np.clip(opacity, 0, 255).astype(np.uint8)))
    return encode_png(image)
