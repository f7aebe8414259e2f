"""Apply capture conditions, as phones cause them, to images: for a robustness test and for augmentation.

TensorFlow's "Optimizing for mobile" names bad framing, bad light and lens distortion as the main causes of accuracy
problems on phones. Colour cast, motion blur, JPEG and perspective are added here.

A condition is applied to an image at the model's size: ``apply(load(path, size), condition, strength, seed)``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from advisor.datasets import distortions
from advisor.datasets.images import load

Pixels = NDArray[np.uint8]

VERSION = 1
"""Raised when equal images, conditions, strengths and seeds give other pixels."""


@dataclass(frozen=True)
class Condition:
    """One capture condition.

    Attributes:
        name: its name in reports.
        change: maps uint8 (S, S, 3), strength and generator to uint8 (S, S, 3).
    """

    name: str
    change: Callable[[Pixels, float, Generator], Pixels]


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
"""The two strengths of the test: an everyday one, and the strongest with a usable image."""

AUGMENTING = (0.5, 2.2)
"""Range of the strengths for training images."""

TESTS: tuple[tuple[Condition, float], ...] = tuple((one, strength) for one in CONDITIONS for strength in STRENGTHS)
"""The robustness test: every condition at both strengths."""


def apply(image: Pixels, condition: Condition, strength: float, seed: int) -> Pixels:
    """Return the image under a capture condition.

    Args:
        image: uint8, shape (S, S, 3), RGB; it is not changed.
        condition: one of ``CONDITIONS``.
        strength: 0 for none; the test takes 1 and 2.
        seed: draws place, direction or hue; equal seeds give equal pixels.

    Returns:
        uint8, shape (S, S, 3).

    Raises:
        ValueError: the array is not a square RGB image, or the strength is negative.
    """
    if image.ndim != 3 or image.shape[0] != image.shape[1] or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"a square RGB image of uint8 is needed, got {image.dtype} {image.shape}")
    if not strength >= 0:
        raise ValueError(f"a strength of 0 or more is needed, got {strength}")
    draw = np.random.default_rng([seed & 0xFFFFFFFF, zlib.crc32(condition.name.encode())])
    changed: Pixels = condition.change(image, strength, draw)
    return changed


def captures(path: Path, size: int) -> Iterator[Pixels]:
    """Yield an image under each of ``TESTS``; equal files of equal name give equal pixels."""
    image = load(path, size)
    for number, (condition, strength) in enumerate(TESTS):
        yield apply(image, condition, strength, seed_of(path) + number)


def random_capture(image: Pixels, seed: Sequence[int]) -> Pixels:
    """Return an image under a condition and strength drawn by ``seed``, for augmentation.

    Args:
        image: as in :func:`apply`.
        seed: integers of 0 or more, such as the image's own seed and an epoch; the test uses other seeds.
    """
    draw = np.random.default_rng([*seed, VERSION])
    condition = CONDITIONS[int(draw.integers(len(CONDITIONS)))]
    return apply(image, condition, float(draw.uniform(*AUGMENTING)), int(draw.integers(2**31)))


def seed_of(path: Path) -> int:
    """Return a seed computed from a file's name."""
    return zlib.crc32(path.name.encode(errors="surrogateescape"))
