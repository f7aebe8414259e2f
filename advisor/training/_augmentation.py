"""Change training images at random: framing, tilt, colours, and mixtures of two.

Fine-tuning and the training of compressed files change the images of a batch in TensorFlow
(:func:`augment_images`); copies whose maps are kept are changed once with Pillow
(:func:`change_pixels`). Equal seeds give equal changes. Trained networks must stay equal bit by
bit: for another order of draws or of operations, raise ``FINETUNE_VERSION`` and the ``version`` of
the recipes that train (``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.training._features import Pixels

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class Augmentation:
    """Strengths of the random changes to training images."""

    crop: float = 0.7  # least share of an image's sides that a crop keeps
    # Largest change of brightness, contrast and saturation: a factor of 1 - colour to 1 + colour.
    colour: float = 0.2
    # Concentration of the Beta distribution for mixing pairs of images; 0 for none (Zhang et al.,
    # "mixup", 2018).
    mixup: float = 0.1
    turn: float = 0.0  # largest tilt in degrees; half of the images are tilted


def augment_images(
    photos: tf.Tensor,
    targets: tf.Tensor,
    augmentation: Augmentation,
    seed: tf.Tensor,
    side: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Augment images (N, S, S, 3), RGB 0..255, and targets (N, C), by a seed (2,).

    ``side`` is that of the returned images; None for S.
    """
    import tensorflow as tf

    seeds = tf.random.split(seed, 3)
    side = tf.shape(photos)[1] if side is None else side
    photos = _frame_images(photos, augmentation.crop, augmentation.turn, seeds[0], side)
    count = tf.shape(photos)[0]
    factors = 1.0 + augmentation.colour * tf.random.stateless_uniform(
        (3, count, 1, 1, 1), seeds[1], -1.0, 1.0
    )
    grey = tf.reduce_mean(photos, axis=3, keepdims=True)
    photos = grey + (photos - grey) * factors[0]
    mean = tf.reduce_mean(photos, axis=(1, 2, 3), keepdims=True)
    # Saturation, contrast, brightness: each factor works on the result of the one before.
    photos = tf.clip_by_value((mean + (photos - mean) * factors[1]) * factors[2], 0.0, 255.0)
    if augmentation.mixup > 0:
        photos, targets = mix_images(photos, targets, augmentation.mixup, seeds[2])
    return photos, targets


def _frame_images(
    photos: tf.Tensor,
    least: float,
    turn: float,
    seed: tf.Tensor,
    side: tf.Tensor,
) -> tf.Tensor:
    """Crop each image at a random place, size and tilt, mirror half of them, and resize.

    Beyond its borders, an image goes on mirrored.
    """
    import tensorflow as tf

    count = tf.shape(photos)[0]
    whole = tf.cast(tf.shape(photos)[1], tf.float32)
    drawn = tf.random.stateless_uniform((count, 7), seed)
    shares = least + (1.0 - least) * drawn[:, :2]
    centres = whole * (0.5 * shares + (1.0 - shares) * drawn[:, 2:4])
    scales = whole * shares / tf.cast(side, tf.float32)
    # A negative scale mirrors.
    across = tf.where(drawn[:, 4] < 0.5, -scales[:, 0], scales[:, 0])
    tilts = (2.0 * drawn[:, 6] - 1.0) * turn * math.pi / 180.0
    angles = tf.where(drawn[:, 5] < 0.5, tilts, 0.0)
    cosine = tf.cos(angles)
    sine = tf.sin(angles)
    middle = (tf.cast(side, tf.float32) - 1.0) / 2.0
    rows = (
        (across * cosine, -scales[:, 1] * sine, centres[:, 0] - 0.5),
        (across * sine, scales[:, 1] * cosine, centres[:, 1] - 0.5),
    )
    lines = []
    for right, down, at in rows:
        lines.append((right, down, at - middle * (right + down)))
    nothing = tf.zeros(count)
    transforms = tf.stack([*lines[0], *lines[1], nothing, nothing], axis=1)
    framed = tf.raw_ops.ImageProjectiveTransformV3(
        images=photos,
        transforms=transforms,
        output_shape=tf.stack([side, side]),
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="REFLECT",
    )
    return tf.ensure_shape(framed, (None, None, None, 3))


def change_pixels(
    photos: Pixels, augmentation: Augmentation, seed: Sequence[int]
) -> NDArray[np.float32]:
    """Augment images uint8 (N, S, S, 3) as :func:`augment_images` does, without mixing.

    It serves maps that are computed once. For one image after the other, Pillow takes an eighth of
    the CPU time of a graph of TensorFlow. The result is float32, 0..255.
    """
    random = np.random.default_rng(list(seed))
    changed = np.empty(photos.shape, np.float32)
    for place, photo in enumerate(photos):
        framed = _reframe_image(photo, augmentation, random)
        changed[place] = _recolour_image(framed, augmentation.colour, random)
    return changed


def _reframe_image(
    photo: Pixels, augmentation: Augmentation, random: np.random.Generator
) -> Pixels:
    """Return a crop of an image at a random place, size and tilt, mirrored half of the time."""

    side = len(photo)
    across, down = augmentation.crop + (1.0 - augmentation.crop) * random.random(2)
    left = (1.0 - across) * random.random()
    top = (1.0 - down) * random.random()
    mirrored, tilted = random.random(2) < 0.5
    angle = 0.0
    if tilted:
        angle = math.radians(random.uniform(-augmentation.turn, augmentation.turn))
    if angle:
        # A tilt of 20 degrees reads a sixth of the side beyond the border.
        margin = side // 4
        margins = ((margin, margin), (margin, margin), (0, 0))
        image = Image.fromarray(np.pad(photo, margins, mode="reflect"))
        cosine = math.cos(angle)
        sine = math.sin(angle)
        middle = margin + side * (left + 0.5 * across), margin + side * (top + 0.5 * down)
        right = (across * cosine, across * sine)
        below = (-down * sine, down * cosine)
        # The corner of the crop lies half a row and half a column before its middle.
        start = []
        for axis in range(2):
            start.append(middle[axis] - 0.5 * side * (right[axis] + below[axis]))
        lines = (right[0], below[0], start[0], right[1], below[1], start[1])
        image = image.transform(
            (side, side), Image.Transform.AFFINE, lines, Image.Resampling.BILINEAR
        )
    else:
        box = side * left, side * top, side * (left + across), side * (top + down)
        image = Image.fromarray(photo).resize((side, side), Image.Resampling.BILINEAR, box)
    pixels = np.asarray(image)
    if mirrored:
        return pixels[:, ::-1]
    return pixels


def _recolour_image(
    photo: Pixels, colour: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """Return an image in another saturation, contrast and brightness, by a product a pixel."""
    saturation, contrast, brightness = 1.0 + colour * random.uniform(-1.0, 1.0, 3)
    to_grey = np.full((3, 3), (1.0 - saturation) / 3.0)
    by_channel = (to_grey + saturation * np.eye(3)) * contrast * brightness
    offset = float(photo.mean()) * (1.0 - contrast) * brightness
    pixels = photo.reshape(-1, 3).astype(np.float32) @ by_channel.astype(np.float32)
    pixels += np.float32(offset)
    np.clip(pixels, 0.0, 255.0, out=pixels)
    changed: NDArray[np.float32] = pixels.reshape(photo.shape)
    return changed


def mix_images(
    photos: tf.Tensor, targets: tf.Tensor, concentration: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mix each image, or its maps, and its target with those of the reversed batch.

    One share holds for the whole batch.
    """
    import tensorflow as tf

    gammas = tf.random.stateless_gamma((2,), seed, concentration)
    share = gammas[0] / tf.maximum(gammas[0] + gammas[1], 1e-12)
    # The larger share stays with the image itself, so that its own target leads.
    share = tf.maximum(share, 1.0 - share)

    def blend(values: tf.Tensor) -> tf.Tensor:
        return share * values + (1.0 - share) * tf.reverse(values, axis=[0])

    return blend(photos), blend(targets)
