"""Measure an image: size, brightness, contrast, sharpness, framing, compression; and make its thumbnail."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets import decode
from advisor.datasets.duplicates import THUMBNAIL

SIDE = 128
"""Images are measured at this size, as sharpness depends on it."""

_BASE_LUMINANCE_SUM = 3688
"""Sum of the luminance table of the JPEG standard (ITU-T T.81, annex K.1), which is libjpeg's quality 50."""


@dataclass(frozen=True, slots=True)
class ImageStats:
    """The measures of one image.

    Attributes:
        width: pixels.
        height: pixels.
        brightness: mean luma, 0-255.
        contrast: standard deviation of luma.
        sharpness: variance of the Laplacian of the grey image at ``SIDE`` pixels over its contrast squared; low for a
            blurred image of any contrast (Pech-Pacheco et al., 2000).
        framing: share (0-1) of the image's edges (squared gradients of luma) in its middle quarter: 0.25 for evenly
            spread edges, less if the subject is at the border.
        jpeg_quality: libjpeg's scale 1-100, estimated from the luminance table; 0 if the file is not a JPEG.
    """

    width: int
    height: int
    brightness: float
    contrast: float
    sharpness: float
    framing: float
    jpeg_quality: int


def measure(data: bytes) -> tuple[ImageStats, NDArray[np.uint8]]:
    """Decode an image completely; return its measures and its grey thumbnail, uint8 (THUMBNAIL, THUMBNAIL).

    JPEGs are decoded at the smallest sufficient scale, which still reads every coded block.

    Raises:
        one of :data:`advisor.datasets.decode.READ_ERRORS`: not an image, damaged, too large or too small.
    """
    with decode.open_image(BytesIO(data)) as image:
        width, height = image.size
        quality = _jpeg_quality(getattr(image, "quantization", None))
        image.draft(None, (SIDE, SIDE))
        image.load()
        grey = _grey(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    values = np.asarray(grey, dtype=np.float32)
    contrast = float(values.std())
    found = ImageStats(
        width=width,
        height=height,
        brightness=float(values.mean()),
        contrast=contrast,
        sharpness=_laplacian_variance(values) / max(contrast, 1.0) ** 2,
        framing=_edges_in_the_middle(values),
        jpeg_quality=quality,
    )
    thumbnail = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return found, np.asarray(thumbnail, dtype=np.uint8)


def _grey(image: Image.Image) -> Image.Image:
    """Convert to grey; 16-bit grey is scaled, as Pillow would clip it."""
    return (
        image.convert("F").point(lambda value: value / 257.0).convert("L")
        if image.mode[0] == "I"
        else image.convert("L")
    )


def _laplacian_variance(values: NDArray[np.float32]) -> float:
    inner = 4 * values[1:-1, 1:-1] - values[:-2, 1:-1] - values[2:, 1:-1] - values[1:-1, :-2] - values[1:-1, 2:]
    return float(inner.var())


def _edges_in_the_middle(values: NDArray[np.float32]) -> float:
    energy = (values[1:, 1:] - values[:-1, 1:]) ** 2 + (values[1:, 1:] - values[1:, :-1]) ** 2
    quarter = SIDE // 4
    total = float(energy.sum())
    return float(energy[quarter:-quarter, quarter:-quarter].sum()) / total if total > 0 else 0.25


def _jpeg_quality(tables: Any) -> int:
    """Return the quality whose scaling of the standard table gives these tables: 50 is the table itself."""
    if not isinstance(tables, dict) or 0 not in tables:
        return 0
    ratio = 100.0 * sum(tables[0]) / _BASE_LUMINANCE_SUM
    quality = (200.0 - ratio) / 2.0 if ratio <= 100.0 else 5000.0 / ratio
    return max(1, min(100, round(quality)))
