"""Fit the head of a detector on kept maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.training.detection.anchors import Anchors, anchors_of, assign
from advisor.training.detection.changes import Objects
from advisor.training.detection.maps import KeptMaps
from advisor.training.detection.network import head

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Fitting:
    """Hyperparameters of a head.

    Attributes:
        epochs: passes over the images; each pass takes one copy of every image at random.
        batch: images in a step.
        learning_rate: largest rate of AdamW; it rises linearly and falls as a cosine.
        weight_decay: of kernels.
        averaging: decay of the running mean of the weights, which is what is kept.
        box_weight: weight of the boxes' loss beside that of the classes.
        seed: draws weights, copies and order.
    """

    epochs: int = 30
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    averaging: float = 0.998
    box_weight: float = 2.0
    seed: int = 0


WARMUP = 0.05
"""Share of the steps in which the rate rises."""


def fit_head(maps: KeptMaps, classes: int, fitting: Fitting) -> tuple[keras.Model, Anchors]:
    """Fit a head.

    The score of a class is trained to be the overlap of the predicted with the true box (X. Li et al., "Generalized
    Focal Loss", 2020, quality focal loss), so that of two boxes on one object the better one is kept. The loss of the
    boxes is one minus their generalized overlap (H. Rezatofighi et al., "Generalized Intersection over Union", 2019).

    Args:
        maps: of the training images.
        classes: number of classes.
        fitting: the hyperparameters.

    Returns:
        The head and its anchors.

    Raises:
        StageError: the loss is not finite.
    """
    import keras

    keras.utils.set_random_seed(fitting.seed)
    shapes = [tuple(level.shape[1:]) for level in maps.levels]
    model, anchors = head(shapes, classes), anchors_of([shape[:2] for shape in shapes])
    targets = [_targets(objects, anchors) for objects in maps.objects]
    steps = fitting.epochs * math.ceil(maps.images / fitting.batch)
    learner = _Learner(model, anchors, fitting, steps)
    for rows in _batches(maps, fitting):
        chosen = [targets[row] for row in rows]
        loss = learner.step(maps.batch(rows), [np.stack(part) for part in zip(*chosen, strict=True)])
    if not math.isfinite(float(loss)):
        raise StageError("the training of the head diverged", "lower the learning rate")
    learner.take_means()
    return model, anchors


def _targets(objects: Objects, anchors: Anchors) -> tuple[Floats, NDArray[np.int64]]:
    """Return the box of each anchor (N, 4), and its class (N,), -1 for none."""
    chosen = assign(anchors, objects.boxes)
    boxes, labels = anchors.edges.copy(), np.full(len(chosen), -1, np.int64)
    boxes[chosen >= 0], labels[chosen >= 0] = objects.boxes[chosen[chosen >= 0]], objects.labels[chosen[chosen >= 0]]
    return boxes, labels


def _batches(maps: KeptMaps, fitting: Fitting) -> Iterator[NDArray[np.int64]]:
    """Yield rows of maps: in each epoch every image once, as one of its copies."""
    for epoch in range(fitting.epochs):
        draw = np.random.default_rng([fitting.seed, epoch])
        order = draw.permutation(maps.images)
        rows = order + maps.images * draw.integers(0, 1 + maps.copies, len(order))
        yield from (rows[start : start + fitting.batch] for start in range(0, len(rows), fitting.batch))


class _Learner:
    """AdamW on the head's weights, and the running mean of them."""

    def __init__(self, model: keras.Model, anchors: Anchors, fitting: Fitting, steps: int) -> None:
        import keras
        import tensorflow as tf

        warmup = max(1, round(WARMUP * steps))
        rate = keras.optimizers.schedules.CosineDecay(
            fitting.learning_rate / 100, max(1, steps - warmup), warmup_target=fitting.learning_rate,
            warmup_steps=warmup,
        )  # fmt: skip
        self._model, self._fitting, self._anchors, self._done = model, fitting, tf.constant(anchors.boxes), 0
        self._optimizer = keras.optimizers.AdamW(rate, weight_decay=fitting.weight_decay, clipnorm=None)
        self._optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        self._optimizer.build(model.trainable_variables)
        self._means = [tf.Variable(weight) for weight in model.weights]
        self._compiled = tf.function(self._step, reduce_retracing=True)

    def step(self, maps: Sequence[NDArray[np.float16]], targets: Sequence[NDArray[np.generic]]) -> tf.Tensor:
        """Train on one batch and return its loss."""
        import tensorflow as tf

        self._done += 1
        keep = min(self._fitting.averaging, (1 + self._done) / (10 + self._done))
        return self._compiled([tf.constant(level) for level in maps], *map(tf.constant, targets), tf.constant(keep))

    def take_means(self) -> None:
        """Set the weights to their running means."""
        for weight, mean in zip(self._model.weights, self._means, strict=True):
            weight.assign(mean)

    def _step(self, maps: Sequence[tf.Tensor], boxes: tf.Tensor, labels: tf.Tensor, keep: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            logits, encodings = self._model([tf.cast(level, tf.float32) for level in maps], training=True)
            loss = _loss(logits, _decoded(encodings, self._anchors), boxes, labels, self._fitting.box_weight)
        weights = self._model.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, [weight.value for weight in weights]), 10.0)
        self._optimizer.apply_gradients(zip(gradients, weights, strict=True))
        for mean, weight in zip(self._means, self._model.weights, strict=True):
            mean.assign(keep * mean + (1.0 - keep) * weight.value)
        return loss


def _decoded(encodings: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Return edges, as :func:`advisor.training.detection.anchors.decode` does; no side is beyond e**4 of its anchor."""
    import tensorflow as tf

    from advisor.tflite.postprocess import CENTRE_SCALE, SIDE_SCALE

    middle = encodings[..., :2] / CENTRE_SCALE * anchors[:, 2:] + anchors[:, :2]
    half = tf.exp(tf.clip_by_value(encodings[..., 2:] / SIDE_SCALE, -4.0, 4.0)) * anchors[:, 2:] / 2
    return tf.concat([middle - half, middle + half], axis=-1)


def _loss(logits: tf.Tensor, found: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor, box_weight: float) -> tf.Tensor:
    import tensorflow as tf

    taken = tf.cast(labels >= 0, tf.float32)
    count = tf.maximum(tf.reduce_sum(taken), 1.0)
    overlap, generalized = _overlaps(found, boxes)
    quality = tf.stop_gradient(overlap) * taken
    wanted = tf.one_hot(labels, logits.shape[-1]) * quality[..., None]
    missed = tf.square(tf.abs(wanted - tf.sigmoid(logits)))
    classes = tf.reduce_sum(missed * tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)) / count
    return classes + box_weight * tf.reduce_sum((1.0 - generalized) * taken) / count


def _overlaps(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and the generalized one, of boxes in pairs: edges (..., 4)."""
    import tensorflow as tf

    def area(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
        return tf.reduce_prod(tf.maximum(high - low, 0.0), axis=-1)

    shared = area(tf.maximum(first[..., :2], second[..., :2]), tf.minimum(first[..., 2:], second[..., 2:]))
    union = sum(area(each[..., :2], each[..., 2:]) for each in (first, second)) - shared + 1e-9
    around = area(tf.minimum(first[..., :2], second[..., :2]), tf.maximum(first[..., 2:], second[..., 2:])) + 1e-9
    overlap = shared / union
    return overlap, overlap - (around - union) / around
