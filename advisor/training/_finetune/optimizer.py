"""Train and predict batches with compiled graphs, and keep the running mean of the weights.

`finetune.py` gives it the batches. The order of operations decides the last bits of the weights,
and equal inputs must give equal networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from advisor.training._augmentation import augment_images, mix_images
from advisor.training._convolution import fold_norms
from advisor.training._features import Pixels
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._finetune.maps import Floats, Maps
from advisor.training._loop import Adam
from advisor.training._steps import Steps, find_halvable, read_variables, write_variables

if TYPE_CHECKING:
    import keras

WARMUP_STEPS = 100


class Optimizer:
    """The optimizer of a network: Adam with decoupled weight decay, lower rates for lower layers.

    ``images`` is the number of training images in an epoch, which gives the cosine's length, and
    ``penalty`` the L2 penalty of the head's weights. ``spent`` is the share of a time limit that
    is spent. The rate falls along its cosine with the steps, or with this share where it is ahead
    of them, so that a training that a limit ends early has come to its low rates.
    """

    def __init__(
        self,
        model: keras.Model,
        hyperparameters: Finetuning,
        images: int,
        penalty: float = 0.0,
    ) -> None:
        self._model = model
        self._hyperparameters = hyperparameters
        self._penalty = penalty
        self._folded = fold_norms(model)
        self._planned = max(1, math.ceil(images / hyperparameters.batch) * hyperparameters.epochs)
        self._done = tf.Variable(0.0, trainable=False)
        self.spent = tf.Variable(0.0, trainable=False)
        self._weights = [_Weight(*place) for place in _list_trained(model, hyperparameters)]
        self._adam = Adam(weight.variable.value for weight in self._weights)
        self._steps = Steps(
            self._compute_gradients,
            self._update_weights,
            find_halvable(model.get_layer("backbone")),
        )
        folded = self._folded
        self._predict = tf.function(
            lambda images: folded(tf.cast(images, tf.float32), training=False),
            autograph=False,
            reduce_retracing=True,
        )

    def run(
        self,
        images: Pixels | Maps,
        labels: NDArray[np.int64],
        weights: Floats,
        seed: tuple[int, int],
        side: int,
    ) -> tf.Tensor:
        """Train on a batch of images (n, S, S, 3), resized to ``side``, or of maps.

        Return its loss.
        """
        batch = tuple(map(tf.constant, (images, labels, weights)))
        return self._steps.run(batch, (tf.constant(seed, tf.int32), tf.constant(side, tf.int32)))

    def predict(self, images: Pixels | Maps) -> Floats:
        """Return the logits of one batch, (n, C)."""
        return np.asarray(self._predict(tf.constant(images)).numpy())

    def swap_means(self) -> None:
        """Swap the weights and their running means, to validate and save the means.

        Swap again to continue.
        """
        for weight in self._weights:
            value = weight.variable.numpy()
            weight.variable.assign(weight.average)
            weight.average.assign(value)

    def _compute_gradients(
        self,
        images: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        seed: tf.Tensor,
        side: tf.Tensor,
    ) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        targets = self._make_targets(labels)
        inputs = tf.cast(images, tf.float32)
        of_labels = labels.shape.rank > 1
        changes = self._hyperparameters.augmentation
        if not self._hyperparameters.cached:
            inputs, targets = augment_images(inputs, targets, changes, seed, side)
        elif changes.mixup > 0:
            inputs, targets = mix_images(inputs, targets, changes.mixup, seed)
        inputs = tf.ensure_shape(inputs, (None, *self._model.inputs[0].shape[1:]))
        with tf.GradientTape() as tape:
            logits = self._folded(inputs, training=False)
            if of_labels:
                losses = compute_label_losses(targets, logits)
            else:
                losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
            loss = tf.reduce_mean(losses * weights)
            head = tf.convert_to_tensor(self._model.get_layer("head").kernel)
            whole = loss + 0.5 * self._penalty * tf.reduce_sum(tf.square(head))
        return loss, tape.gradient(whole, [weight.variable.value for weight in self._weights])

    def _make_targets(self, labels: tf.Tensor) -> tf.Tensor:
        """Return the wanted probabilities of classes, (n, C), or of labels.

        See :func:`compute_label_losses` for those of labels. Smoothing spreads a share of a target
        over all classes, or over both answers of a label.
        """
        smoothing = self._hyperparameters.label_smoothing
        if labels.shape.rank > 1:
            known = tf.cast(labels >= 0, tf.float32)
            wanted = tf.cast(labels > 0, tf.float32) * (1.0 - smoothing) + smoothing / 2.0
            return tf.concat([wanted * known, known], axis=1)
        classes = self._model.output.shape[-1]
        return tf.one_hot(labels, classes) * (1.0 - smoothing) + smoothing / classes

    def _update_weights(self, gradients: Sequence[tf.Tensor]) -> None:
        """Update the weights and their running means, which begin as plain averages."""
        done = self._done
        steps = float(self._planned)
        warmup = float(min(self._planned // 10 + 1, WARMUP_STEPS))
        rate = self._hyperparameters.learning_rate * tf.minimum(1.0, (done + 1.0) / warmup)
        share_done = tf.minimum(tf.maximum(done / steps, self.spent), 1.0)
        rate *= 0.5 * (1.0 + tf.cos(math.pi * share_done))
        done.assign_add(1.0)
        share = 1.0 / tf.minimum(done, float(max(1.0, self._hyperparameters.averaging)))
        moments = self._adam.take(gradients, done)
        for weight, (mean, size) in zip(self._weights, moments, strict=True):
            weight.move(mean / size, rate, share)

    def save(self, place: Path) -> None:
        """Write the model, the means and the optimizer's state."""
        write_variables(self._list_state(), place.with_suffix(".npz"))

    def restore(self, place: Path) -> None:
        """Read back what :meth:`save` wrote."""
        read_variables(self._list_state(), place.with_suffix(".npz"))

    def _list_state(self) -> list[Any]:
        variables = [*self._model.weights, self._done]
        for moments, weight in zip(self._adam.moments, self._weights, strict=True):
            variables += [*moments, weight.average]
        return variables


def compute_label_losses(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return the mean cross entropy over the labels of each image, (n,).

    Of the ``targets``, (n, 2 C), the first half are the wanted probabilities, times the second
    half: 1 where a label is known, 0 where not. Both stay right when images are mixed.
    """
    wanted, known = tf.split(targets, 2, axis=1)
    # log(1 + e^x) - x of a label that is there, log(1 + e^x) of one that is not.
    losses = known * tf.math.softplus(logits) - wanted * logits
    return tf.reduce_mean(losses, axis=1)


class _Weight:
    """A weight with its running mean and its decoupled decay.

    Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019.
    """

    def __init__(self, variable: keras.Variable, rate: float, decay: float, back: float) -> None:
        self.variable = variable
        self._rate = rate
        self._decay = decay
        self._back = back
        start = tf.convert_to_tensor(variable.value)
        self._start = tf.constant(start) if back else None
        self.average = tf.Variable(start, trainable=False)

    def move(self, step: tf.Tensor, rate: tf.Tensor, share: tf.Tensor) -> None:
        """Take a step of Adam with the decay.

        ``share`` is that of the new value in the running mean.
        """
        value = self.variable.value
        step += self._decay * value
        if self._start is not None:
            step += self._back * (value - self._start)
        value.assign_sub(self._rate * rate * step)
        self.average.assign_add(share * (value - self.average))


def _list_trained(
    model: keras.Model, hyperparameters: Finetuning
) -> Iterator[tuple[keras.Variable, float, float, float]]:
    """Yield each trained weight with its factor on the rate, its decay, and that to its start.

    Kernels alone have a decay.
    """
    layers = [layer for layer in model.get_layer("backbone").layers if layer.trainable_variables]
    for place, layer in enumerate(layers, start=1):
        lowest = hyperparameters.lowest_rate
        rate = lowest + (1.0 - lowest) * place / len(layers)
        for variable in layer.trainable_variables:
            # Kernels have two axes or more. Offsets and scales are few, and pulling them to 0
            # would only bias the network.
            decay = 0.0
            if len(variable.shape) > 1:
                decay = hyperparameters.weight_decay
            yield variable, rate, decay, hyperparameters.l2_sp
    for variable in model.get_layer("head").trainable_variables:
        yield variable, hyperparameters.head_rate, 0.0, 0.0
