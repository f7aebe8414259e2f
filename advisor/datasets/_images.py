"""Turn images into model input, in the same way for features, calibration and scoring.

The whole image is resized to the model's square without keeping its aspect ratio. It is not
cropped, as the subject may be at the border.
"""

import hashlib
import math
import stat
import struct
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError, features

from advisor.core import ContentError, StageError, UsageError, install_extra, utf8
from advisor.datasets._image_names import FOREIGN_SUFFIXES, HEIC_SUFFIXES, SUFFIXES
from advisor.datasets._jpeg_stream import read_stream
from advisor.datasets._read_errors import reason_of
from advisor.datasets._sources import Stamp, address_of, stamp_of
from advisor.datasets._sources.base import MAX_IMAGE_BYTES
from advisor.isolation import usable_cores

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
MAX_FILE_BYTES = MAX_IMAGE_BYTES
MAX_PIXELS = 80_000_000
# Of a JPEG that is decoded at a reduced scale: phones take photographs of 200 megapixels.
MAX_JPEG_PIXELS = 250_000_000
MIN_SIDE = 8
TRUNCATED = "image file is truncated"
BROKEN = "broken data stream"  # Pillow says so, and we where libjpeg only warns
FORMATS_WITH_FRAMES = ("GIF", "PNG", "TIFF", "WEBP")
_ORIENTATION_TAG = 0x0112
_PHOTOMETRIC_TAG = 0x0106  # 0: the least value is white
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"BM", b"GIF8", b"II*\0", b"MM\0*")
END_MARKER = b"\xff\xd9"  # The last two bytes of a JPEG
FOREIGN_BITS = b"\x35\xa9\x5c" * 100  # What no pixel is made of, if all are there
WIDE_MODES = "IF"  # First letters of Pillow's modes for grey values of more than 8 bits
EIGHT_BITS = 255.0
SIXTEEN_BITS = 65_535.0
FLOAT_RANGES = (1.0, EIGHT_BITS, SIXTEEN_BITS)
INTEGER_RANGES = (EIGHT_BITS, 4_095.0, SIXTEEN_BITS)
UPPER_OF_12_BITS = 15  # What is left of 4,095 where a decoder keeps the upper 8 of 16 bits
HEAD_BYTES = 512
ZEROS = 64  # Bytes of zeros in compressed pixels that are looked at
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
    *(
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        IndexError,
        KeyError,
        OverflowError,
        MemoryError,
    ),
    # Pillow takes damaged entries of a TIFF as they are, and computes with texts.
    *(TypeError, AttributeError, struct.error),
)

_SMALLEST_DRAFT = 8  # Pixels of a JPEG for each one at its smallest scale
# A JPEG is decoded at a reduced scale that is at least this many times the input.
_DRAFT_FACTOR = 2
# Decoded images that a process keeps for the next file, at most: 797 of 224 pixels a side.
KEPT_BYTES = 120_000_000


def is_candidate(path: Path) -> bool:
    """Return whether the extension is that of an image,
    or a file without an extension begins like one.
    """
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

    Raises ValueError if the file has another format, is above the size limit, is empty,
    or has a name that is no text, and OSError.
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
    """Return the formats that are read, as Pillow names them:
    what iPhones write, too, if its reader is installed.
    """
    known = (*FORMATS, "AVIF") if features.check("avif") else FORMATS
    if find_spec("pi_heif") is None:
        return known
    from pi_heif import register_heif_opener

    register_heif_opener()
    return (*known, "HEIF")


def open_image(source: Path | BytesIO, reduced: bool = False) -> Image.Image:
    """Open an image and read its header; pixels are decoded later.

    ``reduced``: a JPEG will be decoded at a reduced scale,
    so it may have ``MAX_JPEG_PIXELS`` pixels.

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
        what = name_content(_head_of(source))
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


def _head_of(source: Path | BytesIO) -> bytes:
    if isinstance(source, BytesIO):
        return source.getvalue()[:HEAD_BYTES]
    with source.open("rb") as file:
        return file.read(HEAD_BYTES)


def name_content(head: bytes) -> str:
    """Return what a file with the extension of an image is, and what to do, by its first bytes;
    empty if unknown.
    """
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not head.strip(b"\0"):
        return "it has zeros alone; download it again"
    for begins, what in CONTENTS:
        if text.startswith(begins):
            return what
    return ""


def read_orientation(image: Image.Image) -> int:
    """Return how an image must be turned to be upright, from its EXIF data: 1 (not at all) to
    8.
    """
    try:
        turn = image.getexif().get(_ORIENTATION_TAG, 1)
    except READ_ERRORS:
        return 1
    return turn if isinstance(turn, int) and 1 <= turn <= 8 else 1


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings about metadata and large images;
    the limits of this module apply instead.

    Enter it in the thread that starts the workers, as the filter applies to the whole process.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def describe_read_error(error: Exception) -> str:
    """Return why an image cannot be used,
    from the error on reading it (one of :data:`READ_ERRORS`).
    """
    if isinstance(error, UnidentifiedImageError):
        return "not a JPEG, PNG, WebP, BMP, GIF, TIFF, PPM, AVIF or HEIC image"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    if isinstance(error, OSError | SyntaxError):
        said = str(error).lower()
        if BROKEN in said:
            return "damaged: a part of its pixels is broken"
        return f"damaged: {TRUNCATED}" if "truncated" in said else "damaged: it cannot be decoded"
    return reason_of(error)


def require_unchanged(paths: Sequence[Path], stamps: Sequence[Stamp]) -> None:
    """Check that files still have the stamp of :func:`read_bytes`: a search may take long.

    Raises StageError if some changed or are missing.
    Results from them must not be cached under the old hashes.
    """
    changed = []
    for path, stamp in zip(paths, stamps, strict=True):
        if _stamp(path) != stamp:
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


def _stamp(path: Path) -> Stamp | None:
    try:
        inside = address_of(path)
        return inside.stamp if inside else stamp_of(path)
    except OSError:
        return None


@dataclass(frozen=True)
class InputSpec:
    """The input that a model takes: its size, and the normalisation of RGB values."""

    size: int  # side of the model's square input in pixels
    mean: tuple[float, float, float]  # subtracted from RGB 0..255, channel by channel
    std: tuple[float, float, float]  # divisor of the difference, channel by channel

    @property
    def key(self) -> dict[str, object]:
        """Return the part of a cache key.
        Its form is fixed so that older cache entries stay valid.
        """
        return {"size": self.size, "preprocessing": {"mean": self.mean, "std": self.std}}

    def read(self, path: Path | str) -> NDArray[np.float32]:
        """Return an image as model input, float32 (size, size, 3); errors as of :func:`load`."""
        return self.normalise(load(path, self.size))

    def normalise(
        self, pixels: NDArray[np.uint8], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return ``(pixels - mean) / std`` per channel:
        uint8 (..., 3) RGB to float32 of the same shape.

        Reusing ``out``, a C-contiguous array of that shape,
        for many images avoids most of the cost.
        """
        result = np.empty(pixels.shape, np.float32) if out is None else out
        # Whole rows at once, as three values at a time are slow.
        columns = pixels.shape[-2] if pixels.ndim > 1 else 1
        lines = (*pixels.shape[:-2], 3 * columns)
        inside = result.reshape(lines)
        mean, std = (
            np.tile(np.asarray(values, np.float32), columns) for values in (self.mean, self.std)
        )
        np.subtract(pixels.reshape(lines), mean, out=inside, dtype=np.float32)
        np.divide(inside, std, out=inside)
        return result


@contextmanager
def decode_image(source: Path | BytesIO, side: int) -> Iterator[tuple[Image.Image, bool]]:
    """Open and decode an image, a large JPEG at a reduced scale of at least ``side`` pixels.

    A JPEG that lacks its end marker is completed if all of its pixels are there. Yields the image,
    and whether it was completed; raises one of :data:`READ_ERRORS`.
    """
    with open_image(source, reduced=True) as image:
        is_cut = cuts_bits(image)
        _refuse_colours(image)
        # Decoding at a reduced scale skips most of the work,
        # and its memory does not grow with the photograph.
        image.draft(None, (side, side))
        try:
            image.load()
        except OSError:
            # Only a JPEG can lack its end and still have all of its pixels.
            if image.format != "JPEG":
                raise
        else:
            if is_cut:
                _refuse_dark(image)
            yield image, False
            return
    data = read_bytes(source)[0] if isinstance(source, Path) else source.getvalue()
    with open_image(BytesIO(complete_jpeg(data)), reduced=True) as image:
        image.draft(None, (side, side))
        image.load()
        yield image, True


def cuts_bits(image: Image.Image) -> bool:
    """Return whether Pillow will keep the upper 8 bits of colours of 16:
    its tiles say so until they are decoded.
    """
    if image.mode[0] in WIDE_MODES:
        return False
    return any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def has_frames(image: Image.Image) -> bool:
    """Return whether an image has several pages or frames;
    other views of a photograph, as phones store, are none.
    """
    try:
        return image.format in FORMATS_WITH_FRAMES and bool(getattr(image, "is_animated", False))
    except READ_ERRORS:
        return False


def _refuse_colours(image: Image.Image) -> None:
    """Refuse colours that Pillow cannot turn into RGB,
    and values above 8 bits that count from white to black.
    """
    if image.mode in ("LAB", "HSV"):
        raise ContentError(f"its colours are {image.mode}; save it in RGB")
    is_wide_tiff = image.format == "TIFF" and image.mode[0] in WIDE_MODES
    if is_wide_tiff and image.getexif().get(_PHOTOMETRIC_TAG) == 0:
        raise ContentError(
            "its values count from white to black, in more than 8 bits; save it as PNG"
        )


def _refuse_dark(image: Image.Image) -> None:
    """Refuse colours of 12 bits in 16 that were cut to 8: they are black."""
    if 0 < int(np.asarray(image.convert("RGB")).max()) <= UPPER_OF_12_BITS:
        raise ContentError("it stores 12 bits or fewer in 16; save it with 8 bits")


def complete_jpeg(data: bytes) -> bytes:
    """Return a JPEG with an end marker; OSError "image file is truncated" if pixels are missing.

    A decoder takes what follows the last pixel for nothing. So two different tails give equal
    images if and only if no pixel is missing.
    """
    whole = data.removesuffix(END_MARKER).removesuffix(END_MARKER[:1])
    images = []
    for tail in (b"", FOREIGN_BITS):
        with open_image(BytesIO(whole + tail + END_MARKER), reduced=True) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                image.draft(None, (width // _SMALLEST_DRAFT, height // _SMALLEST_DRAFT))
            try:
                image.load()
            except OSError:  # Pillow says in its own words what it met where pixels should be
                raise OSError(TRUNCATED) from None
            images.append(np.asarray(image))
    if not np.array_equal(images[0], images[1]):
        raise OSError(TRUNCATED)
    return whole + END_MARKER


def refuse_broken_jpeg(data: bytes, is_flat_below: bool) -> None:
    """Refuse a JPEG whose pixels are broken or missing, though a decoder returned an image;
    OSError says which.

    ``is_flat_below``: its lowest rows have one colour,
    as those of a decoder have that found no more pixels.
    """
    stream = read_stream(data)
    if stream.is_broken:
        raise OSError(BROKEN)
    if is_flat_below:
        complete_jpeg(data)
    # A card or a download leaves zeros.
    # An image that is flat may have them too, but its last bytes count.
    has_zeros = (
        not stream.is_progressive and data.find(bytes(ZEROS), stream.begin, stream.end) >= 0
    )
    if has_zeros and not _end_counts(data[: stream.end]):
        raise OSError(BROKEN)


def _end_counts(whole: bytes) -> bool:
    """Return whether other bytes at the end of the compressed pixels give another image."""
    images = []
    for tail in (whole[-ZEROS:], FOREIGN_BITS):
        with open_image(BytesIO(whole[:-ZEROS] + tail + END_MARKER), reduced=True) as image:
            image.load()
            images.append(np.asarray(image))
    return not np.array_equal(images[0], images[1])


def load(path: Path | str, size: int) -> NDArray[np.uint8]:
    """Decode an image, turn it upright and resize it with Pillow's bilinear filter:
    uint8 (size, size, 3), RGB.

    Grey, palette, CMYK, 16-bit and float images become RGB. Transparent pixels become white. The
    first frame of an animation is used. Raises StageError if the file is missing or cannot be
    decoded.
    """
    try:
        with decode_image(Path(path), _DRAFT_FACTOR * size) as (image, _completed):
            small = to_rgb(image).resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(turn_upright(small, image), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise StageError(
            f"the image '{path}' cannot be read: {describe_read_error(error)}",
            "did the folder change during the run?",
        ) from error


def decode_images(images: Sequence[Path], size: int) -> Sequence[NDArray[np.uint8]]:
    """Return the decoded images. Few of them are kept for the next file, as forms of one side come
    in a row; each of many is decoded when it is asked for.
    """
    if len(images) * size * size * 3 > KEPT_BYTES:
        return LazyImages(images, size)
    # A file that is missing has no stamp; reading it says what is wrong.
    stamps = tuple(map(_stamp, images))
    return _keep_decoded(tuple(images), size, stamps)


class LazyImages(Sequence[NDArray[np.uint8]]):
    """Images that are decoded when they are asked for, see :func:`load`."""

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self._paths = paths
        self._size = size

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: Any) -> Any:
        return load(self._paths[place], self._size)


@lru_cache(maxsize=1)
def _keep_decoded(
    images: tuple[Path, ...], size: int, _stamps: tuple[Stamp | None, ...]
) -> list[NDArray[np.uint8]]:
    with ThreadPoolExecutor(usable_cores(for_job=True)) as pool:
        return list(pool.map(lambda path: load(path, size), images))


def value_range(image: Image.Image) -> float:
    """Return the largest value that the pixels of a decoded image can have: 255 for 8 bits.

    Of wider grey values it is the smallest usual range that holds them: floats of 0 to 1, 0 to 255
    or 0 to 65,535, and integers of 8, 12 or 16 bits. Cameras and scanners store 12 bits in 16.

    Raises:
        ValueError: values below zero, above 65,535, or not finite.
    """
    if image.mode[0] not in WIDE_MODES:
        return EIGHT_BITS
    values = np.asarray(image)
    low = values.min()
    high = values.max()
    ranges = FLOAT_RANGES if image.mode[0] == "F" else INTEGER_RANGES
    is_finite = math.isfinite(low) and math.isfinite(high)
    if not is_finite or low < 0 or high > ranges[-1]:
        raise ContentError(
            f"its values go from {low:g} to {high:g}; save it with 8 bits, from 0 to 255"
        )
    return next(largest for largest in ranges if high <= largest)


def to_rgb(image: Image.Image) -> Image.Image:
    """Return a decoded image in RGB with 8 bits:
    wide values are scaled, transparent pixels become white.

    Raises ValueError as :func:`value_range`.
    """
    if image.mode[0] in WIDE_MODES:  # Pillow's own conversion clips
        values = np.asarray(image).astype(np.float32) * (EIGHT_BITS / value_range(image))
        return Image.fromarray(np.rint(values).astype(np.uint8)).convert("RGB")
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def turn_upright(small: Image.Image, original: Image.Image) -> Image.Image:
    """Return a small square version of an image,
    turned upright as the EXIF data of the original says.

    Turning after the resize gives the same result for a square, and is cheaper.
    """
    kinds = Image.Transpose
    turns = (
        *(None, None, kinds.FLIP_LEFT_RIGHT, kinds.ROTATE_180, kinds.FLIP_TOP_BOTTOM),
        *(kinds.TRANSPOSE, kinds.ROTATE_270, kinds.TRANSVERSE, kinds.ROTATE_90),
    )
    turn = turns[read_orientation(original)]
    return small.transpose(turn) if turn is not None else small
