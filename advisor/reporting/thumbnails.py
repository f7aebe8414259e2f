"""Small copies of the user's images inside a page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

from advisor.core.errors import StageError
from advisor.datasets.decode import READ_ERRORS, open_image, quiet

QUALITY = 72


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
            stored = BytesIO()
            small.convert("RGB").save(stored, "JPEG", quality=QUALITY)
    except (*READ_ERRORS, StageError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(stored.getvalue()).decode()}"
