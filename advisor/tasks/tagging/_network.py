"""A head with a score for each label on the maps of a backbone that learns too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.tasks.tagging._head import weigh_images
from advisor.tasks.tagging._stages import SCORES
from advisor.training import ImageSection, Shape, TrainableHead

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Truth = NDArray[np.int8]

# Share of an image that a section must show for its labels to be known: what was there may be outside.
LEAST_SHOWN = 0.6


@dataclass(frozen=True, eq=False)
class Tags:
    """The labels of an image: 1, 0, or -1 where nothing is known, (C,)."""

    values: Truth

    def within(
        self,
        section: ImageSection,
    ) -> Tags:
        """Return the labels of a section: those of a small one may be gone, and those that are not there stay away."""
        rows, columns = (
            max(0.0, min(1.0, start + side) - max(0.0, start))
            for start, side in ((section.top, section.height), (section.left, section.width))
        )
        if rows * columns >= LEAST_SHOWN:
            return self
        return Tags(np.where(self.values == 1, -1, self.values).astype(np.int8))


def make_tag_head(
    shapes: Sequence[Shape],
    classes: int,
) -> TrainableHead:
    """Return a linear layer on the mean of each map, whose sum is a logit of each label, with loss and targets."""
    import keras

    inputs = [keras.Input(shape) for shape in shapes]
    small = keras.initializers.RandomNormal(stddev=0.01)
    logits = [
        keras.layers.Dense(classes, kernel_initializer=small)(keras.layers.GlobalAveragePooling2D()(level))
        for level in inputs
    ]
    total = keras.layers.Add()(logits) if len(logits) > 1 else logits[0]
    weights = np.ones(classes, np.float32)  # of images with a label, over those without it

    def begin(tags: Sequence[Tags]) -> None:
        truth = np.stack([one.values for one in tags])
        weights[:] = weigh_images(truth).max(axis=0)

    def loss(
        outputs: list[tf.Tensor],
        targets: tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        import tensorflow as tf

        wanted = tf.cast(targets[0] == 1, tf.float32)
        known = tf.cast(targets[0] >= 0, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(wanted, outputs[0])
        weight = known * (1.0 + wanted * (weights - 1.0))
        return tf.reduce_sum(losses * weight) / tf.maximum(tf.reduce_sum(weight), 1.0)

    def outputs(logits: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        return {SCORES: keras.layers.Activation("sigmoid", name=SCORES)(logits[0])}

    model = keras.Model(inputs, total, name="head")
    return TrainableHead(model, loss, lambda tags: (tags.values,), outputs, begin=begin)
