"""Train the weights of a compressed model to give its float model's outputs.

Recipes that retrain call :meth:`Schedule.train_weights` with a kind of :class:`Weight` for each
constant: free, rounded, masked or shared. The targets of the training are the float model's
features and answers, not the labels. They say more about each image, and a model that fits its
training images perfectly learns nothing from their labels (Hinton et al., "Distilling the
Knowledge in a Neural Network", 2015). Both models get the same images, augmented at random. Equal
inputs must give equal weights, bit by bit.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.training._augmentation import Augmentation, augment_images
from advisor.training._batches import Batches
from advisor.training._flatgraph import Change, Graph
from advisor.training._loop import Adam, Timer, run_training

if TYPE_CHECKING:
    import tensorflow as tf

Floats = NDArray[np.float32]


DEPTHWISE = "DEPTHWISE_CONV_2D"

AUGMENTATION = Augmentation(crop=0.7, colour=0.1, mixup=0.0)


class Weight:
    """A constant that is trained without constraint; the optimizer updates ``variable``."""

    def __init__(self, start: Floats) -> None:
        import tensorflow as tf

        self.variable = tf.Variable(start)

    def value(self) -> tf.Tensor:
        """Return the value for the layer, a tensor of the constant's shape."""
        return self.variable


class Rounded(Weight):
    """A kernel rounded to 8 bits, with one symmetric step for each output channel.

    Gradients ignore the rounding: the straight-through estimator of Bengio et al., "Estimating or
    Propagating Gradients Through Stochastic Neurons" (2013).
    """

    def __init__(self, start: Floats, name: str) -> None:
        super().__init__(start)
        axis = 0
        if name == DEPTHWISE:
            axis = start.ndim - 1
        self._other_axes = [other for other in range(start.ndim) if other != axis]

    def value(self) -> tf.Tensor:
        """Return the rounded kernel."""
        import tensorflow as tf

        kernel = tf.convert_to_tensor(self.variable)
        largest = tf.reduce_max(tf.abs(kernel), axis=self._other_axes, keepdims=True)
        step = tf.maximum(largest / 127.0, 1e-12)
        return kernel + tf.stop_gradient(tf.round(kernel / step) * step - kernel)


class Masked(Weight):
    """A kernel with some weights fixed at 0: ``keep`` is 1 where a weight stays, else 0."""

    def __init__(self, start: Floats, keep: Floats) -> None:
        super().__init__(start * keep)
        self._keep = keep

    def value(self) -> tf.Tensor:
        """Return the kernel with its zeros."""
        return self.variable * self._keep


class Shared(Weight):
    """A kernel of a few shared values, which are trained.

    The index of each weight's value, ``places``, is fixed.
    """

    def __init__(self, values: Floats, places: NDArray[np.int32]) -> None:
        super().__init__(values)
        self._places = places

    def value(self) -> tf.Tensor:
        """Return the kernel."""
        import tensorflow as tf

        return tf.gather(self.variable, self._places)


def round_activation(value: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Round an activation to the 255 steps from ``low`` to ``high``.

    Gradients pass within that range.
    """
    import tensorflow as tf

    step = max((high - low) / 255.0, 1e-9)
    # Zero must be a whole step, as in the runtime, so both ends move a little.
    zero = float(round(-low / step))
    low = -zero * step
    high = (255.0 - zero) * step
    inside = tf.clip_by_value(value, low, high)
    return inside + tf.stop_gradient(tf.round(inside / step) * step - inside)


@dataclass(frozen=True)
class Schedule:
    """The hyperparameters of a training."""

    learning_rate: float = 1e-4  # highest rate of Adam; it falls to 0 along a cosine
    epochs: float = 4.0  # largest number of passes over the images
    batch: int = 16  # images in a step
    seconds: float | None = None  # time limit, or None; training then takes fewer steps
    seed: int = 0  # of the order and the augmentation
    most_steps: int | None = None  # largest number of steps, or None

    def train_weights(
        self,
        graph: Graph,
        weights: Mapping[int, Weight],
        images: Sequence[Path],
        spec: InputSpec,
        change: Change | None = None,
    ) -> TrainingSummary:
        """Train ``weights`` (in place), which replace constants, to give the outputs of the graph.

        ``change`` is applied to the activations of the graph with these weights. Raises StageError
        if the loss is not finite.
        """
        with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
            batches = Batches(images, [0] * len(images), spec.size, Path(folder) / "pictures.npy")
            training = _Training(graph, weights, spec, self, change, batches)
            run_training(training)
            return training.sum_up()


@dataclass(frozen=True)
class TrainingSummary:
    """The course of a training."""

    steps: int  # number of steps
    seconds: float  # time that they took
    first_loss: float  # mean loss of the first tenth of the steps
    last_loss: float  # mean loss of the last tenth


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
        import tensorflow

        self._graph = graph
        self._weights = weights
        self._schedule = schedule
        self._change = change
        self._batches = batches
        self._passes = 0
        self._losses = list[float]()
        self._began = time.monotonic()
        self._time = Timer(schedule.seconds)
        planned = max(1, round(schedule.epochs * len(batches) / schedule.batch))
        self._planned = min(planned, schedule.most_steps or planned)
        self._mean = np.asarray(spec.mean, np.float32)
        self._std = np.asarray(spec.std, np.float32)
        self._variables = [weight.variable for weight in weights.values()]
        self._adam = Adam(self._variables)
        self._compiled = tensorflow.function(self._take_step, autograph=False)

    def goes_on(self) -> bool:
        """Return whether steps or time are left; the first step is always taken."""
        return not self._losses or self._share_done() < 1.0

    def is_late(self) -> bool:
        """Return whether no step is left: the last pass need not be whole."""
        return not self.goes_on()

    def _share_done(self) -> float:
        """Return the share of the steps or of the time that is done, whichever is larger."""
        return max(len(self._losses) / self._planned, self._time.compute_share_spent())

    def batches(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Yield the whole batches of a pass over the images, in a new order each time."""
        size = min(self._schedule.batch, len(self._batches))
        draw = np.random.default_rng([self._schedule.seed, self._passes])
        order = draw.permutation(len(self._batches))
        self._passes += 1
        return self._batches.epoch(order[: len(order) // size * size], size)

    def step(self, batch: tuple[NDArray[np.uint8], NDArray[np.int64]], _place: int) -> float:
        """Take a step and return its loss; the rate falls with the share that is done."""
        import tensorflow as tf

        number = len(self._losses)
        done = min(self._share_done(), 1.0)
        warm = min(1.0, (number + 1) / (0.05 * self._planned + 1))
        rate = self._schedule.learning_rate * warm * 0.5 * (1.0 + np.cos(np.pi * done))
        seed = tf.constant((self._schedule.seed, number), tf.int32)
        place = tf.constant(number + 1.0)
        images = tf.constant(batch[0])
        loss = float(self._compiled(images, tf.constant(rate, tf.float32), place, seed))
        if not np.isfinite(loss):
            raise StageError(f"training diverged in step {number + 1}")
        self._losses.append(loss)
        return loss

    def end_epoch(self, losses: Sequence[float]) -> None:
        """Do nothing: the distance to the float model needs no validation."""

    def sum_up(self) -> TrainingSummary:
        """Return the course."""
        losses = self._losses
        part = max(1, len(self._losses) // 10)
        seconds = round(time.monotonic() - self._began, 1)
        first_loss = float(np.mean(losses[:part]))
        last_loss = float(np.mean(losses[-part:]))
        return TrainingSummary(len(losses), seconds, first_loss, last_loss)

    def _take_step(
        self,
        images: tf.Tensor,
        rate: tf.Tensor,
        number: tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        import tensorflow as tf

        seen, _ = augment_images(
            tf.cast(images, tf.float32), tf.zeros((images.shape[0], 1)), AUGMENTATION, seed
        )
        # Images are whole numbers in the app, and augmentation gives others.
        inputs = (tf.round(seen) - self._mean) / self._std
        taught = self._graph.run(inputs, {})
        with tf.GradientTape() as tape:
            # Inside the tape: gradients pass through rounding, mask or sharing of a weight.
            values = {index: weight.value() for index, weight in self._weights.items()}
            outputs = self._graph.run(inputs, values, self._change)
            loss = self._compute_loss(taught, outputs)
        gradients = self._adam.take(tape.gradient(loss, self._variables), number)
        for variable, (mean, size) in zip(self._variables, gradients, strict=True):
            variable.assign_sub(rate * mean / size)
        return loss

    def _compute_loss(
        self, taught: Mapping[int, tf.Tensor], outputs: Mapping[int, tf.Tensor]
    ) -> tf.Tensor:
        """Return the features' error over their variance plus the probabilities' divergence.

        The error is a mean over levels. A model without probabilities, as one of boxes or centres,
        adds the error of its outputs in the same way.
        """
        import tensorflow as tf

        def error(indices: Sequence[int]) -> tf.Tensor:
            errors = []
            for index in indices:
                difference = tf.reduce_mean(tf.square(outputs[index] - taught[index]))
                # Over the variance, so that features of any scale count alike.
                errors.append(difference / (tf.math.reduce_variance(taught[index]) + 1e-9))
            return tf.add_n(errors) / len(errors)

        features = error(self._graph.features)
        logits = self._graph.logits
        if logits is None:
            return features + error(self._graph.outputs)
        taught_logs = tf.nn.log_softmax(taught[logits])
        logs = tf.nn.log_softmax(outputs[logits])
        divergences = tf.reduce_sum(tf.exp(taught_logs) * (taught_logs - logs), axis=-1)
        return features + tf.reduce_mean(divergences)
