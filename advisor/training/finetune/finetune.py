"""Fine-tuning in Keras: backbone and head of all levels learn together, the best epoch on a validation part is kept.

Starting from a trained head protects the backbone from a random head's gradients (Kumar et al., "Fine-Tuning
can Distort Pretrained Features", 2022). BatchNorm keeps the statistics of its pretraining: a small set's batches would
spoil them, and the phone folds them into the convolutions in any case. What is validated and kept is the running mean
of the weights (Polyak averaging): single steps scatter around it.

What ships learns a few epochs more, from the validation part too: as a head that ships is fitted to both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError
from advisor.training.batches import Batches
from advisor.training.finetune import network
from advisor.training.finetune.data import FinetuneData, begin, class_weights
from advisor.training.finetune.hyperparameters import FINETUNE_ALL, FINETUNE_TOP, Finetuning
from advisor.training.finetune.optimizer import Step
from advisor.training.head.train import GRID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FINETUNE_ALL", "FINETUNE_TOP", "VERSION", "WEIGHTS", "Finetuned", "Finetuning", "finetune"]

VERSION = 3
"""Raised whenever equal images and hyperparameters would give another network."""

WEIGHTS = "best.weights.h5"
"""The network with its head, in the folder of a fine-tuning."""


@dataclass(frozen=True, eq=False)
class Finetuned:
    """What came of it.

    Attributes:
        weights: float32 (F, C) of the head.
        bias: float32 (C,).
        levels: whether the head reads the features of the backbone's levels behind its own.
        validation_accuracy: share (0-1) of the validation part classified rightly by the epoch that was kept. That
            epoch was chosen by it, which flatters it slightly.
        start_accuracy: the same of the backbone and head that it began with.
        history: validation accuracy and training loss of each epoch.
        best_epoch: 0-based; -1 where no epoch was better than the start.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    levels: bool
    validation_accuracy: float
    start_accuracy: float
    history: tuple[dict[str, float], ...]
    best_epoch: int


def finetune(
    backbone: Any,
    lesson: FinetuneData,
    hyperparameters: Finetuning,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    after: Path | None = None,
) -> Finetuned:
    """Train ``backbone`` (changed in place) and a head behind it on the training part.

    Every epoch leaves a checkpoint in ``folder``; called again with the same arguments it goes on after the last
    one. The folder belongs to one backbone and one set of images: name it by the hash of both.

    Args:
        backbone: ``keras.Model`` from one normalised image (1, S, S, 3) to features (1, F).
        lesson: what it learns from.
        hyperparameters: see :class:`Finetuning`.
        folder: for checkpoints and decoded images.
        progress: called with (epochs done, epochs at most).
        after: :data:`WEIGHTS` that an earlier call with these arguments left in its folder, to go on from with the
            validation part too; nothing is validated then, and the last mean of the weights is kept.

    Raises:
        StageError: the loss is no number any more, or an image cannot be read.
    """
    session = _Session(backbone, lesson, hyperparameters, folder, after)
    session.resume()
    while session.goes_on():
        session.run_epoch()
        if progress:
            progress(len(session.history), session.epochs)
    return session.finish(backbone)


class _Session:
    """The state of one fine-tuning: model, optimizer, history, and the best weights so far, all kept on disk."""

    def __init__(
        self, backbone: Any, lesson: FinetuneData, hyperparameters: Finetuning, folder: Path, after: Path | None
    ) -> None:
        import numpy as np

        folder.mkdir(parents=True, exist_ok=True)
        self._knobs, self._folder = (hyperparameters if after is None else hyperparameters.going_on()), folder
        self.epochs = self._knobs.epochs
        self._size = lesson.view.size
        self._batches = Batches(lesson.images, lesson.labels, self._size, folder / "pictures.npy")
        targets, unseen = np.asarray(lesson.labels, dtype=np.int64), lesson.unseen(hyperparameters.seed)
        self._start = begin(backbone, lesson, ~unseen, hyperparameters.seed)
        self._train, self._validation = np.flatnonzero(~unseen), np.flatnonzero(unseen)
        strength = max(self._start.head.regularization, GRID[0])
        penalty = hyperparameters.head_penalty / (strength * len(self._train))
        if after is not None:
            self._train, self._validation = np.arange(len(targets)), self._validation[:0]
        self._sample_weights = class_weights(targets[self._train], int(targets.max()) + 1, hyperparameters.balance)
        self._model = network.build(backbone, self._start, lesson.view, hyperparameters.trained)
        if after is not None:
            self._model.load_weights(after)
        self._step = Step(self._model, self._knobs, len(self._train), penalty)
        self.history: list[dict[str, float]] = []
        self._best_epoch, self._best = -1, 0.0
        self._at_first = 0.0
        self._began = time.monotonic()

    def resume(self) -> None:
        """Take up the last checkpoint, or note where it starts from."""
        state = self._folder / "state.json"
        if state.exists():
            kept = json.loads(state.read_text())
            if kept["hyperparameters"] == self._knobs.plain():
                self.history, self._best_epoch = kept["history"], kept["best_epoch"]
                self._best, self._at_first = kept["best"], kept["start"]
                self._step.restore(self._folder / f"epoch-{len(self.history)}")
                return
        self._at_first = self._best = self._validate()
        self._keep_best()
        self._save()

    def goes_on(self) -> bool:
        """Whether another epoch may be worth it and fits the time."""
        done, found = len(self.history), [row["validation_accuracy"] for row in self.history]
        since = done - 1 - found.index(max(found)) if found else 0
        stalled = 2 * done >= self._knobs.epochs and since >= self._knobs.patience
        if done >= self._knobs.epochs or stalled:
            return False
        if self._knobs.seconds is None:
            return True
        longest = max((row["seconds"] for row in self.history), default=0.0)
        return time.monotonic() - self._began + longest <= self._knobs.seconds

    def run_epoch(self) -> None:
        """Train once over the training images, validate, keep what is best, leave a checkpoint."""
        started, number = time.monotonic(), len(self.history)
        loss = self._train_once(number)
        self._step.swap()
        accuracy = self._validate()
        if accuracy > self._best or not len(self._validation):
            self._best, self._best_epoch = accuracy, number
            self._keep_best()
        self._step.swap()
        seconds = round(time.monotonic() - started, 3)
        self.history.append({"loss": loss, "validation_accuracy": accuracy, "seconds": seconds})
        self._save()

    def _train_once(self, number: int) -> float:
        """Train for one epoch; return the mean loss."""
        import numpy as np

        hyperparameters = self._knobs
        whole = number >= hyperparameters.epochs - hyperparameters.full_epochs
        side = network.training_side(self._model, self._size, 1.0 if whole else hyperparameters.shrink)
        order = np.random.default_rng([hyperparameters.seed, number]).permutation(self._train)
        losses = []
        batches = self._batches.epoch(
            order, hyperparameters.batch, hyperparameters.capture, (hyperparameters.seed, number)
        )
        for place, (images, labels) in enumerate(batches):
            weights = self._sample_weights[labels]
            losses.append(self._step.run(images, labels, weights, (hyperparameters.seed + number, place), side))
        loss = float(np.mean([float(value) for value in losses]))
        if not np.isfinite(loss):
            raise StageError(f"fine-tuning diverged in epoch {number + 1}", "lower the learning rate")
        return loss

    def finish(self, backbone: Any) -> Finetuned:
        """Put the best epoch's weights into ``backbone`` and return the rest."""
        self._model.load_weights(self._folder / WEIGHTS)
        weights, bias = network.parts(self._model, backbone, self._start)
        levels, history = bool(self._start.levels), tuple(self.history)
        return Finetuned(weights, bias, levels, self._best, self._at_first, history, self._best_epoch)

    def _validate(self) -> float:
        right = 0
        for images, labels in self._batches.epoch(self._validation, self._knobs.batch):
            right += int((self._step.predict(images).argmax(axis=1) == labels).sum())
        return right / max(1, len(self._validation))

    def _keep_best(self) -> None:
        self._model.save_weights(self._folder / WEIGHTS)

    def _save(self) -> None:
        """Write the checkpoint before the state that points to it, and remove the one before."""
        done = len(self.history)
        self._step.save(self._folder / f"epoch-{done}")
        state = {"hyperparameters": self._knobs.plain(), "history": self.history, "best_epoch": self._best_epoch}
        partial = self._folder / "state.partial"
        partial.write_text(json.dumps({**state, "best": self._best, "start": self._at_first}))
        partial.replace(self._folder / "state.json")
        for old in self._folder.glob("epoch-*"):
            if old.name.split(".")[0] != f"epoch-{done}":
                old.unlink()
