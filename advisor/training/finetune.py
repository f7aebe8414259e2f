"""Fine-tuning in Keras: the head's weights to start from, BatchNorm frozen, the best epoch on a validation part kept.

Starting from a trained head keeps the trunk from being spoilt by a random one's gradients (Kumar et al., "Fine-Tuning
can Distort Pretrained Features", 2022). BatchNorm keeps the statistics of its pretraining: a small set's batches would
spoil them, and the phone folds them into the convolutions in any case.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError
from advisor.training.augment import Augmentation, augmented
from advisor.training.batches import Batches
from advisor.training.head import Head, folds, train_head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
VALIDATION_FOLDS = 7


@dataclass(frozen=True)
class Finetuning:
    """The knobs.

    Attributes:
        trained: share of the trunk's layers that learn, from the top; 1 is all of them.
        epochs: passes over the pictures at most.
        patience: epochs without a better validation accuracy after which it stops, from the middle on: a cosine gains
            most at its end, and often loses at first.
        learning_rate: of Adam with decoupled weight decay, at its highest; falls to nothing along a cosine.
        weight_decay: of the same.
        batch: pictures a step.
        label_smoothing: share of the target spread over all classes.
        balance: exponent of the inverse class frequency by which pictures are weighted: 0 all alike, 1 classes alike.
        augmentation: how far training pictures are changed.
        seconds: no epoch is begun that would end later than this; None for no limit.
        seed: of shuffling, augmentation and the validation part.
    """

    trained: float = 0.45
    epochs: int = 12
    patience: int = 5
    learning_rate: float = 6e-5
    weight_decay: float = 1e-4
    batch: int = 32
    label_smoothing: float = 0.1
    balance: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)
    seconds: float | None = None
    seed: int = 0


FINETUNE_TOP = Finetuning()
"""The last blocks. MobileNetV2 on TrashNet, seed 0: 85.6 % of the hold-out against 83.2 % of the head alone."""

FINETUNE_ALL = Finetuning(trained=1.0, learning_rate=3e-5, epochs=20)
"""Every layer, at a rate that the first ones bear: at 1.5e-4 they forget more than the top learns."""


@dataclass(frozen=True, eq=False)
class Finetuned:
    """What came of it.

    Attributes:
        weights: float32 (F, C) of the head.
        bias: float32 (C,).
        validation_accuracy: share (0-1) of the validation part classified rightly by the epoch that was kept. That
            epoch was chosen by it, which flatters it slightly.
        start_accuracy: the same of the trunk and head that it began with.
        history: validation accuracy and training loss of each epoch.
        best_epoch: 0-based; -1 where no epoch was better than the start.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    validation_accuracy: float
    start_accuracy: float
    history: tuple[dict[str, float], ...]
    best_epoch: int


def finetune(
    trunk: Any,
    features: NDArray[np.float32],
    pictures: Sequence[Path],
    labels: Sequence[int],
    mean: Sequence[float],
    std: Sequence[float],
    knobs: Finetuning,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    validation: Sequence[int] = (),
) -> Finetuned:
    """Train ``trunk`` (changed in place) and a head behind it on the training part.

    Every epoch leaves a checkpoint in ``folder``; called again with the same folder and knobs it goes on after the last
    one. The folder belongs to one trunk and one set of pictures: name it by the hash of both.

    Args:
        trunk: ``keras.Model`` from one normalised picture (1, S, S, 3) to features (1, F).
        features: the trunk's features of these pictures, float32 (N, F): the head to begin with is trained on those
            outside the validation part.
        pictures: the training part, hold-out excluded; a stratified seventh becomes the validation part.
        labels: their class indices.
        mean: per-channel mean on RGB 0..255.
        std: per-channel scale on RGB 0..255.
        knobs: see :class:`Finetuning`.
        folder: for checkpoints and decoded pictures.
        progress: called with (epochs done, epochs at most).
        validation: places of the validation part among the pictures; empty to draw one.

    Raises:
        StageError: the loss is no number any more, or a picture cannot be read.
    """
    session = _Session(trunk, features, pictures, labels, mean, std, knobs, folder, validation)
    session.resume()
    while session.goes_on():
        session.run_epoch()
        if progress:
            progress(len(session.history), knobs.epochs)
    return session.finish(trunk)


class _Session:
    """The state of one fine-tuning: model, optimizer, history, and the best weights so far, all kept on disk."""

    def __init__(
        self,
        trunk: Any,
        features: NDArray[np.float32],
        pictures: Sequence[Path],
        labels: Sequence[int],
        mean: Sequence[float],
        std: Sequence[float],
        knobs: Finetuning,
        folder: Path,
        validation: Sequence[int],
    ) -> None:
        import numpy as np

        folder.mkdir(parents=True, exist_ok=True)
        self._knobs, self._folder = knobs, folder
        self._batches = Batches(pictures, labels, int(trunk.inputs[0].shape[1]), folder / "pictures.npy")
        targets = np.asarray(labels, dtype=np.int64)
        unseen = np.isin(np.arange(len(targets)), validation)
        if not len(validation):
            unseen = folds(targets, VALIDATION_FOLDS, knobs.seed) == 0
        self._train, self._validation = np.flatnonzero(~unseen), np.flatnonzero(unseen)
        classes = int(targets.max()) + 1
        head = train_head(features[self._train], targets[self._train].tolist(), classes, knobs.seed)
        self._sample_weights = _class_weights(targets[self._train], classes, knobs.balance)
        self._model = _model(trunk, head, mean, std, knobs.trained)
        self._step = _Step(self._model, knobs, len(self._train))
        self.history: list[dict[str, float]] = []
        self._best_epoch, self._best = -1, 0.0
        self._start = 0.0
        self._began = time.monotonic()

    def resume(self) -> None:
        """Take up the last checkpoint, or note where it starts from."""
        state = self._folder / "state.json"
        if state.exists():
            kept = json.loads(state.read_text())
            if kept["knobs"] == _plain(self._knobs):
                self.history, self._best_epoch = kept["history"], kept["best_epoch"]
                self._best, self._start = kept["best"], kept["start"]
                self._step.restore(self._folder / f"epoch-{len(self.history)}")
                return
        self._start = self._best = self._validate()
        self._keep_best()
        self._save()

    def goes_on(self) -> bool:
        """Whether another epoch may be worth it and fits the time."""
        done = len(self.history)
        stalled = 2 * done >= self._knobs.epochs and done - 1 - self._best_epoch >= self._knobs.patience
        if done >= self._knobs.epochs or stalled:
            return False
        if self._knobs.seconds is None:
            return True
        longest = max((row["seconds"] for row in self.history), default=0.0)
        return time.monotonic() - self._began + longest <= self._knobs.seconds

    def run_epoch(self) -> None:
        """Train once over the training pictures, validate, keep what is best, leave a checkpoint."""
        import numpy as np

        started, number = time.monotonic(), len(self.history)
        order = np.random.default_rng([self._knobs.seed, number]).permutation(self._train)
        losses = []
        for place, (pictures, labels) in enumerate(self._batches.epoch(order, self._knobs.batch)):
            weights = self._sample_weights[labels]
            losses.append(self._step.run(pictures, labels, weights, (self._knobs.seed + number, place)))
        loss = float(np.mean([float(value) for value in losses]))
        if not np.isfinite(loss):
            raise StageError(f"fine-tuning diverged in epoch {number + 1}", "lower the learning rate")
        accuracy = self._validate()
        seconds = round(time.monotonic() - started, 3)
        self.history.append({"loss": loss, "validation_accuracy": accuracy, "seconds": seconds})
        if accuracy > self._best:
            self._best, self._best_epoch = accuracy, number
            self._keep_best()
        self._save()

    def finish(self, trunk: Any) -> Finetuned:
        """Put the best epoch's weights into ``trunk`` and return the rest."""
        self._model.load_weights(self._folder / "best.weights.h5")
        body, head = self._model.get_layer("trunk"), self._model.get_layer("head")
        trunk.set_weights(body.get_weights())
        weights, bias = head.get_weights()
        return Finetuned(weights, bias, self._best, self._start, tuple(self.history), self._best_epoch)

    def _validate(self) -> float:
        right = 0
        for pictures, labels in self._batches.epoch(self._validation, self._knobs.batch):
            right += int((self._step.predict(pictures).argmax(axis=1) == labels).sum())
        return right / max(1, len(self._validation))

    def _keep_best(self) -> None:
        self._model.save_weights(self._folder / "best.weights.h5")

    def _save(self) -> None:
        """Write the checkpoint before the state that points to it, and remove the one before."""
        done = len(self.history)
        self._step.save(self._folder / f"epoch-{done}")
        state = {"knobs": _plain(self._knobs), "history": self.history, "best_epoch": self._best_epoch}
        partial = self._folder / "state.partial"
        partial.write_text(json.dumps({**state, "best": self._best, "start": self._start}))
        partial.replace(self._folder / "state.json")
        for old in self._folder.glob("epoch-*"):
            if old.name.split(".")[0] != f"epoch-{done}":
                old.unlink()


class _Step:
    """One step of the optimizer and one prediction, as compiled graphs."""

    def __init__(self, model: Any, knobs: Finetuning, pictures: int) -> None:
        import keras
        import tensorflow as tf

        steps = max(1, -(-pictures // knobs.batch) * knobs.epochs)
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, steps, warmup_target=knobs.learning_rate, warmup_steps=min(steps // 10 + 1, 100)
        )
        self._optimizer = keras.optimizers.AdamW(rate, weight_decay=knobs.weight_decay, clipnorm=1.0)
        self._optimizer.build(model.trainable_variables)
        self._model, self._knobs = model, knobs
        self._compiled = tf.function(self._train, reduce_retracing=True)
        self._predict = tf.function(lambda pictures: model(tf.cast(pictures, tf.float32), training=False))

    def run(self, pictures: Any, labels: Any, weights: Any, seed: tuple[int, int]) -> Any:
        """Train on one batch; return its loss."""
        import tensorflow as tf

        return self._compiled(
            tf.constant(pictures), tf.constant(labels), tf.constant(weights), tf.constant(seed, tf.int32)
        )

    def predict(self, pictures: Any) -> Any:
        """Return the logits of one batch, (n, C)."""
        import tensorflow as tf

        return self._predict(tf.constant(pictures)).numpy()

    def _train(self, pictures: Any, labels: Any, weights: Any, seed: Any) -> Any:
        import tensorflow as tf

        classes = self._model.output.shape[-1]
        smoothing = self._knobs.label_smoothing
        targets = tf.one_hot(labels, classes) * (1.0 - smoothing) + smoothing / classes
        inputs, targets = augmented(tf.cast(pictures, tf.float32), targets, self._knobs.augmentation, seed)
        with tf.GradientTape() as tape:
            logits = self._model(inputs, training=False)
            losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
            loss = tf.reduce_mean(losses * weights)
        variables = self._model.trainable_variables
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    def save(self, place: Path) -> None:
        """Write model and optimizer."""
        import numpy as np

        self._model.save_weights(place.with_suffix(".weights.h5"))
        values: dict[str, Any] = {
            str(number): np.asarray(value) for number, value in enumerate(self._optimizer.variables)
        }
        np.savez(place.with_suffix(".npz"), **values)

    def restore(self, place: Path) -> None:
        """Read back what :meth:`save` wrote."""
        import numpy as np

        self._model.load_weights(place.with_suffix(".weights.h5"))
        with np.load(place.with_suffix(".npz"), allow_pickle=False) as kept:
            for number, variable in enumerate(self._optimizer.variables):
                variable.assign(kept[str(number)])


def _model(trunk: Any, head: Head, mean: Sequence[float], std: Sequence[float], trained: float) -> Any:
    """Pictures 0..255 in any number to logits: normalisation, a copy of the trunk, the head."""
    import keras

    size = int(trunk.inputs[0].shape[1])
    body = keras.models.clone_model(trunk, input_tensors=keras.Input((size, size, 3)))
    body.set_weights(trunk.get_weights())
    body.name = "trunk"
    _freeze(body, trained)
    pictures = keras.Input((size, size, 3), name="pictures")
    normal = keras.layers.Normalization(mean=list(mean), variance=[value**2 for value in std], name="normal")
    dense = keras.layers.Dense(len(head.bias), name="head")
    model = keras.Model(pictures, dense(body(normal(pictures))))
    dense.set_weights([head.weights, head.bias])
    return model


def _freeze(body: Any, trained: float) -> None:
    import keras

    layers = body.layers
    first = round((1.0 - trained) * len(layers))
    for place, layer in enumerate(layers):
        layer.trainable = place >= first and not isinstance(layer, keras.layers.BatchNormalization)


def _class_weights(labels: NDArray[np.int64], classes: int, balance: float) -> NDArray[np.float32]:
    """Return a weight for each class, 1 on average over the pictures."""
    import numpy as np

    counts = np.maximum(np.bincount(labels, minlength=classes), 1).astype(np.float64)
    weights = counts**-balance
    result: NDArray[np.float32] = (weights * counts.sum() / (weights * counts).sum()).astype(np.float32)
    return result


def _plain(knobs: Finetuning) -> Any:
    """The knobs as JSON keeps them, the time limit left out: a resumed run may have another."""
    return json.loads(json.dumps({**asdict(knobs), "seconds": None}))
