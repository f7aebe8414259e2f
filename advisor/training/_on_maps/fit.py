"""Fit a head, alone or with its backbone, on maps or on images.

`train.py` calls :func:`fit`. It is AdamW with a cosine rate, and the running mean of the weights
is the result. A task gives a :class:`TrainableHead`: the network with its loss and its targets.
Equal seeds give equal weights, bit by bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.training._loop import Timer, run_training
from advisor.training._on_maps.changes import Labels
from advisor.training._on_maps.kept import Arrays, KeptMaps, Photographs, list_outputs
from advisor.training._steps import Steps, find_halvable

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

Floats = NDArray[np.float32]
Images = KeptMaps[Any] | Photographs[Any]
"""Images of a training: kept maps, or photographs that are decoded in each epoch."""

WARMUP = 0.05
"""Share of the steps in which the rate rises."""

LIVE = 16
"""Pixels of the input to a cell of the finest map whose BatchNorm may take the statistics of a
batch. On finer maps that takes much time.
"""


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of a training."""

    epochs: int  # passes over the images; each pass takes one changed copy of every image
    batch: int = 16  # images in a step
    # Largest rate of AdamW for the head; it rises linearly and falls as a cosine.
    learning_rate: float = 2e-3
    backbone_rate: float = 0.1  # the same for the backbone, as a share of the head's
    weight_decay: float = 1e-2  # of kernels
    least_steps: int = 0  # more passes are taken over a small set until so many steps are done
    averaging: float = 0.998  # decay of the running mean of the weights, which is what is kept
    #: BatchNorm of the backbone's coarse maps, see :data:`LIVE`, takes the statistics of each
    #: batch. At the end, that and the head's get those of the kept weights.
    batch_statistics: bool = False
    seed: int = 0  # draws weights, copies and order

    def going_on(self) -> Hyperparameters:
        """Return those of a network that goes on learning from more images: half of the epochs."""
        return replace(
            self, epochs=math.ceil(self.epochs / 2), least_steps=math.ceil(self.least_steps / 2)
        )


Target = tuple[NDArray[np.generic], ...]
"""Targets of an image: the wanted outputs of a network."""

Shape = tuple[int, int, int]
"""Rows, columns and channels of a map."""


@dataclass(frozen=True, eq=False)
class TrainableHead:
    """A head with its loss and its targets."""

    model: keras.Model  # ``keras.Model`` from maps, the finest first, to the head's outputs
    # From outputs and targets, to be minimised.
    loss: Callable[[list[tf.Tensor], tuple[tf.Tensor, ...]], tf.Tensor]
    target: Callable[[Any], Target]  # from the labels of an image to the wanted outputs
    # From its outputs to those of the file.
    outputs: Callable[[list[keras.KerasTensor]], dict[str, keras.KerasTensor]]
    # From the float file of network and head to the one that is scored.
    complete: Callable[[bytes], bytes] = bytes
    # Takes the labels of all images before the first step.
    begin: Callable[[Sequence[Any]], None] | None = None
    # Takes the logits at the end.
    finish: Callable[[NDArray[np.float32], Sequence[Any]], None] | None = None
    # Weights of the layers that tell classes; they are new where the classes are.
    telling: Sequence[keras.Variable] = ()
    # Weights that learnt before: their rate is that of the backbone.
    learnt: Sequence[keras.Variable] = ()


Tell = Callable[[int, int], None]
"""Takes how many epochs of how many are done; 0 at the start."""


def tell_nobody(_done: int, _epochs: int) -> None:
    """Tell nobody."""


MakeHead = Callable[[Sequence[Shape], int], TrainableHead]
"""Makes a head with new weights, given the shapes of the maps, the finest first, and classes."""


def fit(
    head: TrainableHead,
    data: Images,
    hyperparameters: Hyperparameters,
    backbone: keras.Model | None = None,
    tell: Tell = tell_nobody,
    timer: Timer | None = None,
) -> bool:
    """Fit a head, alone or with its backbone; return whether all epochs are done.

    The weights of its model are set. Without a backbone, ``data`` gives the maps of a frozen one.
    The trainable weights of a backbone learn with the head; its BatchNorm keeps its statistics.
    ``tell`` is called at the start and after each epoch. An epoch that would end after the time of
    ``timer`` does not begin. Raises StageError if the loss is not finite.
    """
    if head.begin:
        head.begin(data.labels)
    training = _Training(head, data, hyperparameters, backbone, tell, timer or Timer(None))
    run_training(training)
    training.finish()
    return training.is_whole


def _split_batches(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class _Training:
    """AdamW on the weights of a network, and the running mean of them."""

    def __init__(
        self,
        head: TrainableHead,
        data: Images,
        hyperparameters: Hyperparameters,
        backbone: keras.Model | None,
        tell: Tell,
        timer: Timer,
    ) -> None:
        import tensorflow as tf

        from advisor.training._convolution import fold_norms

        self._head = head
        self._data = data
        self._hyperparameters = hyperparameters
        self._tell = tell
        self._live = _list_live(backbone) if backbone and hyperparameters.batch_statistics else []
        self._backbone = fold_norms(backbone) if backbone else None
        self._learning = fold_norms(backbone, self._live) if self._live else self._backbone
        self._epochs = 0
        self._done = 0
        in_epoch = math.ceil(len(data.labels) / hyperparameters.batch)
        self._last = max(hyperparameters.epochs, math.ceil(hyperparameters.least_steps / in_epoch))
        self._all = self._last * in_epoch
        below = backbone.trainable_variables if backbone else []
        learnt = set(map(id, head.learnt))
        new = []
        for weight in head.model.trainable_variables:
            if id(weight) not in learnt:
                new.append(weight)
        self._optimizers: list[tuple[keras.optimizers.Optimizer, Sequence[keras.Variable]]] = []
        # New weights have far to go; those that learnt before are only adjusted.
        for rate, weights in ((1.0, new), (hyperparameters.backbone_rate, [*head.learnt, *below])):
            if weights:
                self._optimizers.append(
                    (_make_optimizer(hyperparameters, rate, weights, self._all), weights)
                )
        self._weights = [*head.model.weights, *below]
        self._means = list(map(tf.Variable, self._weights))
        self._steps = Steps(
            self._compute_gradients,
            self._update_weights,
            find_halvable(backbone) if backbone else (),
        )
        self._timer = timer
        self._began = time.monotonic()
        self._epoch_s = 0.0
        tell(0, self._last)

    @property
    def is_whole(self) -> bool:
        """Return whether all steps are done."""
        return self._done >= self._all

    def goes_on(self) -> bool:
        """Return whether an epoch is left that ends in time."""
        more_s = self._epoch_s
        # New statistics of BatchNorm take as long as one more epoch.
        if self._hyperparameters.batch_statistics:
            more_s *= 2.0
        return not self.is_whole and not (self._epochs and self._timer.is_over(more_s))

    def is_late(self) -> bool:
        """Return whether the time is over."""
        return self._timer.is_over()

    def batches(self) -> Iterator[tuple[Arrays, list[Labels]]]:
        """Yield inputs and labels of the next epoch's images, each changed at random."""
        draw = np.random.default_rng([self._hyperparameters.seed, self._epochs])
        order = draw.permutation(len(self._data.labels))
        for part in _split_batches(order, self._hyperparameters.batch):
            yield self._data.read_changed(part, draw)

    def step(self, batch: tuple[Arrays, list[Labels]], _place: int) -> tf.Tensor:
        """Train on one batch and return its loss."""
        import tensorflow as tf

        inputs, labels = batch
        targets_of_images = list(map(self._head.target, labels))
        parts_of_targets = zip(*targets_of_images, strict=True)
        targets = tuple(tf.constant(np.stack(parts)) for parts in parts_of_targets)
        self._done += 1
        # A mean over few steps forgets the random start sooner.
        decay = min(self._hyperparameters.averaging, (1 + self._done) / (10 + self._done))
        tensors = list(map(tf.constant, inputs))
        return self._steps.run((tensors, targets), after=(tf.constant(decay),))

    def end_epoch(self, losses: Sequence[tf.Tensor]) -> None:
        """Count the epoch; raises StageError if its last loss is not finite."""
        now = time.monotonic()
        self._epochs += 1
        self._epoch_s = now - self._began
        self._began = now
        if not math.isfinite(float(losses[-1])):
            raise StageError("the training diverged", "lower the learning rate")
        self._tell(self._epochs, self._last)

    def finish(self) -> None:
        """Set the weights to their running means, and give the head the logits of the images."""
        for weight, mean in zip(self._weights, self._means, strict=True):
            weight.assign(mean)
        if self._hyperparameters.batch_statistics:
            self._take_statistics()
        if self._head.finish:
            logits = []
            places = np.arange(len(self._data.labels))
            for rows in _split_batches(places, self._hyperparameters.batch):
                outputs = self._compute_outputs(self._data.read_unchanged(rows), training=False)
                logits.append(np.asarray(outputs[0]))
            self._head.finish(np.concatenate(logits), self._data.labels)

    def _take_statistics(self) -> None:
        """Give BatchNorm the mean of the statistics of all batches, by the present weights.

        See P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization"
        (2018), section 3.2.
        """
        norms = [*_list_norms(self._head.model), *self._live]
        usual = [layer.momentum for layer in norms]
        for number, (inputs, _) in enumerate(self.batches()):
            # With this momentum, the running statistics are the mean of all batches so far.
            for layer in norms:
                layer.momentum = number / (number + 1)
            self._compute_outputs(inputs, training=True)
        for layer, momentum in zip(norms, usual, strict=True):
            layer.momentum = momentum

    def _compute_outputs(self, inputs: Sequence[tf.Tensor], training: bool) -> list[tf.Tensor]:
        import tensorflow as tf

        maps = [tf.cast(values, tf.float32) for values in inputs]
        backbone = self._learning if training else self._backbone
        if backbone:
            maps = list_outputs(backbone(maps[0], training=False))
        return list_outputs(self._head.model(maps, training=training))

    def _compute_gradients(
        self, inputs: Sequence[tf.Tensor], targets: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = self._head.loss(self._compute_outputs(inputs, training=True), targets)
        values = list[tf.Tensor]()
        for _, weights in self._optimizers:
            values += [weight.value for weight in weights]
        return loss, tape.gradient(
            loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    def _update_weights(self, gradients: Sequence[tf.Tensor], decay: tf.Tensor) -> None:
        import tensorflow as tf

        # All weights share one norm, although two optimizers move them.
        clipped, _ = tf.clip_by_global_norm(gradients, 10.0)
        remaining = iter(clipped)
        for optimizer, weights in self._optimizers:
            optimizer.apply_gradients([(next(remaining), weight) for weight in weights])
        for mean, weight in zip(self._means, self._weights, strict=True):
            mean.assign(decay * mean + (1.0 - decay) * weight.value)


def _list_norms(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    import keras

    return [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]


def _list_live(backbone: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return BatchNorm of the coarse maps that are trained; see :data:`LIVE`."""
    side = math.ceil(backbone.inputs[0].shape[1] / LIVE)
    norms = []
    for layer in _list_norms(backbone):
        if layer.trainable and 1 < layer.output.shape[1] <= side:
            norms.append(layer)
    return norms


def _make_optimizer(
    hyperparameters: Hyperparameters, share: float, weights: Sequence[keras.Variable], steps: int
) -> keras.optimizers.Optimizer:
    """Return AdamW for some weights at a share of the rate."""
    import keras

    warmup = max(1, round(WARMUP * steps))
    rate = share * hyperparameters.learning_rate
    schedule = keras.optimizers.schedules.CosineDecay(
        rate / 100, max(1, steps - warmup), warmup_target=rate, warmup_steps=warmup
    )
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=hyperparameters.weight_decay, clipnorm=None
    )
    # Offsets and scales are few, and pulling them to 0 would only bias the network.
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    optimizer.build(weights)
    return optimizer
