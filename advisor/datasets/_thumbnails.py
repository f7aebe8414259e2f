"""Make small versions of images for pages, in a child process, as the files are not to be trusted.

Reports and the page that tries models show them. Only pixels of a file reach a page.
"""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

from advisor.core import StageError
from advisor.datasets._image_decoding import WIDE_MODES, convert_to_rgb, decode_image
from advisor.datasets._image_files import READ_ERRORS, ignore_warnings, read_bytes
from advisor.datasets._reading import ReaderFailure, read_each

QUALITIES = (72, 40, 20, 5)
"""JPEG qualities. A thumbnail has the first one that makes it small enough."""

BYTES_PER_PIXEL = 0.3
"""Largest size of a thumbnail in bytes, over the square of its longer side.
Most photographs need half of it.
"""


def read_thumbnail(path: Path, side: int, sha256: str = "") -> bytes:
    """Return an image as a JPEG, its longer side ``side`` pixels, made by a child process.

    Empty if the image cannot be read, or has another hash than ``sha256``, if one is given.
    """
    (thumbnail,) = read_each(f"{__name__}:make_thumbnail", [(path, side, sha256)])
    return b"" if isinstance(thumbnail, ReaderFailure) else bytes(thumbnail)


def make_thumbnail(arguments: tuple[Path, int, str]) -> bytes:
    """Make a thumbnail in this process; see :func:`read_thumbnail`.

    The file is decoded and encoded again, so only its pixels reach the page.
    """
    path, side, sha256 = arguments
    try:
        data, _ = read_bytes(path)
        if sha256 and hashlib.sha256(data).hexdigest() != sha256:
            return b""
        return _encode_small_jpeg(data, side)
    except (*READ_ERRORS, StageError):
        return b""


def _encode_small_jpeg(data: bytes, side: int) -> bytes:
    """Return an upright image as a JPEG, in the best quality that is small enough."""
    from PIL import Image, ImageOps

    # Twice the side: a JPEG decoded at its final size has coarse edges.
    with ignore_warnings(), decode_image(BytesIO(data), 2 * side) as (image, _completed):
        if image.mode[0] in WIDE_MODES:
            pixels = convert_to_rgb(image)
            pixels.info = dict(image.info)  # With the orientation
        else:
            mode = "RGBA" if image.mode in {"P", "LA", "PA"} else "RGB"
            pixels = image.convert(mode)
        small = ImageOps.exif_transpose(pixels)
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
        small = small.convert("RGB")
        # Pillow writes a comment of the file into the new one.
        small.info.clear()
        for quality in QUALITIES:
            stored = BytesIO()
            small.save(stored, "JPEG", quality=quality)
            if stored.tell() <= BYTES_PER_PIXEL * side**2:
                break
    return stored.getvalue()
