"""Augment training images in TensorFlow, a batch at a time: mirror, crop, tilt, recolour and mix them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class Augmentation:
    """Strengths of the random changes to training images.

    Attributes:
        crop: least share of an image's sides that a crop keeps.
        colour: largest change of brightness, contrast and saturation: the factor is between 1 - colour and 1 + colour.
        mixup: concentration of the Beta distribution for mixing pairs of images; 0 for none (Zhang et al., "mixup",
            2018).
        turn: largest tilt in degrees; half of the images are tilted.
    """

    crop: float = 0.7
    colour: float = 0.2
    mixup: float = 0.1
    turn: float = 0.0


def augmented(
    photos: tf.Tensor, targets: tf.Tensor, augmentation: Augmentation, seed: tf.Tensor, side: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Augment a batch.

    Args:
        photos: float32 tensor (N, S, S, 3), RGB 0..255.
        targets: float32 tensor (N, C), one-hot or smoothed.
        augmentation: how strongly.
        seed: int32 tensor (2,); equal seeds give equal changes.
        side: side of the returned images; None for S.

    Returns:
        images (N, side, side, 3) and targets (N, C).
    """
    import tensorflow as tf

    seeds = tf.random.split(seed, 3)
    side = tf.shape(photos)[1] if side is None else side
    photos = _framed(photos, augmentation.crop, augmentation.turn, seeds[0], side)
    photos = _recoloured(photos, augmentation.colour, seeds[1])
    if augmentation.mixup > 0:
        photos, targets = mixed(photos, targets, augmentation.mixup, seeds[2])
    return photos, targets


def _framed(photos: tf.Tensor, least: float, turn: float, seed: tf.Tensor, side: tf.Tensor) -> tf.Tensor:
    """Crop each image at a random place, size and tilt, mirror half of them, and resize to ``side``.

    Pixels beyond the border are mirrored at it.
    """
    import tensorflow as tf

    count, whole = tf.shape(photos)[0], tf.cast(tf.shape(photos)[1], tf.float32)
    drawn = tf.random.stateless_uniform((count, 7), seed)
    shares = least + (1.0 - least) * drawn[:, :2]
    centres = whole * (0.5 * shares + (1.0 - shares) * drawn[:, 2:4])
    scales = whole * shares / tf.cast(side, tf.float32)
    across = tf.where(drawn[:, 4] < 0.5, -scales[:, 0], scales[:, 0])
    angles = tf.where(drawn[:, 5] < 0.5, (2.0 * drawn[:, 6] - 1.0) * turn * math.pi / 180.0, 0.0)
    cosine, sine = tf.cos(angles), tf.sin(angles)
    middle = (tf.cast(side, tf.float32) - 1.0) / 2.0
    rows = (
        (across * cosine, -scales[:, 1] * sine, centres[:, 0] - 0.5),
        (across * sine, scales[:, 1] * cosine, centres[:, 1] - 0.5),
    )
    lines = [(right, down, at - middle * (right + down)) for right, down, at in rows]
    nothing = tf.zeros(count)
    transforms = tf.stack([*lines[0], *lines[1], nothing, nothing], axis=1)
    found = tf.raw_ops.ImageProjectiveTransformV3(
        images=photos, transforms=transforms, output_shape=tf.stack([side, side]), fill_value=0.0,
        interpolation="BILINEAR", fill_mode="REFLECT",
    )  # fmt: skip
    return tf.ensure_shape(found, (None, None, None, 3))


def _recoloured(photos: tf.Tensor, strength: float, seed: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    count = tf.shape(photos)[0]
    factors = 1.0 + strength * tf.random.stateless_uniform((3, count, 1, 1, 1), seed, -1.0, 1.0)
    grey = tf.reduce_mean(photos, axis=3, keepdims=True)
    photos = grey + (photos - grey) * factors[0]
    mean = tf.reduce_mean(photos, axis=(1, 2, 3), keepdims=True)
    photos = (mean + (photos - mean) * factors[1]) * factors[2]
    return tf.clip_by_value(photos, 0.0, 255.0)


def mixed(photos: tf.Tensor, targets: tf.Tensor, concentration: float, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mix each image, or its maps, and its target with those of the reversed batch, with one share for all."""
    import tensorflow as tf

    gammas = tf.random.stateless_gamma((2,), seed, concentration)
    share = gammas[0] / tf.maximum(gammas[0] + gammas[1], 1e-12)
    share = tf.maximum(share, 1.0 - share)
    blend, targets = (share * values + (1.0 - share) * tf.reverse(values, axis=[0]) for values in (photos, targets))
    return blend, targets
