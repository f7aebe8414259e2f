"""Decode an opened image, and turn its pixels into upright RGB with 8 bits.

``_images.py`` (model input), ``_survey.py`` (measures), ``_thumbnails.py`` and ``_tiles.py`` all
use these functions, so that an image looks the same to the model, the checks and the reports. A
change of the pixels that come out changes features and figures: the versions of the stages that
read images are in their cache keys, and must be raised with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from advisor.core import ContentError
from advisor.datasets._image_files import READ_ERRORS, open_image, read_bytes, read_orientation
from advisor.datasets._jpeg_completeness import complete_jpeg

FORMATS_WITH_FRAMES = ("GIF", "PNG", "TIFF", "WEBP")
_PHOTOMETRIC_TAG = 0x0106  # 0: the least value is white
WIDE_MODES = "IF"  # First letters of Pillow's modes for grey values of more than 8 bits
EIGHT_BITS = 255.0
SIXTEEN_BITS = 65_535.0
FLOAT_RANGES = (1.0, EIGHT_BITS, SIXTEEN_BITS)
INTEGER_RANGES = (EIGHT_BITS, 4_095.0, SIXTEEN_BITS)
UPPER_OF_12_BITS = 15  # What is left of 4,095 where a decoder keeps the upper 8 of 16 bits


@contextmanager
def decode_image(source: Path | BytesIO, side: int) -> Iterator[tuple[Image.Image, bool]]:
    """Yield a decoded image, and whether it had to be completed.

    A large JPEG is decoded at a reduced scale of at least ``side`` pixels. One that lacks its end
    marker is completed if all of its pixels are there. Raises one of :data:`READ_ERRORS`.
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
    """Return whether Pillow will keep only the upper 8 bits of colours of 16.

    Its tiles say so until they are decoded, so ask before ``Image.load``.
    """
    if image.mode[0] in WIDE_MODES:
        return False
    return any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def has_frames(image: Image.Image) -> bool:
    """Return whether an image has several pages or frames.

    Other views of a photograph, which phones store in the same file, are none.
    """
    try:
        return image.format in FORMATS_WITH_FRAMES and bool(getattr(image, "is_animated", False))
    except READ_ERRORS:
        return False


def _refuse_colours(image: Image.Image) -> None:
    """Refuse colours that Pillow cannot turn into RGB, and wide values from white to black."""
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


def find_value_range(image: Image.Image) -> float:
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


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """Return a decoded image in RGB with 8 bits.

    Values of more than 8 bits are scaled, and transparent pixels become white. Raises ValueError
    as :func:`find_value_range`.
    """
    if image.mode[0] in WIDE_MODES:  # Pillow's own conversion clips
        values = np.asarray(image).astype(np.float32) * (EIGHT_BITS / find_value_range(image))
        return Image.fromarray(np.rint(values).astype(np.uint8)).convert("RGB")
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def turn_upright(small: Image.Image, original: Image.Image) -> Image.Image:
    """Return a square version of an image, upright as the EXIF data of the original says.

    Turning after the resize gives the same result for a square, and is cheaper.
    """
    kinds = Image.Transpose
    turns = (
        *(None, None, kinds.FLIP_LEFT_RIGHT, kinds.ROTATE_180, kinds.FLIP_TOP_BOTTOM),
        *(kinds.TRANSPOSE, kinds.ROTATE_270, kinds.TRANSVERSE, kinds.ROTATE_90),
    )
    turn = turns[read_orientation(original)]
    return small.transpose(turn) if turn is not None else small
