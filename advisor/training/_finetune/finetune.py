"""Train backbone and head in Keras, and keep the best epoch on a validation part.

:func:`finetune` is one training; `_finetune` calls it for a card. On cached maps, the last good
epoch is kept. The files in its folder (checkpoints, ``state.json``, ``best.npz``) are read by
later calls: a change of them, or of the network, raises ``FINETUNE_VERSION``.

A trained head at the start protects the backbone from a random head's gradients (Kumar et al.,
"Fine-Tuning can Distort Pretrained Features", 2022). BatchNorm keeps its pretrained statistics, as
the batches of a small set are too noisy for them, and conversion folds them into the convolutions.
The running mean of the weights (Polyak averaging) is validated and kept. The network that ships is
trained for a few epochs more, with the validation part too, like a head that ships.
"""

from __future__ import annotations

import json
import math
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError, UsageError, parse
from advisor.measurement import label_precision
from advisor.training._batches import Batches
from advisor.training._cut_maps import find_cut_maps
from advisor.training._features import Pixels
from advisor.training._finetune import network
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._finetune.halves import Halves, halve_network
from advisor.training._finetune.hyperparameters import TrainingTime
from advisor.training._finetune.maps import MapBatches, Maps, PlainMaps
from advisor.training._finetune.network import FinetuneData, first_head
from advisor.training._loop import Timer, run_training
from advisor.training._steps import read_variables, write_variables

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Raised when equal images and hyperparameters give another network, or the weights another file.
FINETUNE_VERSION = 14
# Share of the steps by which a training may be behind its time before the limit shortens it.
BEHIND = 0.05
# Steps after which a training knows its seconds.
PRICED = 10
# File name of the network with its head, in the folder of a fine-tuning.
WEIGHTS_FILE = "best.npz"
# File name of the progress, which points to the last checkpoint.
STATE = "state.json"


@dataclass(frozen=True)
class FinetuneProgress:
    """Progress of a fine-tuning."""

    hyperparameters: Mapping[str, object]  # of the training, without the time limit
    history: tuple[Mapping[str, float], ...]  # loss, validation accuracy and seconds of each epoch
    best_epoch: int  # index of the best epoch, -1 for the start
    best: float  # its validation accuracy (0-1)
    start: float  # validation accuracy before the first epoch (0-1)
    # A time limit lowered the rate early, so that another limit must not continue from here.
    shortened: bool = False
    spent_s: float = 0.0  # its seconds so far
    # Those of all epochs that are left, without a time limit; 0 before PRICED steps.
    rest_s: float = 0.0


def read_progress(folder: Path) -> FinetuneProgress | None:
    """Return the progress of the training in ``folder``; None if it is missing or damaged."""
    try:
        text = (folder / STATE).read_text(encoding="utf-8")
        # A loss that is not finite has no epoch to go on from.
        document = json.loads(text, parse_constant=_refuse_constant)
        progress: FinetuneProgress = parse(FinetuneProgress, document)
    except (OSError, UsageError, TypeError, ValueError, RecursionError):
        return None
    return progress


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


@dataclass(frozen=True, eq=False)
class Finetuned:
    """The result of a fine-tuning."""

    weights: NDArray[np.float32]  # float32 (F, C) of the head
    bias: NDArray[np.float32]  # float32 (C,)
    levels: bool  # whether the head also reads the features of the backbone's levels
    #: share (0-1) that the epoch that was kept classifies correctly, or its mean average
    #: precision; too high, as it chose the epoch
    validation_accuracy: float
    start_accuracy: float  # the same for the backbone and head at the start
    history: tuple[Mapping[str, float], ...]  # validation accuracy and training loss of each epoch
    best_epoch: int  # 0-based; -1 if no epoch was better than the start
    #: the limit ended it, and a later call continues it; or the limit shortened it, or it took the
    #: time of the training that ships: a later call begins it anew.
    out_of_time: bool = False
    # A limit left no time for the maps of all changed copies: a later call begins it anew.
    fewer_copies: bool = False


def finetune(
    backbone: keras.Model,
    data: FinetuneData,
    hyperparameters: Finetuning,
    folder: Path,
    after: Path | None = None,
    maps: Path | None = None,
    limit: TrainingTime | None = None,
) -> Finetuned:
    """Train ``backbone`` (in place) and its head.

    The backbone goes from one normalised image (1, S, S, 3) to features (1, F). Every epoch writes
    a checkpoint into ``folder``, one for each backbone and set of images. A call with the same
    arguments continues after the last one. ``after`` names :data:`WEIGHTS_FILE` of an earlier call
    with these arguments, to continue from with the validation part too: nothing is validated then,
    and the last mean of the weights is kept. ``maps`` is the folder for the maps of the frozen
    layers, which the call with ``after`` reads again; None for ``folder``. ``limit`` says what a
    time limit means beside ``hyperparameters.seconds``: a training that these would shorten takes
    its ``alone_s``, and its network ships as it is. Raises StageError if the loss is not finite,
    an image cannot be read, or the checkpoint is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    session = _Session(
        backbone, data, hyperparameters, folder, after, maps or folder, limit or TrainingTime()
    )
    session.resume()
    run_training(session)
    return session.finish(backbone)


def weigh_classes(
    targets: NDArray[np.int64], train: NDArray[np.intp], balance: float
) -> NDArray[np.float32]:
    """Return the weight of each class, with a mean of 1 over the images ``train``.

    It is 1 for all if ``balance`` is 0.
    """
    images_of_classes = np.bincount(targets[train], minlength=int(targets.max()) + 1)
    counts = np.maximum(images_of_classes, 1).astype(np.float64)
    weights = counts**-balance
    return np.asarray((weights * counts.sum() / (weights * counts).sum()).astype(np.float32))


def _read_maps(
    halves: Halves,
    images: Batches,
    data: FinetuneData,
    hyperparameters: Finetuning,
    folder: Path,
    alone_s: float | None,
) -> MapBatches:
    """Return the maps of the images; those without a change may lie beside their features."""
    limit_s = hyperparameters.seconds if alone_s is None else alone_s
    # Without a limit, equal searches give equal networks, whatever the cache has.
    of_cuts = [] if limit_s is None else list(find_cut_maps(data.files, halves.cut, len(images)))
    plain = PlainMaps(halves, data.features, of_cuts) if of_cuts else None
    changing = None if hyperparameters.judged_copies else np.flatnonzero(~data.unseen)
    return MapBatches(halves.lower, images, hyperparameters, folder, limit_s, plain, changing)


class _Session:
    """The state of one fine-tuning: model, optimizer, history and best weights, saved on disk.

    It is the training that :func:`.run_training` performs.
    """

    def __init__(
        self,
        backbone: keras.Model,
        data: FinetuneData,
        hyperparameters: Finetuning,
        folder: Path,
        after: Path | None,
        maps: Path,
        limit: TrainingTime,
    ) -> None:
        from advisor.training._finetune.optimizer import Optimizer

        self._time = Timer(hyperparameters.seconds, limit.reserve)
        self.out_of_time = False
        self._shortened = False
        # None where nothing follows, or once this training has taken the time of what follows.
        self._alone_s = limit.alone_s
        self._ships_itself = False
        self._fewer_copies = False
        self._hyperparameters = hyperparameters if after is None else hyperparameters.going_on()
        self._folder = folder
        self._size = data.spec.size
        targets = np.asarray(data.labels, dtype=np.int64)
        start, strength = first_head(backbone, data, ~data.unseen, hyperparameters)
        self._start = start
        self._train = np.flatnonzero(~data.unseen)
        self._validation = np.flatnonzero(data.unseen)
        # `C` of scikit-learn multiplies the summed loss, and the loss here is a mean over images.
        penalty = hyperparameters.head_penalty / (strength * len(self._train))
        self._model = network.build_network(
            backbone, start, data.spec, hyperparameters.trained, hyperparameters.cached
        )
        if after is not None:
            self._train = np.arange(len(targets))
            self._validation = self._validation[:0]
            read_variables(self._model.weights, after)
        self._class_weights = None
        if not data.of_labels:
            self._class_weights = weigh_classes(targets, self._train, hyperparameters.balance)
        self._changed = hyperparameters.capture
        if hyperparameters.cached:
            taught = self._prepare_maps(data, hyperparameters, maps, limit.alone_s)
        else:
            decoded = folder / "pictures.npy"
            self._batches: Batches | MapBatches = Batches(
                data.images, data.labels, self._size, decoded
            )
            taught = self._model
        self._optimizer = Optimizer(taught, self._hyperparameters, len(self._train), penalty)
        self.history: list[Mapping[str, float]] = []
        self._best_epoch = -1
        self._best = 0.0
        self._start_accuracy = 0.0
        self._validation_s = 0.0
        self._epoch_began = 0.0
        self._before_s = 0.0
        self._spent_s = 0.0
        self._rest_s = 0.0
        self._stepped = 0.0

    def _prepare_maps(
        self,
        data: FinetuneData,
        hyperparameters: Finetuning,
        folder: Path,
        alone_s: float | None,
    ) -> keras.Model:
        """Read or compute the maps of the frozen layers; return the part that learns on them."""
        # Each image is decoded once for its maps, so it needs no file of pixels.
        images = Batches(data.images, data.labels, self._size, None)
        rows = (1 + hyperparameters.copies) * len(images)
        halves = halve_network(self._model, rows, self._start.levels)
        cached_maps = _read_maps(halves, images, data, hyperparameters, folder, alone_s)
        # All copies of an image are equally likely, the unchanged one included.
        self._changed = cached_maps.copies / (1 + cached_maps.copies)
        self._batches = cached_maps
        self._fewer_copies = cached_maps.copies < hyperparameters.copies
        return halves.upper

    def resume(self) -> None:
        """Restore the last checkpoint, or record the accuracy at the start."""
        progress = read_progress(self._folder)
        continues = (
            progress is not None
            and not progress.shortened
            and progress.hyperparameters == self._hyperparameters.plain()
        )
        if progress is not None and continues:
            self.history = list(progress.history)
            self._best_epoch = progress.best_epoch
            self._best = progress.best
            self._start_accuracy = progress.start
            self._before_s = progress.spent_s
            place = self._folder / f"epoch-{len(self.history)}"
            try:
                self._optimizer.restore(place)
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
                # Without the state, the next call starts anew.
                (self._folder / STATE).unlink()
                message = f"the checkpoint of fine-tuning is damaged: {place.name} cannot be read"
                raise StageError(message, "run the same command again") from error
            return
        self._start_accuracy = self._validate()
        self._best = self._start_accuracy
        # The share of the time counts from the first step on.
        self._time.restart_share()
        write_variables(self._model.weights, self._folder / WEIGHTS_FILE)
        self._save_checkpoint()

    def goes_on(self) -> bool:
        """Return whether to run another epoch: it may still improve, and there is time."""
        done = len(self.history)
        accuracies = [row["validation_accuracy"] for row in self.history]
        since = 0
        if accuracies:
            since = done - 1 - accuracies.index(max(accuracies))
        # A cosine rate gains most at its end: no training is ended as stalled in its first half.
        in_second_half = 2 * done >= self._hyperparameters.epochs
        stalled = in_second_half and since >= self._hyperparameters.patience
        if done >= self._hyperparameters.epochs or stalled:
            return False
        return not (self.out_of_time or self.is_late())

    def is_late(self) -> bool:
        """Return whether the rest of the time is needed to validate the training."""
        self.out_of_time = self._time.is_over(self._validation_s)
        return self.out_of_time

    def batches(self) -> Iterator[tuple[Pixels | Maps, NDArray[np.int64]]]:
        """Yield the images or maps of the next epoch, and their labels."""
        hyperparameters = self._hyperparameters
        number = len(self.history)
        self._epoch_began = time.monotonic()
        order = np.random.default_rng([hyperparameters.seed, number]).permutation(self._train)
        return self._batches.epoch(
            order, hyperparameters.batch, self._changed, (hyperparameters.seed, number)
        )

    def step(self, batch: tuple[Pixels | Maps, NDArray[np.int64]], place: int) -> tf.Tensor:
        """Train on a batch and return its loss."""
        images, labels = batch
        hyperparameters = self._hyperparameters
        number = len(self.history)
        # The last epochs see images of the size that the app gives.
        at_full_size = number >= hyperparameters.epochs - hyperparameters.full_epochs
        shrink = 1.0 if at_full_size else hyperparameters.shrink
        side = network.training_side(self._model, self._size, shrink)
        epochs_done = number + place * hyperparameters.batch / len(self._train)
        # The rate falls with the time then.
        if self._is_shortened(epochs_done / hyperparameters.epochs):
            spent = self._time.compute_share_spent(self._validation_s)
            self._optimizer.spent.assign(min(1.0, spent))
        if not number and place in (1, PRICED):
            self._estimate_after(place)
        seed = hyperparameters.seed + number, place
        weights = np.ones(len(labels), np.float32)
        if self._class_weights is not None:
            weights = self._class_weights[labels]
        return self._optimizer.run(images, labels, weights, seed, side)

    def _is_shortened(self, share_done: float) -> bool:
        """Return whether the limit shortens this training, given the share of its done steps.

        Before it does, the training takes the time of the one that would follow. Half of a
        training with the validation images gains less than twice the epochs without them.
        """
        late = self._shortened or self._is_behind(share_done)
        if late and self._alone_s is not None:
            self._time.extend_limit(self._alone_s)
            self._alone_s = None
            self._ships_itself = True
            late = self._shortened or self._is_behind(share_done)
        self._shortened = late
        return late

    def _is_behind(self, share_done: float) -> bool:
        return self._time.compute_share_spent(self._validation_s) > share_done + BEHIND

    def _estimate_after(self, place: int) -> None:
        """Write how long all epochs will take, after the steps 1, which compiles, and PRICED."""
        now = time.monotonic()
        if place == PRICED:
            self._estimate_rest((now - self._stepped) / (PRICED - 1), PRICED, now)
            self._write_state()
        self._stepped = now

    def _estimate_rest(self, step_s: float, steps: int, now: float) -> None:
        """Note the seconds so far, and those of all steps and validations after ``steps``."""
        epochs = self._hyperparameters.epochs
        whole = epochs * -(-len(self._train) // self._hyperparameters.batch)
        self._spent_s = self._before_s + now - self._time.began
        self._rest_s = (1 - steps / whole) * (whole * step_s + epochs * self._validation_s)

    def end_epoch(self, losses: Sequence[tf.Tensor]) -> None:
        """Validate, keep the best weights and write a checkpoint.

        An epoch that the time limit ended has no checkpoint.
        """
        number = len(self.history)
        loss = float(np.mean(list(map(float, losses))))
        if not np.isfinite(loss):
            raise StageError(
                f"fine-tuning diverged in epoch {number + 1}", "lower the learning rate"
            )
        self._optimizer.swap_means()
        accuracy = self._validate()
        # Without a validation part, as for the network that ships, the last mean is kept.
        if self._is_kept(accuracy) or not len(self._validation):
            self._best = accuracy
            self._best_epoch = number
            write_variables(self._model.weights, self._folder / WEIGHTS_FILE)
        self._optimizer.swap_means()
        if self.out_of_time:
            self._write_state()
            return
        now = time.monotonic()
        seconds = round(now - self._epoch_began, 3)
        self.history.append({"loss": loss, "validation_accuracy": accuracy, "seconds": seconds})
        step_s = (seconds - self._validation_s) / len(losses)
        self._estimate_rest(step_s, len(losses) * len(self.history), now)
        self._save_checkpoint()

    def _is_kept(self, accuracy: float) -> bool:
        """Return whether an epoch with this validation accuracy replaces the best so far.

        Of equal epochs it is the later one, and of equals the start. On cached maps a later epoch
        is kept unless it is worse than the best, or the start, by a standard error: its rate is
        lower, and few images tell epochs apart by chance alone. Whether the network is better than
        its head is decided later, by all that is known of both.
        """
        # The best of all, not the epoch that is kept: else the accuracy could fall step by step.
        best = max([self._best, *(row["validation_accuracy"] for row in self.history)])
        if self._hyperparameters.cached:
            variance = max(0.0, best * (1.0 - best))
            error = math.sqrt(variance / max(1, len(self._validation)))
            return accuracy >= max(best, self._start_accuracy) - error
        later = self._shortened or self._best_epoch >= 0
        return accuracy > self._best or (later and accuracy == self._best)

    def finish(self, backbone: keras.Model) -> Finetuned:
        """Load the best weights, copy the backbone's into ``backbone``; return the result."""
        read_variables(self._model.weights, self._folder / WEIGHTS_FILE)
        weights, bias = network.copy_parts(self._model, backbone, self._start)
        levels = bool(self._start.levels)
        history = tuple(self.history)
        return Finetuned(
            weights=weights,
            bias=bias,
            levels=levels,
            validation_accuracy=self._best,
            start_accuracy=self._start_accuracy,
            history=history,
            best_epoch=self._best_epoch,
            out_of_time=self.out_of_time or self._shortened or self._ships_itself,
            fewer_copies=self._fewer_copies,
        )

    def _validate(self) -> float:
        """Return the accuracy on the validation part, or the mean average precision of labels."""
        began = time.monotonic()
        logits = []
        truth = []
        for images, labels in self._batches.epoch(self._validation, self._hyperparameters.batch):
            logits.append(self._optimizer.predict(images))
            truth.append(labels)
        self._validation_s = time.monotonic() - began
        if not logits:
            return 0.0
        rows = np.concatenate(logits)
        known = np.concatenate(truth)
        # An image has one class, or a row of labels.
        if known.ndim > 1:
            return label_precision.mean_precision(known.astype(np.int8), rows)
        return float((rows.argmax(axis=1) == known).mean())

    def _save_checkpoint(self) -> None:
        """Write the checkpoint, then the state that points to it, and remove the previous one."""
        done = len(self.history)
        self._optimizer.save(self._folder / f"epoch-{done}")
        self._write_state()
        for old in self._folder.glob("epoch-*"):
            if old.name.split(".")[0] != f"epoch-{done}":
                old.unlink()

    def _write_state(self) -> None:
        state = FinetuneProgress(
            hyperparameters=self._hyperparameters.plain(),
            history=tuple(self.history),
            best_epoch=self._best_epoch,
            best=self._best,
            start=self._start_accuracy,
            shortened=self._shortened,
            spent_s=self._spent_s,
            rest_s=self._rest_s,
        )
        partial = self._folder / "state.partial"
        partial.write_text(json.dumps(asdict(state)))
        # The state names the checkpoint and is replaced last: a kill leaves one of the two pairs.
        partial.replace(self._folder / STATE)
