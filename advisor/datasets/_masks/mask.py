"""Read a mask: from an image file, or from polygons and run lengths of COCO.

A :class:`Mask` is sent to child processes and back, so it has plain values only. Its ``key`` is a
part of the data's fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from advisor.core import ContentError
from advisor.datasets._image_files import ignore_warnings, open_image, read_bytes

Classes = NDArray[np.uint8]
IGNORED_LABEL = 255  # Value of pixels that are neither learnt nor judged


class Mask(NamedTuple):
    """The classes of an image's pixels, in plain values, as they are sent to child processes."""

    sha256: str  # of the file, or of the polygons
    size: tuple[int, int]  # height and width of the upright image
    path: str = ""  # of the file; empty for polygons, and for an image without an object
    # Each value of the file with its class; other values are ignored.
    classes: tuple[tuple[int, int], ...] = ()
    orientation: int = 1  # how the file is turned upright, as in EXIF
    regions: str = ""  # JSON of (class, segmentation of COCO) in the order of drawing

    @property
    def key(self) -> tuple[object, ...]:
        """The hash, the values and the orientation: equal keys mean equal pixels."""
        return self.sha256, self.classes, self.orientation

    def labels(self) -> Classes:
        """Return the class of each pixel of the upright image, uint8 (height, width)."""
        if self.regions:
            return draw_regions(json.loads(self.regions), self.size)
        if not self.path:
            return np.zeros(self.size, np.uint8)
        raw = _turn_upright(read_values(read_bytes(Path(self.path))[0]), self.orientation)
        labels = np.full(raw.shape, IGNORED_LABEL, np.uint8)
        for value, label in self.classes:
            labels[raw == value] = label
        return labels


def read_values(data: bytes) -> NDArray[np.int32]:
    """Return the values of a mask, int32 (height, width); of a coloured one, RGB as a number.

    Raises ValueError if a file of this kind cannot be a mask.
    """
    with ignore_warnings(), open_image(BytesIO(data)) as image:
        if image.format == "JPEG":
            raise ContentError("a JPEG file changes the values of a mask; save it as PNG")
        mode = image.mode
        if mode in ("1", "L", "P") or mode[0] == "I":
            # Of a palette image these are the indices, which are the classes;
            # its colours may be any.
            values = np.asarray(image).astype(np.int32)
            if values.max() > IGNORED_LABEL:
                largest = values.max()
                raise ContentError(
                    f"its values reach {largest}, and {IGNORED_LABEL} is the largest; save it with"
                    " 8 bits"
                )
            return np.asarray(values)
        if mode not in ("RGB", "RGBA", "LA", "PA"):
            raise ContentError(f"its pixels are {mode}; save it as an index or grey PNG")
        red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(np.int32), -1, 0)
    # Some tools save a grey mask in colour, and its values are still the classes.
    grey = bool((red == green).all() and (green == blue).all())
    classes = red
    if not grey:
        classes = (red << 16) + (green << 8) + blue
    return np.asarray(classes, np.int32)


def _turn_upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    if orientation == 1:
        return values
    # As 32-bit integers, because a coloured mask has values of 24 bits.
    # Pillow turns images by their EXIF.
    image = Image.fromarray(values.astype(np.int32))
    image.getexif()[0x0112] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


def draw_regions(regions: Iterable[tuple[int, Any]], size: tuple[int, int]) -> Classes:
    """Return polygons and run lengths of COCO as classes; later ones cover earlier ones."""
    from pycocotools import mask

    pixels = np.zeros(size, np.uint8)
    for label, region in regions:
        # The reader would take memory for what they state.
        if isinstance(region, dict) and region.get("size") != list(size):
            raise ContentError(f"its run lengths are not for {size[1]}x{size[0]} pixels")
        if isinstance(region, list):
            # An object that something covers has several polygons, which are one region.
            encoded = mask.merge(mask.frPyObjects(region, *size))
        else:
            # COCO has run lengths as a list,
            # or compressed as a text that the decoder takes as it is.
            encoded = region
            if isinstance(region["counts"], list):
                encoded = mask.frPyObjects(region, *size)
        pixels[mask.decode(encoded).astype(bool)] = label
    return pixels
