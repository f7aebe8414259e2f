"""Fit a head to kept maps: AdamW, a cosine rate, and the running mean of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.training.detection.anchors import Anchors
from advisor.training.detection.changes import Objects
from advisor.training.detection.maps import KeptMaps

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


@dataclass(frozen=True)
class Fitting:
    """Hyperparameters of a head.

    Attributes:
        epochs: passes over the images; each pass takes one copy of every image at random.
        batch: images in a step.
        learning_rate: largest rate of AdamW; it rises linearly and falls as a cosine.
        weight_decay: of kernels.
        averaging: decay of the running mean of the weights, which is what is kept.
        seed: draws weights, copies and order.
    """

    epochs: int
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    averaging: float = 0.998
    seed: int = 0


WARMUP = 0.05
"""Share of the steps in which the rate rises."""


Target = tuple[NDArray[np.generic], ...]
"""What a network shall answer for an image."""

Shape = tuple[int, int, int]
"""Rows, columns and channels of a map."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a head learns.

    Attributes:
        model: ``keras.Model`` from maps, the finest first, to the head's outputs.
        loss: what is made small: from the outputs of a batch and its targets to a number.
        target: from the objects in an image to what the head shall answer.
        anchors: of a head for boxes.
        finish: called with the maps after the training.
    """

    model: keras.Model
    loss: Callable[[list[tf.Tensor], tuple[tf.Tensor, ...]], tf.Tensor]
    target: Callable[[Objects], Target]
    anchors: Anchors | None = None
    finish: Callable[[KeptMaps], None] | None = None


Lessons = Callable[[Sequence[Shape], int], Lesson]
"""From the shapes of the maps, the finest first, and the number of classes to a lesson with new weights."""


def fit_head(lessons: Lessons, maps: KeptMaps, classes: int, fitting: Fitting) -> Lesson:
    """Fit a head to kept maps.

    Args:
        lessons: the kind of head.
        maps: of the training images.
        classes: number of classes.
        fitting: the hyperparameters.

    Returns:
        The lesson, with the trained weights in its model.

    Raises:
        StageError: the loss is not finite.
    """
    import keras

    keras.utils.set_random_seed(fitting.seed)
    lesson = lessons([tuple(level.shape[1:]) for level in maps.levels], classes)
    targets = [lesson.target(objects) for objects in maps.objects]
    learner = _Learner(lesson, fitting, fitting.epochs * math.ceil(maps.images / fitting.batch))
    for rows in _batches(maps, fitting):
        chosen = [targets[row] for row in rows]
        reached = learner.step(maps.batch(rows), tuple(np.stack(part) for part in zip(*chosen, strict=True)))
    if not math.isfinite(float(reached)):
        raise StageError("the training of the head diverged", "lower the learning rate")
    learner.take_means()
    if lesson.finish:
        lesson.finish(maps)
    return lesson


def _batches(maps: KeptMaps, fitting: Fitting) -> Iterator[NDArray[np.int64]]:
    """Yield rows of maps: in each epoch every image once, as one of its copies."""
    for epoch in range(fitting.epochs):
        draw = np.random.default_rng([fitting.seed, epoch])
        order = draw.permutation(maps.images)
        rows = order + maps.images * draw.integers(0, 1 + maps.copies, len(order))
        yield from (rows[start : start + fitting.batch] for start in range(0, len(rows), fitting.batch))


class _Learner:
    """AdamW on the weights of a network, and the running mean of them."""

    def __init__(self, lesson: Lesson, fitting: Fitting, steps: int) -> None:
        import keras
        import tensorflow as tf

        warmup = max(1, round(WARMUP * steps))
        rate = keras.optimizers.schedules.CosineDecay(
            fitting.learning_rate / 100, max(1, steps - warmup), warmup_target=fitting.learning_rate,
            warmup_steps=warmup,
        )  # fmt: skip
        self._model, self._loss, self._fitting, self._done = lesson.model, lesson.loss, fitting, 0
        self._optimizer = keras.optimizers.AdamW(rate, weight_decay=fitting.weight_decay, clipnorm=None)
        self._optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        self._optimizer.build(self._model.trainable_variables)
        self._means = [tf.Variable(weight) for weight in self._model.weights]
        self._compiled = tf.function(self._step, reduce_retracing=True)

    def step(self, maps: Sequence[NDArray[np.float16]], targets: Target) -> tf.Tensor:
        """Train on one batch and return its loss."""
        import tensorflow as tf

        self._done += 1
        keep = min(self._fitting.averaging, (1 + self._done) / (10 + self._done))
        given = [tf.constant(level) for level in maps], tuple(tf.constant(part) for part in targets)
        return self._compiled(*given, tf.constant(keep))

    def take_means(self) -> None:
        """Set the weights to their running means."""
        for weight, mean in zip(self._model.weights, self._means, strict=True):
            weight.assign(mean)

    def _step(self, maps: Sequence[tf.Tensor], targets: tuple[tf.Tensor, ...], keep: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            outputs = self._model([tf.cast(level, tf.float32) for level in maps], training=True)
            loss = self._loss(outputs if isinstance(outputs, list) else [outputs], targets)
        weights = self._model.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, [weight.value for weight in weights]), 10.0)
        self._optimizer.apply_gradients(zip(gradients, weights, strict=True))
        for mean, weight in zip(self._means, self._model.weights, strict=True):
            mean.assign(keep * mean + (1.0 - keep) * weight.value)
        return loss
