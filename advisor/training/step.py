"""One step of the optimizer and one prediction, as compiled graphs; the running mean of the weights beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from advisor.training.augment import augmented
from advisor.training.knobs import Finetuning

WARMUP_STEPS = 100


class Step:
    """The optimizer of a network.

    Args:
        model: see :func:`advisor.training.network.build`.
        knobs: rate, decay, smoothing, augmentation.
        pictures: training pictures an epoch, from which the cosine's length follows.
    """

    def __init__(self, model: Any, knobs: Finetuning, pictures: int) -> None:
        import keras
        import tensorflow as tf

        steps = max(1, -(-pictures // knobs.batch) * knobs.epochs)
        warmup = min(steps // 10 + 1, WARMUP_STEPS)
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, max(1, steps - warmup), warmup_target=knobs.learning_rate, warmup_steps=warmup
        )
        self._optimizer = keras.optimizers.AdamW(rate, weight_decay=knobs.weight_decay, clipnorm=1.0)
        self._optimizer.build(model.trainable_variables)
        self._model, self._knobs = model, knobs
        self._means = [tf.Variable(variable.value, trainable=False) for variable in model.trainable_variables]
        self._compiled = tf.function(self._train, reduce_retracing=True)
        self._predict = tf.function(
            lambda pictures: model(tf.cast(pictures, tf.float32), training=False), reduce_retracing=True
        )

    def run(self, pictures: Any, labels: Any, weights: Any, seed: tuple[int, int], side: int) -> Any:
        """Train on one batch (n, S, S, 3), cut to ``side``; return its loss."""
        import tensorflow as tf

        return self._compiled(
            tf.constant(pictures),
            tf.constant(labels),
            tf.constant(weights),
            tf.constant(seed, tf.int32),
            tf.constant(side, tf.int32),
        )

    def predict(self, pictures: Any) -> Any:
        """Return the logits of one batch, (n, C)."""
        import tensorflow as tf

        return self._predict(tf.constant(pictures)).numpy()

    def swap(self) -> None:
        """Exchange the weights and their running means: to validate and keep the means, and back to go on."""
        for variable, mean in zip(self._model.trainable_variables, self._means, strict=True):
            value = variable.numpy()
            variable.assign(mean)
            mean.assign(value)

    def _train(self, pictures: Any, labels: Any, weights: Any, seed: Any, side: Any) -> Any:
        import tensorflow as tf

        classes = self._model.output.shape[-1]
        smoothing = self._knobs.label_smoothing
        targets = tf.one_hot(labels, classes) * (1.0 - smoothing) + smoothing / classes
        inputs, targets = augmented(tf.cast(pictures, tf.float32), targets, self._knobs.augmentation, seed, side)
        inputs = tf.ensure_shape(inputs, (None, *self._model.inputs[0].shape[1:]))
        with tf.GradientTape() as tape:
            logits = self._model(inputs, training=False)
            losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
            loss = tf.reduce_mean(losses * weights)
        variables = self._model.trainable_variables
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        self._average(variables)
        return loss

    def _average(self, variables: Any) -> None:
        """Move the means towards the weights, faster at first, as if they had begun at the first step."""
        import tensorflow as tf

        done = tf.cast(self._optimizer.iterations, tf.float32)
        share = 1.0 / tf.minimum(tf.maximum(done, 1.0), float(max(1.0, self._knobs.averaging)))
        for mean, variable in zip(self._means, variables, strict=True):
            mean.assign_add(share * (variable - mean))

    def save(self, place: Path) -> None:
        """Write model, means and optimizer."""
        import numpy as np

        self._model.save_weights(place.with_suffix(".weights.h5"))
        values: dict[str, Any] = {str(number): np.asarray(value) for number, value in enumerate(self._state())}
        np.savez(place.with_suffix(".npz"), **values)

    def restore(self, place: Path) -> None:
        """Read back what :meth:`save` wrote."""
        import numpy as np

        self._model.load_weights(place.with_suffix(".weights.h5"))
        with np.load(place.with_suffix(".npz"), allow_pickle=False) as kept:
            for number, variable in enumerate(self._state()):
                variable.assign(kept[str(number)])

    def _state(self) -> list[Any]:
        return [*self._optimizer.variables, *self._means]
