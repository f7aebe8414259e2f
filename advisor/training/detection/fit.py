"""Fit a network to kept maps: AdamW, a cosine rate, and the running mean of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.training.detection.maps import KeptMaps

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Targets = Sequence[tuple[NDArray[np.generic], ...]]
"""What the network shall answer for each row of the maps."""

Loss = Callable[["list[tf.Tensor]", "tuple[tf.Tensor, ...]"], "tf.Tensor"]
"""From the outputs of a batch and its targets to the loss."""


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


def fit(model: keras.Model, loss: Loss, maps: KeptMaps, targets: Targets, fitting: Fitting) -> None:
    """Fit a network from the weights that it has.

    Args:
        model: ``keras.Model`` from maps to its outputs.
        loss: what is made small.
        maps: of the training images.
        targets: of each row of the maps.
        fitting: the hyperparameters.

    Raises:
        StageError: the loss is not finite.
    """
    steps = fitting.epochs * math.ceil(maps.images / fitting.batch)
    learner = _Learner(model, loss, fitting, steps)
    for rows in _batches(maps, fitting):
        chosen = [targets[row] for row in rows]
        reached = learner.step(maps.batch(rows), tuple(np.stack(part) for part in zip(*chosen, strict=True)))
    if not math.isfinite(float(reached)):
        raise StageError("the training of the head diverged", "lower the learning rate")
    learner.take_means()


def _batches(maps: KeptMaps, fitting: Fitting) -> Iterator[NDArray[np.int64]]:
    """Yield rows of maps: in each epoch every image once, as one of its copies."""
    for epoch in range(fitting.epochs):
        draw = np.random.default_rng([fitting.seed, epoch])
        order = draw.permutation(maps.images)
        rows = order + maps.images * draw.integers(0, 1 + maps.copies, len(order))
        yield from (rows[start : start + fitting.batch] for start in range(0, len(rows), fitting.batch))


class _Learner:
    """AdamW on the weights of a network, and the running mean of them."""

    def __init__(self, model: keras.Model, loss: Loss, fitting: Fitting, steps: int) -> None:
        import keras
        import tensorflow as tf

        warmup = max(1, round(WARMUP * steps))
        rate = keras.optimizers.schedules.CosineDecay(
            fitting.learning_rate / 100, max(1, steps - warmup), warmup_target=fitting.learning_rate,
            warmup_steps=warmup,
        )  # fmt: skip
        self._model, self._loss, self._fitting, self._done = model, loss, fitting, 0
        self._optimizer = keras.optimizers.AdamW(rate, weight_decay=fitting.weight_decay, clipnorm=None)
        self._optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        self._optimizer.build(model.trainable_variables)
        self._means = [tf.Variable(weight) for weight in model.weights]
        self._compiled = tf.function(self._step, reduce_retracing=True)

    def step(self, maps: Sequence[NDArray[np.float16]], targets: tuple[NDArray[np.generic], ...]) -> tf.Tensor:
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
