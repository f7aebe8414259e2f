"""Whether a file is a picture that can be read to its last byte; untrusted input, so with limits."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif"})
FOREIGN_SUFFIXES = frozenset(
    {".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".dng", ".cr2", ".nef", ".arw", ".psd"}
)
MAX_FILE_BYTES = 256 * 2**20
MAX_PIXELS = 80_000_000
MIN_SIDE = 8
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"BM", b"GIF8")
_READ_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, OverflowError, MemoryError)


def is_candidate(path: Path) -> bool:
    """True where the name says picture, or a file without an extension begins as one."""
    suffix = path.suffix.lower()
    if suffix:
        return suffix in SUFFIXES or suffix in FOREIGN_SUFFIXES
    try:
        with path.open("rb") as file:
            head = file.read(12)
    except OSError:
        return False
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def inspect(path: Path) -> tuple[str, str]:
    """Hash a file and decode it wholly; return (SHA-256 or empty, reason why it is unusable or empty).

    JPEGs are decoded at an eighth of their size, which still reads every coded block.
    """
    if path.suffix.lower() in FOREIGN_SUFFIXES:
        return "", f"{path.suffix.lower()} is not read; convert it to JPEG or PNG"
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            return "", f"the file has {size / 1e6:.0f} MB, above the limit of {MAX_FILE_BYTES / 1e6:.0f} MB"
        data = path.read_bytes()
    except OSError as error:
        return "", f"cannot be read: {error.strerror or error}"
    if not data:
        return "", "the file is empty"
    return hashlib.sha256(data).hexdigest(), _fault(data)


def open_picture(source: Path | BytesIO) -> Image.Image:
    """Open a picture's header, admitting ``FORMATS`` and ``MAX_PIXELS`` only; pixels are decoded later.

    Raises:
        ValueError: too large, or too small to show anything.
        OSError: not a picture of a known format.
    """
    from PIL import Image

    try:
        image = Image.open(source, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"more than {MAX_PIXELS / 1e6:.0f} megapixels (a decompression bomb?)") from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels are above the limit of {MAX_PIXELS / 1e6:.0f} megapixels")
    if min(width, height) < MIN_SIDE:
        raise ValueError(f"{width}x{height} pixels are too few (at least {MIN_SIDE} a side)")
    return image


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings about odd metadata and large pictures; the limits above stand instead.

    Enter it in the thread that starts the workers: the filter belongs to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def _fault(data: bytes) -> str:
    from PIL import UnidentifiedImageError

    try:
        with open_picture(BytesIO(data)) as image:
            image.draft(None, (1, 1))
            image.load()
    except UnidentifiedImageError:
        return "not a JPEG, PNG, WebP, BMP or GIF picture"
    except _READ_ERRORS as error:
        return f"damaged: {error}" if isinstance(error, OSError | SyntaxError) else str(error) or type(error).__name__
    return ""
