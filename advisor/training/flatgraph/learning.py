"""Train a compressed model to give the outputs of its float model (distillation) on the user's images.

The targets are the float model's features and probabilities, not the labels. They say more about each image, and a
model that fits its training images perfectly learns nothing from their labels (Hinton et al., "Distilling the Knowledge
in a Neural Network", 2015). Both models get the same images, augmented at random.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.training.features import Augmentation, Batches, augmented
from advisor.training.flatgraph.graph import Change, Graph
from advisor.training.flatgraph.refit import Weight
from advisor.training.loop import Adam, Timer, run

AUGMENTATION = Augmentation(crop=0.7, colour=0.1, mixup=0.0)


@dataclass(frozen=True)
class Schedule:
    """The hyperparameters of a training."""

    learning_rate: float = 1e-4  # highest rate of Adam; it falls to 0 along a cosine
    epochs: float = 4.0  # largest number of passes over the images
    batch: int = 16  # images in a step
    seconds: float | None = None  # time limit, or None; training then takes fewer steps
    seed: int = 0  # of the order and the augmentation
    most_steps: int | None = None  # largest number of steps, or None


@dataclass(frozen=True)
class TrainingSummary:
    """The course of a training."""

    steps: int  # number of steps
    seconds: float  # time that they took
    first_loss: float  # mean loss of the first tenth of the steps
    last_loss: float  # mean loss of the last tenth


def learn(
    graph: Graph,
    weights: Mapping[int, Weight],
    images: Sequence[Path],
    spec: InputSpec,
    schedule: Schedule,
    change: Change | None = None,
) -> TrainingSummary:
    """Train ``weights`` (in place), which replace constants of the student, until it gives the outputs of the graph
    itself.

    ``change`` is applied to the student's activations. Raises StageError if the loss is not finite, or an image cannot
    be read.
    """
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        batches = Batches(images, [0] * len(images), spec.size, Path(folder) / "pictures.npy")
        training = _Training(graph, weights, spec, schedule, change, batches)
        run(training)
        return training.summary()


class _Training:
    """The optimizer, with one step as a compiled graph."""

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[int, Weight],
        spec: InputSpec,
        schedule: Schedule,
        change: Change | None,
        batches: Batches,
    ) -> None:
        self._graph, self._weights, self._schedule, self._change = graph, weights, schedule, change
        self._batches, self._passes, self._losses = batches, 0, list[float]()
        self._began, self._time = time.monotonic(), Timer(schedule.seconds)
        planned = max(1, round(schedule.epochs * len(batches) / schedule.batch))
        self._planned = min(planned, schedule.most_steps or planned)
        self._mean, self._std = np.asarray(spec.mean, np.float32), np.asarray(spec.std, np.float32)
        self._variables = [weight.variable for weight in weights.values()]
        self._adam = Adam(self._variables)
        self._compiled = tf.function(self._learn, autograph=False)

    def goes_on(self) -> bool:
        """Return whether steps or time are left; the first step is always taken."""
        return not self._losses or self._done() < 1.0

    def is_late(self) -> bool:
        """Return whether no step is left: the last pass need not be whole."""
        return not self.goes_on()

    def _done(self) -> float:
        """Return the share of the steps or of the time that is done, whichever is larger."""
        return max(len(self._losses) / self._planned, self._time.spent())

    def batches(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Yield the whole batches of a pass over the images, in a new order each time."""
        size = min(self._schedule.batch, len(self._batches))
        order = np.random.default_rng([self._schedule.seed, self._passes]).permutation(len(self._batches))
        self._passes += 1
        return self._batches.epoch(order[: len(order) // size * size], size)

    def step(self, batch: tuple[NDArray[np.uint8], NDArray[np.int64]], _place: int) -> float:
        """Take a step and return its loss; the rate falls with the share that is done."""
        number, done = len(self._losses), min(self._done(), 1.0)
        warm = min(1.0, (number + 1) / (0.05 * self._planned + 1))
        rate = self._schedule.learning_rate * warm * 0.5 * (1.0 + np.cos(np.pi * done))
        seed = tf.constant((self._schedule.seed, number), tf.int32)
        loss = float(
            self._compiled(tf.constant(batch[0]), tf.constant(rate, tf.float32), tf.constant(number + 1.0), seed)
        )
        if not np.isfinite(loss):
            raise StageError(f"training diverged in step {number + 1}")
        self._losses.append(loss)
        return loss

    def end_epoch(self, losses: Sequence[float]) -> None:
        """Do nothing: the distance to the float model needs no validation."""

    def summary(self) -> TrainingSummary:
        """Return the course."""
        losses, part = self._losses, max(1, len(self._losses) // 10)
        seconds = round(time.monotonic() - self._began, 1)
        return TrainingSummary(len(losses), seconds, float(np.mean(losses[:part])), float(np.mean(losses[-part:])))

    def _learn(self, images: tf.Tensor, rate: tf.Tensor, number: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        seen, _ = augmented(tf.cast(images, tf.float32), tf.zeros((images.shape[0], 1)), AUGMENTATION, seed)
        inputs = (tf.round(seen) - self._mean) / self._std
        taught = self._graph.run(inputs, {})
        with tf.GradientTape() as tape:
            own = self._graph.run(inputs, {at: one.value() for at, one in self._weights.items()}, self._change)
            loss = self._loss(taught, own)
        self._update(tape.gradient(loss, self._variables), rate, number)
        return loss

    def _loss(self, taught: Mapping[int, tf.Tensor], own: Mapping[int, tf.Tensor]) -> tf.Tensor:
        """Return the features' error over their variance (mean of levels) plus the probabilities' divergence."""
        levels = self._graph.features
        features = tf.add_n([_lost(taught[index], own[index]) for index in levels]) / len(levels)
        answers = tf.nn.log_softmax(taught[self._graph.logits])
        ours = tf.nn.log_softmax(own[self._graph.logits])
        return features + tf.reduce_mean(tf.reduce_sum(tf.exp(answers) * (answers - ours), axis=-1))

    def _update(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor, number: tf.Tensor) -> None:
        for variable, (mean, size) in zip(self._variables, self._adam.take(gradients, number), strict=True):
            variable.assign_sub(rate * mean / size)


def _lost(wanted: tf.Tensor, given: tf.Tensor) -> tf.Tensor:
    """Return the mean squared error over the variance of the wanted values."""
    return tf.reduce_mean(tf.square(given - wanted)) / (tf.math.reduce_variance(wanted) + 1e-9)
