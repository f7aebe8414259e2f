"""How a picture was taken, in a few numbers: size, brightness, contrast, sharpness, compression; and its thumbnail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.datasets import decode
from advisor.datasets.duplicates import THUMBNAIL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 128
"""Pictures are compared at this size: sharpness in particular means nothing across sizes."""

_BASE_LUMINANCE_SUM = 3688
"""Sum of the luminance table of the JPEG standard (ITU-T T.81, annex K.1), which libjpeg calls quality 50."""


@dataclass(frozen=True)
class Look:
    """What one picture looks like.

    Attributes:
        width: pixels.
        height: pixels.
        brightness: mean luma, 0-255.
        contrast: standard deviation of luma.
        sharpness: variance of the Laplacian of the grey picture at ``SIDE`` pixels over its contrast squared: a blurred
            picture has little, whatever its contrast (Pech-Pacheco et al., 2000).
        jpeg_quality: libjpeg's scale 1-100, estimated from the luminance table; None where the file is no JPEG.
    """

    width: int
    height: int
    brightness: float
    contrast: float
    sharpness: float
    jpeg_quality: int | None


def look(path: Path) -> tuple[Look, NDArray[np.uint8]]:
    """Measure one readable picture; also return its grey thumbnail, uint8 (THUMBNAIL, THUMBNAIL)."""
    import numpy as np
    from PIL import Image

    with decode.open_picture(path) as image:
        width, height = image.size
        quality = _jpeg_quality(getattr(image, "quantization", None))
        image.draft("L", (SIDE, SIDE))
        grey = image.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    values = np.asarray(grey, dtype=np.float32)
    contrast = float(values.std())
    found = Look(
        width=width,
        height=height,
        brightness=float(values.mean()),
        contrast=contrast,
        sharpness=_laplacian_variance(values) / max(contrast, 1.0) ** 2,
        jpeg_quality=quality,
    )
    thumbnail = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return found, np.asarray(thumbnail, dtype=np.uint8)


def looks(
    paths: Sequence[Path], progress: Callable[[int, int], None] | None = None
) -> tuple[tuple[Look, ...], NDArray[np.uint8]]:
    """Measure pictures in parallel threads; return their looks and thumbnails (N, THUMBNAIL, THUMBNAIL)."""
    import numpy as np

    found = []
    thumbnails = np.zeros((len(paths), THUMBNAIL, THUMBNAIL), np.uint8)
    with decode.quiet(), ThreadPoolExecutor() as pool:
        for place, (one, thumbnail) in enumerate(pool.map(look, paths)):
            found.append(one)
            thumbnails[place] = thumbnail
            if progress:
                progress(place + 1, len(paths))
    return tuple(found), thumbnails


def _laplacian_variance(values: NDArray[np.float32]) -> float:
    inner = 4 * values[1:-1, 1:-1] - values[:-2, 1:-1] - values[2:, 1:-1] - values[1:-1, :-2] - values[1:-1, 2:]
    return float(inner.var())


def _jpeg_quality(tables: Any) -> int | None:
    """Invert libjpeg's scaling of the standard table: 50 is the table itself, 100 all ones."""
    if not isinstance(tables, dict) or 0 not in tables:
        return None
    ratio = 100.0 * sum(tables[0]) / _BASE_LUMINANCE_SUM
    quality = (200.0 - ratio) / 2.0 if ratio <= 100.0 else 5000.0 / ratio
    return max(1, min(100, round(quality)))
