"""Turn images into model input, in the same way for features, calibration and scoring.

The whole image is resized to the model's square without keeping its aspect ratio. It is not cropped, as the subject may
be at the border.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core.errors import StageError
from advisor.datasets import decode

_DRAFT_FACTOR = 2
"""A JPEG is decoded at a reduced scale if it stays at least this many times larger than the model's input."""

KEPT_BYTES = 120_000_000
"""Decoded images that a process keeps for the next file, at most: 797 of 224 pixels a side."""


@dataclass(frozen=True)
class InputSpec:
    """The input that a model takes: its size, and the normalisation of RGB values.

    Attributes:
        size: side of the model's square input in pixels.
        mean: subtracted from RGB 0..255, channel by channel.
        std: divisor of the difference, channel by channel.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def key(self) -> dict[str, object]:
        """Return the part of a cache key. Its form is fixed so that older cache entries stay valid."""
        return {"size": self.size, "preprocessing": {"mean": self.mean, "std": self.std}}

    def read(self, path: Path | str) -> NDArray[np.float32]:
        """Return an image as model input, float32 (size, size, 3); errors as of :func:`load`."""
        return self.normalise(load(path, self.size))

    def normalise(self, pixels: NDArray[np.uint8], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return ``(pixels - mean) / std`` per channel: uint8 (..., 3) RGB to float32 of the same shape.

        Args:
            pixels: RGB values 0..255.
            out: C-contiguous float32 of the pixels' shape to write to and return; reusing it for many images avoids
                most of the cost.
        """
        result = np.empty(pixels.shape, np.float32) if out is None else out
        columns = pixels.shape[-2] if pixels.ndim > 1 else 1  # whole rows at once, as three values at a time are slow
        lines = (*pixels.shape[:-2], 3 * columns)
        inside = result.reshape(lines)
        mean, std = (np.tile(np.asarray(values, np.float32), columns) for values in (self.mean, self.std))
        np.subtract(pixels.reshape(lines), mean, out=inside, dtype=np.float32)
        np.divide(inside, std, out=inside)
        return result


def load(path: Path | str, size: int) -> NDArray[np.uint8]:
    """Decode an image, turn it upright and resize it with Pillow's antialiased bilinear filter.

    Grey, palette, CMYK and 16-bit images become RGB. Transparent pixels become white. The first frame of an animation
    is used.

    Args:
        path: a JPEG, PNG, WebP, BMP or GIF file.
        size: the side of the model's input in pixels.

    Returns:
        uint8, shape (size, size, 3), RGB.

    Raises:
        StageError: the file is missing or cannot be decoded.
    """
    try:
        with decode.open_image(Path(path)) as image:
            image.draft(None, (_DRAFT_FACTOR * size, _DRAFT_FACTOR * size))
            image.load()
            small = _to_rgb(image).resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(_upright(small, image), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise StageError(
            f"the image '{path}' cannot be read: {error}", "did the folder change during the run?"
        ) from error


def decoded(images: Sequence[Path], size: int) -> Iterable[NDArray[np.uint8]]:
    """Return the decoded images; they are kept for the next file if they are few, as forms of one side come in a row.

    Raises:
        StageError: an image is missing or cannot be decoded.
    """
    if len(images) * size * size * 3 > KEPT_BYTES:
        return (load(path, size) for path in images)
    try:
        stamps = tuple((file.st_mtime_ns, file.st_size) for file in map(Path.stat, images))
    except OSError:
        stamps = ()  # reading the image says what is wrong
    return _kept(tuple(images), size, stamps)


@lru_cache(maxsize=1)
def _kept(images: tuple[Path, ...], size: int, _stamps: tuple[tuple[int, int], ...]) -> list[NDArray[np.uint8]]:
    return [load(path, size) for path in images]


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_sixteen_bits(image)
    if image.mode in {"RGBA", "LA", "PA", "RGBa", "La"} or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey to 8 bits; Pillow's own conversion clips."""
    values = np.asarray(image).astype(np.float32) / 257.0
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8)).convert("RGB")


def _upright(small: Image.Image, original: Image.Image) -> Image.Image:
    """Apply the EXIF orientation after the resize: the result is the same for a square, and it is cheaper."""
    turn = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }.get(decode.orientation(original))
    return small.transpose(turn) if turn is not None else small
