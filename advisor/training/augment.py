"""Training pictures changed at random: mirrored, cropped, recoloured, mixed. TensorFlow, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Augmentation:
    """How far pictures are changed.

    Attributes:
        crop: least share of a picture's sides that a crop keeps.
        colour: brightness, contrast and saturation are scaled by 1 +- this at most.
        mixup: concentration of the Beta distribution that pairs of pictures are mixed by, 0 for none (Zhang et al.,
            "mixup", 2018).
    """

    crop: float = 0.7
    colour: float = 0.2
    mixup: float = 0.1


def augmented(pictures: Any, targets: Any, augmentation: Augmentation, seed: Any, side: Any = None) -> tuple[Any, Any]:
    """Change a batch.

    Args:
        pictures: float32 tensor (N, S, S, 3), RGB 0..255.
        targets: float32 tensor (N, C), one-hot or smoothed.
        augmentation: how far.
        seed: int32 tensor (2,): equal seeds change equally.
        side: side of the pictures returned, S where it is None.

    Returns:
        pictures (N, side, side, 3) and targets (N, C).
    """
    import tensorflow as tf

    seeds = tf.random.split(seed, 3)
    side = tf.shape(pictures)[1] if side is None else side
    pictures = _recoloured(_cropped(pictures, augmentation.crop, seeds[0], side), augmentation.colour, seeds[1])
    if augmentation.mixup > 0:
        pictures, targets = _mixed(pictures, targets, augmentation.mixup, seeds[2])
    return pictures, targets


def _cropped(pictures: Any, least: float, seed: Any, side: Any) -> Any:
    """Cut a rectangle of free place and size from each picture, half of them mirrored, and bring it to ``side``."""
    import tensorflow as tf

    count = tf.shape(pictures)[0]
    drawn = tf.random.stateless_uniform((count, 5), seed)
    sides = least + (1.0 - least) * drawn[:, :2]
    corners = (1.0 - sides) * drawn[:, 2:4]
    ends = corners + sides
    mirrored = drawn[:, 4] < 0.5
    left = tf.where(mirrored, ends[:, 1], corners[:, 1])
    right = tf.where(mirrored, corners[:, 1], ends[:, 1])
    boxes = tf.stack([corners[:, 0], left, ends[:, 0], right], axis=1)
    return tf.image.crop_and_resize(pictures, boxes, tf.range(count), tf.stack([side, side]))


def _recoloured(pictures: Any, strength: float, seed: Any) -> Any:
    import tensorflow as tf

    count = tf.shape(pictures)[0]
    factors = 1.0 + strength * tf.random.stateless_uniform((3, count, 1, 1, 1), seed, -1.0, 1.0)
    grey = tf.reduce_mean(pictures, axis=3, keepdims=True)
    pictures = grey + (pictures - grey) * factors[0]
    mean = tf.reduce_mean(pictures, axis=(1, 2, 3), keepdims=True)
    pictures = (mean + (pictures - mean) * factors[1]) * factors[2]
    return tf.clip_by_value(pictures, 0.0, 255.0)


def _mixed(pictures: Any, targets: Any, concentration: float, seed: Any) -> tuple[Any, Any]:
    """Mix each picture with its mirror place in the batch, all by one share, and the targets alike."""
    import tensorflow as tf

    gammas = tf.random.stateless_gamma((2,), seed, concentration)
    share = gammas[0] / tf.maximum(gammas[0] + gammas[1], 1e-12)
    share = tf.maximum(share, 1.0 - share)
    mixed, targets = (share * values + (1.0 - share) * tf.reverse(values, axis=[0]) for values in (pictures, targets))
    return mixed, targets
