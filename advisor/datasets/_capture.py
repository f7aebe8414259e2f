"""Apply capture conditions, as phones cause them, to images:
for a robustness test and for augmentation.

TensorFlow's "Optimizing for mobile" names bad framing, bad light and lens distortion as the main
causes of accuracy problems on phones. Colour cast, motion blur, JPEG and perspective are added
here.

A condition is applied to an image at the size of a model, by ``apply_condition(load(path, size),
...)``. The strength is 0 for none, 1 for everyday, 2 for strong but usable. None needs pixels from
outside the image.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np

from advisor.datasets._capture_conditions import (
    CaptureCondition,
    Pixels,
    bend_lens,
    blur_motion,
    cast_colour,
    compress_as_jpeg,
    crop_off_centre,
    dim_light,
    tilt_view,
)
from advisor.datasets._images import load

CAPTURE_VERSION = 1  # Raised when equal images, conditions, strengths and seeds give other pixels

# The two strengths of the test: an everyday one, and the strongest with a usable image.
STRENGTHS = (1.0, 2.0)
AUGMENTING = (0.5, 2.2)  # Range of the strengths for training images

CONDITIONS: tuple[CaptureCondition, ...] = (
    CaptureCondition("framing", crop_off_centre, moves=True),
    CaptureCondition("low light", dim_light),
    CaptureCondition("colour cast", cast_colour),
    CaptureCondition("motion blur", blur_motion),
    CaptureCondition("JPEG", compress_as_jpeg),
    CaptureCondition("perspective", tilt_view, moves=True),
    CaptureCondition("fisheye", bend_lens, moves=True),
)

CaptureTest = tuple[CaptureCondition, float]

TESTS = tuple(product(CONDITIONS, STRENGTHS))  # The robustness test
# That of objects, whose places are known.
STAYING = tuple(test for test in TESTS if not test[0].moves)


def apply_condition(
    image: Pixels, condition: CaptureCondition, strength: float, seed: int
) -> Pixels:
    """Return an image, uint8 (S, S, 3) in RGB, under a condition; equal seeds give equal pixels.

    The strength is 0 for none; the test takes 1 and 2. Raises ValueError if the array is not a
    square RGB image, or the strength is negative.
    """
    side = image.shape[:1]
    if image.shape != (*side, *side, 3) or image.dtype != np.uint8:
        raise ValueError(f"a square RGB image of uint8 is needed, got {image.dtype} {image.shape}")
    if not strength >= 0:
        raise ValueError(f"a strength of 0 or more is needed, got {strength}")
    # The name of the condition is a part of the seed, so that two conditions draw independently.
    draw = np.random.default_rng([seed & 0xFFFFFFFF, zlib.crc32(condition.name.encode())])
    changed: Pixels = condition.change(image, strength, draw)
    return changed


def draw_captures(path: Path, size: int, tests: Sequence[CaptureTest] = TESTS) -> Iterator[Pixels]:
    """Yield an image under each of some of ``TESTS``.

    Equal files of equal name give equal pixels.
    """
    image = load(path, size)
    for number, (condition, strength) in enumerate(TESTS):
        if (condition, strength) in tests:
            yield apply_condition(image, condition, strength, seed_of(path) + number)


def random_capture(image: Pixels, seed: Sequence[int]) -> Pixels:
    """Return an image under a condition and strength drawn by ``seed``, for augmentation.

    The seed is integers of 0 or more, such as the image's own seed and an epoch;
    the test uses other seeds.
    """
    draw = np.random.default_rng([*seed, CAPTURE_VERSION])
    condition = CONDITIONS[int(draw.integers(len(CONDITIONS)))]
    return apply_condition(
        image, condition, float(draw.uniform(*AUGMENTING)), int(draw.integers(2**31))
    )


def seed_of(path: Path) -> int:
    """Return a seed computed from a file's name."""
    return zlib.crc32(path.name.encode(errors="surrogateescape"))
