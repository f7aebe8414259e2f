"""Make the decoder of a segmenter, with its loss and the masks that it learns.

``Segmentation.head`` gives :func:`pixel_decoder` to the training, which puts it on the maps of a
backbone. A change of what is learnt needs a new ``Segmentation.version``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from advisor.datasets import IGNORED_LABEL
from advisor.training._on_maps import add_last, build_pyramid, convolve_separably
from advisor.training._on_maps.changes import ImageSection
from advisor.training._on_maps.fit import MakeHead, TrainableHead

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Classes = NDArray[np.uint8]
WIDTH = 96  # Channels of the decoder's maps
ADJUSTMENT = 0.75
"""Factor of the logarithm of a class's frequency. On the validation parts of two splits of
magnetic tiles, the mean IoU is 44.3 and 30.5 % without it, 45.5 and 44.4 % with 0.5, and 45.5 and
44.9 % with 1 (MobileNetV2, frozen).
"""


@dataclass(frozen=True, eq=False)
class PackedMask:
    """The classes of an image's pixels, packed: thousands of masks are in memory at once."""

    packed: bytes

    @classmethod
    def of(cls, labels: Classes) -> PackedMask:
        """Return classes, uint8 (S, S), packed."""
        return cls(zlib.compress(np.ascontiguousarray(labels).tobytes(), 1))

    @property
    def labels(self) -> Classes:
        """The classes, uint8 (S, S)."""
        flat = np.frombuffer(zlib.decompress(self.packed), np.uint8)
        return flat.reshape(math.isqrt(len(flat)), -1)

    def within(self, section: ImageSection) -> PackedMask:
        """Return the classes of a section; those outside the image are ignored."""
        return PackedMask.of(section.of(self.labels, IGNORED_LABEL, Image.Resampling.NEAREST))


def pixel_decoder(side: int, output: str) -> MakeHead:
    """Return the function that makes the head for an input of ``side`` pixels, with its loss and
    its targets.

    ``output`` is the name of the file's output: a probability of each class for each pixel,
    (1, S, S, C). Of a decoder on a pyramid of maps, the finest map has a logit of each class for
    each place. They are resized to the side of the input.

    The loss is cross entropy and one minus the soft Dice coefficient, the mean over the classes in
    the batch (F. Milletari et al., "V-Net", 2016). Logits of the cross entropy are adjusted by the
    frequency of the classes (A. K. Menon et al., "Long-Tail Learning via Logit Adjustment", 2021),
    without which rare classes are never found.
    """

    def make(shapes: Sequence[tuple[int, int, int]], classes: int) -> TrainableHead:
        import keras

        inputs = list(map(keras.Input, shapes))
        finest = build_pyramid(inputs, WIDTH)[0]
        decoded = convolve_separably(convolve_separably(finest))
        model = keras.Model(inputs, add_last(decoded, classes), name="head")
        # Logarithm of the share of the pixels of each class.
        frequent = np.zeros(classes, np.float32)

        def begin(masks: Sequence[PackedMask]) -> None:
            rows = []
            for mask in masks:
                cells = np.bincount(mask.labels.reshape(-1), minlength=IGNORED_LABEL + 1)
                rows.append(cells[:classes])
            # 1 is added, because a class may be in no mask of the training part,
            # and the logarithm of 0 is infinite.
            counts = np.sum(rows, axis=0) + 1
            # In place: the loss reads this array.
            frequent[:] = np.log(counts / counts.sum())

        def loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
            return _loss(outputs[0], targets[0], ADJUSTMENT * frequent)

        def outputs(logits: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
            resized = keras.layers.Resizing(side, side, interpolation="bilinear", name=output)
            return {output: resized(keras.layers.Softmax()(logits[0]))}  # cheaper on the small map

        return TrainableHead(model, loss, lambda masked: (masked.labels,), outputs, begin=begin)

    return make


def _loss(logits: tf.Tensor, labels: tf.Tensor, adjustment: NDArray[np.float32]) -> tf.Tensor:
    """Return the loss of logits, (N, s, s, C), for classes of pixels, uint8 (N, S, S).

    Each class is a plane of its own.
    With the classes as the last axis, loss and gradients take 2.5 times as long.
    """
    import tensorflow as tf

    counts = tf.cast(labels != IGNORED_LABEL, tf.float32)
    planes = _split_planes(logits, labels.shape[-1])
    targets = []
    for number in range(len(planes)):
        targets.append(tf.cast(labels == number, tf.float32))
    odds = list(map(tf.exp, planes))
    adjusted_odds = []
    right = []
    for plane, ratio, target, more in zip(planes, odds, targets, adjustment, strict=True):
        adjusted_odds.append(ratio * math.exp(more))
        right.append((plane + more) * target)
    log_sum = tf.math.log(tf.add_n(adjusted_odds))
    crossed = tf.reduce_sum(counts * log_sum - tf.add_n(right))
    # Pixels that do not count have a probability of 0 for each class.
    share = counts / tf.add_n(odds)
    probabilities = [ratio * share for ratio in odds]
    pixels = tf.maximum(tf.reduce_sum(counts), 1.0)
    return crossed / pixels + _dice_loss(probabilities, targets)


def _split_planes(logits: tf.Tensor, side: int) -> list[tf.Tensor]:
    """Return a plane (N, side, side) of logits for each class, less the largest at each pixel."""
    import tensorflow as tf

    logs = tf.transpose(logits, (3, 0, 1, 2))
    if logs.shape[-1] != side:
        # TensorFlow resizes only with the classes as the last axis;
        # two products of matrices resize planes.
        rows = _make_resizing(logs.shape[-1], side)
        logs = rows @ logs @ rows.T
    # Powers of differences from the largest logit cannot overflow, and the loss is the same.
    most = tf.stop_gradient(tf.reduce_max(logs, axis=0))
    return [plane - most for plane in tf.unstack(logs)]


def _dice_loss(probabilities: Sequence[tf.Tensor], targets: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return one minus the soft Dice coefficient, the mean over the classes in the batch."""
    import tensorflow as tf

    overlaps = []
    for probability, target in zip(probabilities, targets, strict=True):
        overlaps.append(tf.reduce_sum(probability * target))
    both = tf.stack(overlaps)
    predicted = tf.stack(list(map(tf.reduce_sum, probabilities)))
    true = tf.stack(list(map(tf.reduce_sum, targets)))
    missed = tf.where(true > 0, 1 - (2 * both + 1) / (predicted + true + 1), 0.0)
    classes = tf.reduce_sum(tf.cast(true > 0, tf.float32))
    return tf.reduce_sum(missed) / tf.maximum(classes, 1.0)


def _make_resizing(size: int, wanted: int) -> NDArray[np.float32]:
    """Return the matrix (wanted, size) that resizes a row as ``tf.image.resize`` does."""
    places = np.clip((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0, size - 1)
    return np.maximum(0.0, 1.0 - np.abs(places[:, None] - np.arange(size))).astype(np.float32)
