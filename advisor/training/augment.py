"""Training images changed at random: mirrored, cropped, recoloured, mixed. TensorFlow, a batch at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Augmentation:
    """How far images are changed.

    Attributes:
        crop: least share of an image's sides that a crop keeps.
        colour: brightness, contrast and saturation are scaled by 1 +- this at most.
        turn: half of the images are tilted by up to so many degrees.
        mixup: concentration of the Beta distribution that pairs of images are mixed by, 0 for none (Zhang et al.,
            "mixup", 2018).
    """

    crop: float = 0.7
    colour: float = 0.2
    mixup: float = 0.1
    turn: float = 0.0


def augmented(photos: Any, targets: Any, augmentation: Augmentation, seed: Any, side: Any = None) -> tuple[Any, Any]:
    """Change a batch.

    Args:
        photos: float32 tensor (N, S, S, 3), RGB 0..255.
        targets: float32 tensor (N, C), one-hot or smoothed.
        augmentation: how far.
        seed: int32 tensor (2,): equal seeds change equally.
        side: side of the images returned, S where it is None.

    Returns:
        images (N, side, side, 3) and targets (N, C).
    """
    import tensorflow as tf

    seeds = tf.random.split(seed, 3)
    side = tf.shape(photos)[1] if side is None else side
    photos = _framed(photos, augmentation.crop, augmentation.turn, seeds[0], side)
    photos = _recoloured(photos, augmentation.colour, seeds[1])
    if augmentation.mixup > 0:
        photos, targets = _mixed(photos, targets, augmentation.mixup, seeds[2])
    return photos, targets


def _framed(photos: Any, least: float, turn: float, seed: Any, side: Any) -> Any:
    """Cut a rectangle of free place, size and tilt from each image, half of them mirrored, and bring it to ``side``.

    What a tilted rectangle takes from beyond the border is mirrored at it.
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


def _recoloured(photos: Any, strength: float, seed: Any) -> Any:
    import tensorflow as tf

    count = tf.shape(photos)[0]
    factors = 1.0 + strength * tf.random.stateless_uniform((3, count, 1, 1, 1), seed, -1.0, 1.0)
    grey = tf.reduce_mean(photos, axis=3, keepdims=True)
    photos = grey + (photos - grey) * factors[0]
    mean = tf.reduce_mean(photos, axis=(1, 2, 3), keepdims=True)
    photos = (mean + (photos - mean) * factors[1]) * factors[2]
    return tf.clip_by_value(photos, 0.0, 255.0)


def _mixed(photos: Any, targets: Any, concentration: float, seed: Any) -> tuple[Any, Any]:
    """Mix each image with its mirror place in the batch, all by one share, and the targets alike."""
    import tensorflow as tf

    gammas = tf.random.stateless_gamma((2,), seed, concentration)
    share = gammas[0] / tf.maximum(gammas[0] + gammas[1], 1e-12)
    share = tf.maximum(share, 1.0 - share)
    mixed, targets = (share * values + (1.0 - share) * tf.reverse(values, axis=[0]) for values in (photos, targets))
    return mixed, targets
