"""Open the image files of users within limits, and say why one cannot be read.

Every image of a data set is opened here: by the survey, by checks and when it becomes model input.
The files are untrusted, so formats, sizes and pixels are limited before a pixel is decoded. The
hash of the bytes that :func:`read_bytes` returns is the image's identity in caches and splits.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError, features

from advisor.core import ContentError, StageError, UsageError, install_extra, utf8
from advisor.datasets._image_names import FOREIGN_SUFFIXES, HEIC_SUFFIXES, SUFFIXES
from advisor.datasets._read_errors import explain_error
from advisor.datasets._sources import Stamp, address_of, read_stamp
from advisor.datasets._sources.base import MAX_IMAGE_BYTES

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MAX_FILE_BYTES = MAX_IMAGE_BYTES
MAX_PIXELS = 80_000_000
# Of a JPEG that is decoded at a reduced scale: phones take photographs of 200 megapixels.
MAX_JPEG_PIXELS = 250_000_000
MIN_SIDE = 8
TRUNCATED = "image file is truncated"
BROKEN = "broken data stream"  # Pillow says so, and we where libjpeg only warns
_ORIENTATION_TAG = 0x0112
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"BM", b"GIF8", b"II*\0", b"MM\0*")
HEAD_BYTES = 512

CONTENTS: tuple[tuple[tuple[bytes, ...], str], ...] = (
    (
        (b"version https://git-lfs",),
        "it is a pointer of Git LFS, and not the image; run 'git lfs pull'",
    ),
    (
        (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<error"),
        "it is a web page, and no image; download it again",
    ),
    ((b"<svg",), "it is SVG, which has no pixels; convert it to JPEG or PNG"),
    ((b'{"', b"{\n", b"[{"), "it is JSON, and no image; download it again"),
    ((b"%pdf",), "it is PDF; write its pages as images"),
    ((b"8bps",), "it is a file of Photoshop; convert it to JPEG or PNG"),
    ((b"\0\0\0\x0cjp  ", b"\xff\x4f\xff\x51"), "it is JPEG 2000; convert it to JPEG or PNG"),
    ((b"\xff\x0a", b"\0\0\0\x0cjxl "), "it is JPEG XL; convert it to JPEG or PNG"),
    (
        (b"ii*\0", b"mm\0*", b"ii+\0", b"mm\0+"),
        "it is TIFF with values or channels that are not read; save it as PNG",
    ),
)
"""First bytes, in small letters, of files that have the extension of an image,
and what is said of them.
"""

READ_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    MemoryError,
    # Pillow takes damaged entries of a TIFF as they are, and computes with texts.
    TypeError,
    AttributeError,
    struct.error,
)
"""Errors of Pillow and of our own checks for a file that cannot be read."""


def may_be_image(path: Path) -> bool:
    """Return whether a file is probably an image, by its extension or, without one, its bytes."""
    suffix = path.suffix.lower()
    if suffix:
        return suffix in SUFFIXES or suffix in FOREIGN_SUFFIXES
    if not path.is_file():  # a pipe would never end
        return False
    try:
        with path.open("rb") as file:
            head = file.read(12)
    except OSError:
        return False
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def read_bytes(path: Path) -> tuple[bytes, Stamp]:
    """Return an image's bytes with the stamp of its file, or of the file that it is in.

    Raises OSError, and ValueError if the file has another format, is above the size limit, is
    empty, or has a name that is no text.
    """
    if utf8(str(path)) != str(path):  # no document of a run could name it
        raise ContentError("its path has a name that is not UTF-8: rename it")
    if path.suffix.lower() in FOREIGN_SUFFIXES:
        raise ContentError(f"{path.suffix.lower()} is not supported; convert it to JPEG or PNG")
    if path.suffix.lower() in HEIC_SUFFIXES and "HEIF" not in list_formats():
        raise ContentError(
            f"{path.suffix.lower()} needs a reader that is not installed: {install_extra('heic')}"
        )
    # Images in a table or an archive have no file of their own:
    # the stamp of the one around them is theirs.
    inside = address_of(path)
    if inside is not None:
        try:
            return inside.read(), inside.stamp
        except UsageError as error:  # the file around it is gone or was written again
            raise ContentError(error.message) from None
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise ContentError("not a regular file")
    if facts.st_size > MAX_FILE_BYTES:
        size = facts.st_size / 1e6
        limit = MAX_FILE_BYTES / 1e6
        raise ContentError(f"the file has {size:.0f} MB, above the limit of {limit:.0f} MB")
    data = path.read_bytes()
    if not data:
        raise ContentError("the file is empty")
    return data, (len(data), facts.st_mtime_ns)


@cache
def list_formats() -> tuple[str, ...]:
    """Return the formats that are read, as Pillow names them.

    HEIF, which iPhones write, is among them if its reader is installed.
    """
    known = (*FORMATS, "AVIF") if features.check("avif") else FORMATS
    if find_spec("pi_heif") is None:
        return known
    from pi_heif import register_heif_opener

    register_heif_opener()
    return (*known, "HEIF")


def open_image(source: Path | BytesIO, reduced: bool = False) -> Image.Image:
    """Open an image and read its header; pixels are decoded later.

    With ``reduced``, a JPEG will be decoded at a reduced scale, so it may have
    ``MAX_JPEG_PIXELS`` pixels.

    Raises ValueError if the image has more than ``MAX_PIXELS`` pixels or a side below
    ``MIN_SIDE``, and OSError if the file is not an image in one of :func:`list_formats`.
    """
    if isinstance(source, Path) and address_of(source) is not None:
        source = BytesIO(read_bytes(source)[0])
    # Opening a pipe would wait for somebody who writes to it.
    if isinstance(source, Path) and source.exists() and not source.is_file():
        raise ContentError("not a regular file")
    # Pillow warns from it on, and refuses twice as many.
    Image.MAX_IMAGE_PIXELS = MAX_JPEG_PIXELS
    try:
        image = Image.open(source, formats=list_formats())
    except UnidentifiedImageError:
        what = name_content(_read_head(source))
        if not what:
            raise
        raise ContentError(what) from None
    except Image.DecompressionBombError as error:
        raise ContentError(
            f"more than {MAX_PIXELS / 1e6:.0f} megapixels (a decompression bomb?)"
        ) from error
    width, height = image.size
    # A progressive JPEG is held in memory at its full size.
    reducible = reduced and image.format == "JPEG" and not image.info.get("progressive")
    limit = MAX_JPEG_PIXELS if reducible else MAX_PIXELS
    if width * height > limit:
        raise ContentError(
            f"{width}x{height} pixels are above the limit of {limit / 1e6:.0f} megapixels"
        )
    if min(width, height) < MIN_SIDE:
        raise ContentError(f"{width}x{height} pixels are too few (at least {MIN_SIDE} a side)")
    return image


def _read_head(source: Path | BytesIO) -> bytes:
    if isinstance(source, BytesIO):
        return source.getvalue()[:HEAD_BYTES]
    with source.open("rb") as file:
        return file.read(HEAD_BYTES)


def name_content(head: bytes) -> str:
    """Return what a file is that is no image, and what to do, by its first bytes.

    Empty if the bytes are not known.
    """
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not head.strip(b"\0"):
        return "it has zeros alone; download it again"
    for begins, what in CONTENTS:
        if text.startswith(begins):
            return what
    return ""


def read_orientation(image: Image.Image) -> int:
    """Return how an image is turned upright, as EXIF numbers it: 1 (it is upright) to 8."""
    try:
        turn = image.getexif().get(_ORIENTATION_TAG, 1)
    except READ_ERRORS:
        return 1
    return turn if isinstance(turn, int) and 1 <= turn <= 8 else 1


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings: about metadata, and about sizes that this module limits.

    Enter it in the thread that starts the workers, as the filter applies to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def describe_read_error(error: Exception) -> str:
    """Return why an image cannot be used, from one of :data:`READ_ERRORS`."""
    if isinstance(error, UnidentifiedImageError):
        return "not a JPEG, PNG, WebP, BMP, GIF, TIFF, PPM, AVIF or HEIC image"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    if isinstance(error, OSError | SyntaxError):
        message = str(error).lower()
        if BROKEN in message:
            return "damaged: a part of its pixels is broken"
        if "truncated" in message:
            return f"damaged: {TRUNCATED}"
        return "damaged: it cannot be decoded"
    return explain_error(error)


def require_unchanged(paths: Sequence[Path], stamps: Sequence[Stamp]) -> None:
    """Refuse images that changed since :func:`read_bytes` returned their stamps.

    Raises StageError if some changed or are missing. A search takes long, and results of changed
    files must not be cached under the old hashes.
    """
    changed = []
    for path, stamp in zip(paths, stamps, strict=True):
        if current_stamp(path) != stamp:
            changed.append(path)
    if changed:
        number = "1 image" if len(changed) == 1 else f"{len(changed)} images"
        raise StageError(
            f"{number} changed or disappeared since the search began, such as '{changed[0]}'",
            "no result was kept; start the search again to read them anew",
        )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of an image's bytes; errors as of :func:`read_bytes`."""
    return hashlib.sha256(read_bytes(path)[0]).hexdigest()


def current_stamp(path: Path) -> Stamp | None:
    """Return the stamp that a file has now, None if it is missing; compare :func:`read_bytes`."""
    try:
        inside = address_of(path)
        return inside.stamp if inside else read_stamp(path)
    except OSError:
        return None
