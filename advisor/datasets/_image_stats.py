"""Measure one image: light, sharpness and framing, small versions, and how it was taken.

The survey calls :func:`measure_image` for each file, in a child process. Checks compare the
measures with limits, and groups are found by the small versions: other values would group, and so
split, existing data in another way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets._duplicates import THUMBNAIL
from advisor.datasets._image_decoding import (
    EIGHT_BITS,
    WIDE_MODES,
    convert_to_rgb,
    cuts_bits,
    decode_image,
    find_value_range,
    has_frames,
    turn_upright,
)
from advisor.datasets._image_files import READ_ERRORS, open_image, read_orientation
from advisor.datasets._jpeg_completeness import refuse_broken_jpeg

SIDE = 128  # Images are measured at this size, as sharpness depends on it
COLOURS = 8  # Side of the small colour version
LEVELS = 6  # Levels of each channel in the colour histogram
_LEVEL_OF_VALUE = np.arange(256) * LEVELS // 256
# What a value of red, green or blue adds to its place.
_PLACES = np.outer((LEVELS**2, LEVELS, 1), _LEVEL_OF_VALUE)
# Rows at the end of an image of ``SIDE`` pixels that may be filled because pixels are missing.
FLAT_ROWS = 5
FLAT_LEVELS = 2  # Most difference of grey values in them
_COLOUR_SIDE = 64
_EXIF = 0x8769
_ORIGINAL = 0x9003
_DIGITIZED = 0x9004
_MAKE = 0x010F
_MODEL = 0x0110
_TIME = "%Y:%m:%d %H:%M:%S"
# Sum of JPEG's luminance table (ITU-T T.81, annex K.1), which is libjpeg's quality 50.
_BASE_LUMINANCE_SUM = 3688


@dataclass(frozen=True, slots=True)
class ImageStats:
    """The measures of one image."""

    width: int  # pixels
    height: int  # pixels
    brightness: float = 0.0  # mean luma, 0-255
    contrast: float = 0.0  # standard deviation of luma
    # variance of the Laplacian of the grey image at ``SIDE`` pixels over its contrast squared; low
    # for a blurred image of any contrast (Pech-Pacheco et al., 2000)
    sharpness: float = 0.0
    # share (0-1) of the image's edges (squared gradients of luma) in its middle quarter: 0.25 for
    # evenly spread edges, less if the subject is at the border
    framing: float = 0.0
    # libjpeg's scale 1-100, estimated from the luminance table; 0 if the file is not a JPEG.
    jpeg_quality: int = 0


@dataclass(frozen=True, slots=True)
class Shot:
    """When, with what and how an image was taken, from its EXIF data."""

    # Seconds since 1970 by the camera's clock, without its zone; None if not recorded.
    taken_s: float | None = None
    camera: str = ""  # maker and model, empty if they are not recorded
    orientation: int = 1  # how the stored image is turned upright, 1 (it is upright) to 8
    completed: bool = False  # whether the file lacked its end, and all pixels were there
    # Largest value that its pixels can have, see :func:`.find_value_range`.
    largest_value: float = EIGHT_BITS
    # Largest value that they have, of pixels with more than 8 bits.
    highest_value: float = EIGHT_BITS
    # Whether the file has more pages or frames than the first, which is used.
    several: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """All that is measured on one image."""

    stats: ImageStats  # its measures
    thumbnail: NDArray[np.uint8]  # grey, uint8 (THUMBNAIL, THUMBNAIL)
    colours: NDArray[np.uint8]  # small RGB version, uint8 (COLOURS, COLOURS, 3)
    # Roots of the shares of ``LEVELS`` cubed colours, times 255, uint8 (LEVELS ** 3,).
    histogram: NDArray[np.uint8]
    shot: Shot  # when and with what it was taken


def measure_image(data: bytes, with_quality: bool = True) -> Measured:
    """Decode an image completely and measure it; raises one of :data:`._image_files.READ_ERRORS`.

    JPEGs are decoded at the smallest sufficient scale, which still reads every coded block.
    Without ``with_quality``, the measures are 0 but for the size.
    """
    with open_image(BytesIO(data), reduced=True) as image:
        size = image.size
        quality = _estimate_jpeg_quality(getattr(image, "quantization", None))
        is_cut = cuts_bits(image)
        several = has_frames(image)
    with decode_image(BytesIO(data), SIDE) as (image, completed):
        largest = find_value_range(image)
        is_wide = image.mode[0] in WIDE_MODES
        highest = largest
        if is_wide or is_cut:
            highest = float(np.asarray(image).max())
        shown = convert_to_rgb(image) if is_wide else image
        grey = turn_upright(
            shown.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR), image
        )
        colour = shown if shown.mode == "RGB" else shown.convert("RGB")
        small = turn_upright(
            colour.resize((_COLOUR_SIDE, _COLOUR_SIDE), Image.Resampling.BILINEAR), image
        )
        shot = replace(
            _read_shot(image),
            largest_value=largest,
            highest_value=highest,
            completed=completed,
            several=several,
        )
    if quality and not completed:
        # Decoders fill what is missing with one grey:
        # a flat end tells a cut image from a file without its last marker.
        last_rows = np.asarray(grey)[-FLAT_ROWS:]
        refuse_broken_jpeg(
            data, is_flat_below=int(last_rows.max()) - int(last_rows.min()) <= FLAT_LEVELS
        )
    stats = ImageStats(*size)
    thumbnail = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return Measured(
        stats=_measure_quality(stats, grey, quality) if with_quality else stats,
        thumbnail=np.asarray(thumbnail, dtype=np.uint8),
        colours=np.asarray(small.reduce(_COLOUR_SIDE // COLOURS), dtype=np.uint8),
        histogram=_compute_histogram(np.asarray(small)),
        shot=shot,
    )


def _measure_quality(size: ImageStats, grey: Image.Image, jpeg_quality: int) -> ImageStats:
    """Return the measures of an image of a size, by its grey version of ``SIDE`` pixels."""
    values = np.asarray(grey, dtype=np.float32)
    contrast = float(values.std())
    quarter = SIDE // 4
    above = values[:-2, 1:-1]
    below = values[2:, 1:-1]
    left = values[1:-1, :-2]
    right = values[1:-1, 2:]
    laplacian = 4 * values[1:-1, 1:-1] - above - below - left - right
    vertical = values[1:, 1:] - values[:-1, 1:]
    horizontal = values[1:, 1:] - values[1:, :-1]
    energy = vertical**2 + horizontal**2
    edges = float(energy.sum())
    middle = float(energy[quarter:-quarter, quarter:-quarter].sum())
    framing = middle / edges if edges > 0 else 0.25
    return replace(
        size,
        brightness=float(values.mean()),
        contrast=contrast,
        # Divided by the contrast, so that it is low for a blurred image of any contrast.
        sharpness=float(laplacian.var()) / max(contrast, 1.0) ** 2,
        framing=framing,
        jpeg_quality=jpeg_quality,
    )


def _compute_histogram(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    red, green, blue = (_PLACES[channel][pixels[..., channel].ravel()] for channel in range(3))
    counts = np.bincount(red + green + blue, minlength=LEVELS**3)
    # Roots, so that the Euclidean distance of two histograms is Hellinger's.
    return np.asarray(np.rint(255 * np.sqrt(counts / red.size)), np.uint8)


def _read_shot(image: Image.Image) -> Shot:
    """Return when and with what an image was taken, by its EXIF data.

    Damaged data says nothing, and the time of the last change does not count.
    """
    try:
        exif = image.getexif()
        inner = exif.get_ifd(_EXIF)
        # Some cameras fill the fields with zero bytes.
        maker = str(exif.get(_MAKE, "")).strip("\0 ")
        model = str(exif.get(_MODEL, "")).strip("\0 ")
        camera = f"{maker} {model}".strip()
    except READ_ERRORS:
        return Shot(orientation=read_orientation(image))
    written = str(inner.get(_ORIGINAL) or inner.get(_DIGITIZED)).strip("\0 ")
    try:
        taken_s = datetime.strptime(written, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        taken_s = None
    return Shot(taken_s, camera, read_orientation(image))


def _estimate_jpeg_quality(tables: Any) -> int:
    """Return the JPEG quality, 1 to 100, whose scaling of the standard table gives these.

    Quality 50 is the standard table itself. 0 for no tables.
    """
    if not isinstance(tables, dict) or 0 not in tables:
        return 0
    ratio = 100.0 * sum(tables[0]) / _BASE_LUMINANCE_SUM
    # The inverse of libjpeg's rule:
    # above 50 the table shrinks evenly, below it grows as the inverse of the quality.
    quality = (200.0 - ratio) / 2.0 if ratio <= 100.0 else 5000.0 / ratio
    return max(1, min(100, round(quality)))
