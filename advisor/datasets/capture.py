"""Capture conditions: what "photos from mobile devices" have that training sets lack, as a test and as augmentation.

Bad framing, bad light and lens distortion are what TensorFlow's "Optimizing for mobile" names as the greatest cause of
accuracy problems on phones; colour cast, motion blur, JPEG and perspective come with them.

A condition is applied to an image as the model takes it: ``apply(load(path, size), condition, strength, seed)``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.datasets import distortions
from advisor.datasets.images import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

VERSION = 1
"""Raised whenever an equal image, condition, strength and seed would give other pixels."""


@dataclass(frozen=True)
class Condition:
    """One capture condition.

    Attributes:
        name: as reports write it.
        change: from uint8 (S, S, 3), strength and generator to uint8 (S, S, 3).
    """

    name: str
    change: Callable[[Any, float, Any], Any]


CONDITIONS: tuple[Condition, ...] = (
    Condition("framing", distortions.framing),
    Condition("low light", distortions.low_light),
    Condition("colour cast", distortions.colour_cast),
    Condition("motion blur", distortions.motion_blur),
    Condition("JPEG", distortions.jpeg),
    Condition("perspective", distortions.perspective),
    Condition("fisheye", distortions.fisheye),
)

STRENGTHS = (1.0, 2.0)
"""The two strengths of the test: what happens daily, and what still counts as an image."""

AUGMENTING = (0.5, 2.2)
"""Range of the strengths that training images are changed by."""

TESTS: tuple[tuple[Condition, float], ...] = tuple((one, strength) for one in CONDITIONS for strength in STRENGTHS)
"""The robustness test: every condition at both strengths."""


def apply(image: Pixels, condition: Condition, strength: float, seed: int) -> Pixels:
    """Return the image as taken under a condition.

    Args:
        image: uint8, shape (S, S, 3), RGB; it is left as it is.
        condition: one of ``CONDITIONS``.
        strength: 0 for none; the test takes 1 and 2.
        seed: draws place, direction or hue; equal seeds give equal pixels.

    Returns:
        uint8, shape (S, S, 3).

    Raises:
        ValueError: the array is no square RGB image, or the strength is negative.
    """
    import numpy as np

    if image.ndim != 3 or image.shape[0] != image.shape[1] or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"a square RGB image of uint8 is needed, got {image.dtype} {image.shape}")
    if not strength >= 0:
        raise ValueError(f"a strength of 0 or more is needed, got {strength}")
    draw = np.random.default_rng([seed & 0xFFFFFFFF, zlib.crc32(condition.name.encode())])
    changed: Pixels = condition.change(image, strength, draw)
    return changed


def captures(path: Path, size: int) -> Iterator[Pixels]:
    """Yield an image under each of ``TESTS`` in turn, read once; equal files of equal name give equal pixels."""
    image = load(path, size)
    for number, (condition, strength) in enumerate(TESTS):
        yield apply(image, condition, strength, seed_of(path) + number)


def random_capture(image: Pixels, seed: Sequence[int]) -> Pixels:
    """Return an image under one condition of strength 0.5 to 2.2, both drawn by ``seed``: for augmentation.

    Args:
        image: as in :func:`apply`.
        seed: integers of 0 or more, such as the image's own seed and an epoch; the test draws from others.
    """
    import numpy as np

    draw = np.random.default_rng([*seed, VERSION])
    condition = CONDITIONS[int(draw.integers(len(CONDITIONS)))]
    return apply(image, condition, float(draw.uniform(*AUGMENTING)), int(draw.integers(2**31)))


def seed_of(path: Path) -> int:
    """Return a seed drawn from a file's name."""
    return zlib.crc32(path.name.encode(errors="surrogateescape"))
