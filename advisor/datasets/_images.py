"""Turn images into model input, in the same way for training, calibration and scoring.

The whole image is resized to the model's square without keeping its aspect ratio. It is not
cropped, as the subject may be at the border. The browser page repeats these steps (``pixels.js``):
a change here must be made there, too. :attr:`InputSpec.key` is a part of cache keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.core import StageError
from advisor.datasets._image_decoding import convert_to_rgb, decode_image, turn_upright
from advisor.datasets._image_files import (
    current_stamp,
    describe_read_error,
    ignore_warnings,
    may_be_image,
)
from advisor.datasets._photographs import photograph_crops
from advisor.datasets._sources import Stamp
from advisor.isolation import usable_cores
from advisor.store import files_below

# A JPEG is decoded at a reduced scale that is at least this many times the input.
_DRAFT_FACTOR = 2
# Decoded images that a process keeps for the next file, at most: 797 of 224 pixels a side.
KEPT_BYTES = 120_000_000


@dataclass(frozen=True)
class InputSpec:
    """The input that a model takes: its size, and the normalisation of RGB values."""

    size: int  # side of the model's square input in pixels
    mean: tuple[float, float, float]  # subtracted from RGB 0..255, channel by channel
    std: tuple[float, float, float]  # divisor of the difference, channel by channel

    @property
    def key(self) -> dict[str, object]:
        """Return the part of a cache key; its form is fixed so that cached results stay valid."""
        return {"size": self.size, "preprocessing": {"mean": self.mean, "std": self.std}}

    def read(self, path: Path | str) -> NDArray[np.float32]:
        """Return an image as model input, float32 (size, size, 3); errors as of :func:`load`."""
        return self.normalise(load(path, self.size))

    def normalise(
        self, pixels: NDArray[np.uint8], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return ``(pixels - mean) / std`` per channel, float32 of the shape of ``pixels``.

        ``pixels`` are RGB, uint8 (..., 3). Passing the same ``out``, a C-contiguous array of that
        shape, for many images avoids most of the cost.
        """
        result = np.empty(pixels.shape, np.float32) if out is None else out
        # Whole rows at once, as three values at a time are slow.
        columns = pixels.shape[-2] if pixels.ndim > 1 else 1
        lines = (*pixels.shape[:-2], 3 * columns)
        inside = result.reshape(lines)
        mean = np.tile(np.asarray(self.mean, np.float32), columns)
        std = np.tile(np.asarray(self.std, np.float32), columns)
        np.subtract(pixels.reshape(lines), mean, out=inside, dtype=np.float32)
        np.divide(inside, std, out=inside)
        return result

    def read_all(self, paths: Sequence[Path]) -> NDArray[np.float32]:
        """Return images by their files, float32 (n, size, size, 3)."""
        return np.stack(list(map(self.read, paths)))

    def draw_photographs(self, seed: int = 0) -> NDArray[np.float32]:
        """Return random crops of the photographs in scikit-image, float32 (n, size, size, 3)."""
        return np.stack([self.normalise(crop()) for crop in photograph_crops(self.size, seed)])


def load(path: Path | str, size: int) -> NDArray[np.uint8]:
    """Return an image upright, resized with Pillow's bilinear filter, RGB uint8 (size, size, 3).

    Grey, palette, CMYK, 16-bit and float images become RGB. Transparent pixels become white. The
    first frame of an animation is used. Raises StageError if the file is missing or cannot be
    decoded.
    """
    try:
        with decode_image(Path(path), _DRAFT_FACTOR * size) as (image, _completed):
            small = convert_to_rgb(image).resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(turn_upright(small, image), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise StageError(
            f"the image '{path}' cannot be read: {describe_read_error(error)}",
            "did the folder change during the run?",
        ) from error


def decode_images(images: Sequence[Path], size: int) -> Sequence[NDArray[np.uint8]]:
    """Return the images, RGB uint8 (size, size, 3) each.

    Few images are kept decoded for the next call, as the files of one input size are scored one
    after the other. Of many, each is decoded when it is asked for.
    """
    if len(images) * size * size * 3 > KEPT_BYTES:
        return LazyImages(images, size)
    # A file that is missing has no stamp; reading it says what is wrong.
    stamps = tuple(map(current_stamp, images))
    return _keep_decoded(tuple(images), size, stamps)


class LazyImages(Sequence[NDArray[np.uint8]]):
    """A sequence whose images are decoded when they are asked for, see :func:`load`."""

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


def try_images(folder: Path, side: int) -> dict[Path, str]:
    """Return the images below a folder, sorted, each with why it cannot be used; empty if it can.

    Each is decoded as a square with ``side`` pixels a side.
    """
    errors = {}
    with ignore_warnings():
        for file in filter(may_be_image, files_below(folder)):
            errors[file] = _find_decoding_error(file, side)
    return errors


def _find_decoding_error(file: Path, side: int) -> str:
    try:
        load(file, side)
    except StageError as error:
        return error.message
    return ""
