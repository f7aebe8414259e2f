"""Small copies of the user's images inside a page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import StageError
from advisor.datasets.decode import READ_ERRORS, open_image, quiet

if TYPE_CHECKING:
    from PIL.Image import Image

QUALITIES = (72, 40, 20, 5)
"""JPEG qualities. A thumbnail has the first one that makes it small enough."""

BYTES_PER_PIXEL = 0.3
"""Largest size of a thumbnail in bytes, over the square of its longer side. Most photographs need half of it."""


def data_uri(source: Path | BytesIO, side: int) -> str:
    """Return an image as a JPEG inside a ``data:`` address, its longer side ``side`` pixels; empty if it is unreadable.

    The file is decoded and encoded again, so only its pixels reach the page.
    """
    from PIL import Image, ImageOps

    try:
        with quiet(), open_image(source) as image:
            image.draft("RGB", (2 * side, 2 * side))
            small = ImageOps.exif_transpose(image.convert("RGBA" if image.mode in {"P", "LA", "PA"} else "RGB"))
            small.thumbnail((side, side), Image.Resampling.BILINEAR)
            stored = _small_jpeg(small.convert("RGB"), BYTES_PER_PIXEL * side**2)
    except (*READ_ERRORS, StageError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(stored).decode()}"


def _small_jpeg(image: Image, most_bytes: float) -> bytes:
    """Return an image as JPEG, at the lowest quality if none is small enough."""
    for quality in QUALITIES:
        stored = BytesIO()
        image.save(stored, "JPEG", quality=quality)
        if stored.tell() <= most_bytes:
            break
    return stored.getvalue()
