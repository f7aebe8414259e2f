"""Decode untrusted image files, within limits."""

from __future__ import annotations

import stat
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from advisor.core.errors import StageError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif"})
FOREIGN_SUFFIXES = frozenset(
    {".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".dng", ".cr2", ".nef", ".arw", ".psd"}
)
MAX_FILE_BYTES = 256 * 2**20
MAX_PIXELS = 80_000_000
MIN_SIDE = 8
_ORIENTATION_TAG = 0x0112
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"BM", b"GIF8")
READ_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, OverflowError, MemoryError)


def is_candidate(path: Path) -> bool:
    """Return whether the extension is that of an image, or a file without an extension begins like one."""
    suffix = path.suffix.lower()
    if suffix:
        return suffix in SUFFIXES or suffix in FOREIGN_SUFFIXES
    try:
        with path.open("rb") as file:
            head = file.read(12)
    except OSError:
        return False
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def read_bytes(path: Path) -> tuple[bytes, tuple[int, int]]:
    """Return a file's bytes with its stamp (size in bytes, time of change in ns).

    Raises:
        ValueError: the file has another format, is above the size limit, or is empty.
        OSError: it cannot be read.
    """
    if path.suffix.lower() in FOREIGN_SUFFIXES:
        raise ValueError(f"{path.suffix.lower()} is not supported; convert it to JPEG or PNG")
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError("not a regular file")
    if facts.st_size > MAX_FILE_BYTES:
        size, limit = facts.st_size / 1e6, MAX_FILE_BYTES / 1e6
        raise ValueError(f"the file has {size:.0f} MB, above the limit of {limit:.0f} MB")
    data = path.read_bytes()
    if not data:
        raise ValueError("the file is empty")
    return data, (len(data), facts.st_mtime_ns)


def open_image(source: Path | BytesIO) -> Image.Image:
    """Open an image and read its header; pixels are decoded later.

    Raises:
        ValueError: the image has more than ``MAX_PIXELS`` pixels, or a side below ``MIN_SIDE``.
        OSError: the file is not an image in one of ``FORMATS``.
    """
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


def orientation(image: Image.Image) -> int:
    """Return how an image must be turned to be upright, from its EXIF data: 1 (not at all) to 8."""
    try:
        found = image.getexif().get(_ORIENTATION_TAG, 1)
    except (*READ_ERRORS, TypeError, AttributeError, struct.error):
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Pillow's warnings about metadata and large images; the limits of this module apply instead.

    Enter it in the thread that starts the workers, as the filter applies to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def reason(error: Exception) -> str:
    """Return why an image cannot be used, from the error on reading it (one of :data:`READ_ERRORS`)."""
    if isinstance(error, UnidentifiedImageError):
        return "not a JPEG, PNG, WebP, BMP or GIF image"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"damaged: {error}" if isinstance(error, OSError | SyntaxError) else str(error) or type(error).__name__


def require_unchanged(paths: Sequence[Path], stamps: Sequence[tuple[int, int]]) -> None:
    """Check that files still have the size and time of change of :func:`read_bytes`: a search may take long.

    Raises:
        StageError: some changed or are missing. Results from them must not be cached under the old hashes.
    """
    changed = [path for path, stamp in zip(paths, stamps, strict=True) if _stamp(path) != stamp]
    if changed:
        number = "1 image" if len(changed) == 1 else f"{len(changed)} images"
        raise StageError(
            f"{number} changed or disappeared since the search began, such as '{changed[0]}'",
            "no result was kept; start the search again to read them anew",
        )


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
