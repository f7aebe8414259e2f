"""Measure an image: size, light, sharpness, framing, compression, colours, when it was taken; make its thumbnail."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets import images as decode
from advisor.datasets.look_alikes import THUMBNAIL

SIDE = 128
"""Images are measured at this size, as sharpness depends on it."""

COLOURS = 8
"""Side of the small colour version."""

LEVELS = 6
"""Levels of each channel in the colour histogram."""

_COLOUR_SIDE = 64
_EXIF, _ORIGINAL, _DIGITIZED, _MAKE, _MODEL = 0x8769, 0x9003, 0x9004, 0x010F, 0x0110
_TIME = "%Y:%m:%d %H:%M:%S"
_BASE_LUMINANCE_SUM = 3688
"""Sum of the luminance table of the JPEG standard (ITU-T T.81, annex K.1), which is libjpeg's quality 50."""


@dataclass(frozen=True, slots=True)
class ImageStats:
    """The measures of one image."""

    width: int  # pixels
    height: int  # pixels
    brightness: float  # mean luma, 0-255
    contrast: float  # standard deviation of luma
    # variance of the Laplacian of the grey image at ``SIDE`` pixels over its contrast squared; low for a blurred image
    # of any contrast (Pech-Pacheco et al., 2000)
    sharpness: float
    # share (0-1) of the image's edges (squared gradients of luma) in its middle quarter: 0.25 for evenly spread edges,
    # less if the subject is at the border
    framing: float
    jpeg_quality: int  # libjpeg's scale 1-100, estimated from the luminance table; 0 if the file is not a JPEG


@dataclass(frozen=True, slots=True)
class Shot:
    """When, with what and how an image was taken, from its EXIF data."""

    # seconds since 1970 of the camera's clock, without its time zone; None if it is not recorded
    taken_s: float | None = None
    camera: str = ""  # maker and model, empty if they are not recorded
    orientation: int = 1  # how the stored image is turned upright, 1 (it is upright) to 8


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """All that is measured on one image."""

    stats: ImageStats  # its measures
    thumbnail: NDArray[np.uint8]  # grey, uint8 (THUMBNAIL, THUMBNAIL)
    colours: NDArray[np.uint8]  # small RGB version, uint8 (COLOURS, COLOURS, 3)
    histogram: NDArray[np.uint8]  # roots of the shares of ``LEVELS`` cubed colours, times 255, uint8 (LEVELS ** 3,)
    shot: Shot  # when and with what it was taken


def measure(data: bytes) -> Measured:
    """Decode an image completely and measure it; raises one of :data:`.images.READ_ERRORS`.

    JPEGs are decoded at the smallest sufficient scale, which still reads every coded block.
    """
    with decode.open_image(BytesIO(data)) as image:
        width, height = image.size
        quality = _jpeg_quality(getattr(image, "quantization", None))
        image.draft(None, (SIDE, SIDE))
        image.load()
        grey = _grey(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        small = _rgb(image).resize((_COLOUR_SIDE, _COLOUR_SIDE), Image.Resampling.BILINEAR)
        shot = _shot(image)
    values = np.asarray(grey, dtype=np.float32)
    contrast = float(values.std())
    found = ImageStats(
        width=width,
        height=height,
        brightness=float(values.mean()),
        contrast=contrast,
        sharpness=_laplacian_variance(values) / max(contrast, 1.0) ** 2,
        framing=_edges_in_the_middle(values),
        jpeg_quality=quality,
    )
    thumbnail = grey.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)
    return Measured(
        stats=found,
        thumbnail=np.asarray(thumbnail, dtype=np.uint8),
        colours=np.asarray(small.reduce(_COLOUR_SIDE // COLOURS), dtype=np.uint8),
        histogram=_histogram(np.asarray(small, dtype=np.uint16)),
        shot=shot,
    )


def _grey(image: Image.Image) -> Image.Image:
    """Convert to grey; 16-bit grey is scaled, as Pillow would clip it."""
    return (
        image.convert("F").point(lambda value: value / 257.0).convert("L")
        if image.mode[0] == "I"
        else image.convert("L")
    )


def _rgb(image: Image.Image) -> Image.Image:
    return (_grey(image) if image.mode[0] == "I" else image).convert("RGB")


def _histogram(pixels: NDArray[np.uint16]) -> NDArray[np.uint8]:
    levels = pixels.reshape(-1, 3) * LEVELS // 256
    counts = np.bincount(levels @ np.array([LEVELS**2, LEVELS, 1]), minlength=LEVELS**3)
    roots: NDArray[np.uint8] = np.rint(255 * np.sqrt(counts / len(levels))).astype(np.uint8)
    return roots


def _shot(image: Image.Image) -> Shot:
    """Return what the EXIF data says; damaged data says nothing. The time of the last change says nothing, either."""
    try:
        exif = image.getexif()
        inner = exif.get_ifd(_EXIF)
        camera = " ".join(str(exif.get(tag, "")).strip("\0 ") for tag in (_MAKE, _MODEL)).strip()
    except (*decode.READ_ERRORS, TypeError, AttributeError, struct.error):
        return Shot(orientation=decode.orientation(image))
    taken_s = _seconds(inner.get(_ORIGINAL) or inner.get(_DIGITIZED))
    return Shot(taken_s, camera, decode.orientation(image))


def _seconds(written: object) -> float | None:
    try:
        return datetime.strptime(str(written).strip("\0 "), _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _laplacian_variance(values: NDArray[np.float32]) -> float:
    inner = 4 * values[1:-1, 1:-1] - values[:-2, 1:-1] - values[2:, 1:-1] - values[1:-1, :-2] - values[1:-1, 2:]
    return float(inner.var())


def _edges_in_the_middle(values: NDArray[np.float32]) -> float:
    energy = (values[1:, 1:] - values[:-1, 1:]) ** 2 + (values[1:, 1:] - values[1:, :-1]) ** 2
    quarter = SIDE // 4
    total = float(energy.sum())
    return float(energy[quarter:-quarter, quarter:-quarter].sum()) / total if total > 0 else 0.25


def _jpeg_quality(tables: Any) -> int:
    """Return the quality whose scaling of the standard table gives these tables: 50 is the table itself."""
    if not isinstance(tables, dict) or 0 not in tables:
        return 0
    ratio = 100.0 * sum(tables[0]) / _BASE_LUMINANCE_SUM
    quality = (200.0 - ratio) / 2.0 if ratio <= 100.0 else 5000.0 / ratio
    return max(1, min(100, round(quality)))
