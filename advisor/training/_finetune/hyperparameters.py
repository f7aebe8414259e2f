"""Define the hyperparameters of fine-tuning, and those of each recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.core import FINETUNE_ALL, FINETUNE_CACHED, FINETUNE_TOP, recipe_of
from advisor.training._features import Augmentation

MOST_EPOCHS = 24  # of few images: each ends with a validation and a checkpoint
CHANGES = Augmentation(crop=0.6, colour=0.25, mixup=0.2, turn=15.0)

WHOLE_SHARE = 0.95
LAYERS_IN_TIME = ((0.8, 0.5), (0.65, 0.35), (0.0, 0.2))
"""Least share of the seconds of a whole fine-tuning on cached maps, and the share of the layers whose training takes
about as long. Of EfficientNet-Lite0 at 0.61, an epoch takes 23 s and all of it 183 s on one core of a Xeon; at 0.35
they are 14 and 119 s, and at 0.2 they are 7 and 87 s. Chosen on draws that judge nothing, see decision 0141."""

MAPS_SHARE = 0.25
EPOCH_SHARE = {0.5: 0.8, 0.35: 0.61, 0.2: 0.3}
"""Share of the seconds of a whole fine-tuning that its start and its maps take, and the seconds of an epoch of fewer
layers over those of a whole one, from the same times."""

MORE_EPOCHS = 2.0
"""Factor on the epochs of fewer layers. They are cheap, so the time may allow more of them than of a whole training;
the rate falls with the time if it does not."""

LEARNING_RATE = (1e-4, 1.2e-3)
EPOCHS = (10, 30)
CACHED_EPOCHS = (3, 12)
SPACE = {
    "trained": (0.3, 0.9),
    "shrink": (0.55, 1.0),
    "l2_sp": (0.0, 20.0),
    "crop": (0.4, 0.85),
    "mixup": (0.0, 0.6),
    "turn": (0.0, 20.0),
}
"""The ranges of other fields of ``Finetuning`` and ``Augmentation``. A recipe that trains all layers keeps doing so.
One that learns on cached maps keeps its layers and the size of its images."""

_RANDOM_FIRST = 3
_OF_TRAINING = ("trained", "shrink", "l2_sp")


@dataclass(frozen=True)
class Finetuning:
    """The hyperparameters of a fine-tuning."""

    trained: float = 0.65  # share of the backbone's layers that are trained, from the top; 1 is all of them
    cached: bool = False  # whether the maps below the trained layers are computed once and kept, see :mod:`.maps`
    copies: int = 0  # changed copies of each image whose maps are kept too; others change images anew in each epoch
    epochs: int = 18  # largest number of passes over the images
    least_steps: int = 0  # steps that few images get in more epochs, at most ``MOST_EPOCHS``
    # epochs without a better validation accuracy before training stops, from the middle on. With a cosine rate,
    # accuracy falls at first and rises most at the end.
    patience: int = 6
    learning_rate: float = 3e-4  # highest rate of Adam with decoupled weight decay; it falls to 0 along a cosine
    lowest_rate: float = 0.3  # factor on the rate for the lowest trained layer; it rises to 1 at the top
    head_rate: float = 0.3  # factor on the rate for the head
    head_penalty: float = 0.1  # share of its own penalty that the head keeps during training
    weight_decay: float = 1e-4  # decoupled weight decay of the kernels
    # decoupled decay of all weights of the backbone towards their start (Li et al., "Explicit Inductive Bias for
    # Transfer Learning with Convolutional Networks", 2018)
    l2_sp: float = 0.0
    batch: int = 32  # images in a step
    # side of training images over the model's side. Crops show things larger than whole images do, so fewer pixels show
    # them at the size of the whole image (Touvron et al., "Fixing the train-test resolution discrepancy", 2019). The
    # cost falls with the square.
    shrink: float = 1.0
    full_epochs: int = 0  # number of last epochs at the model's own side
    averaging: float = 100.0  # steps of the running mean of the weights that is validated and kept; 1 keeps the last
    label_smoothing: float = 0.1  # share of the target spread over all classes
    balance: float = 0.0  # exponent of the inverse class frequency: 0 weights images equally, 1 classes
    capture: float = 0.0  # share of training images that get a capture condition
    augmentation: Augmentation = CHANGES  # how training images are augmented
    # extra epochs of the network that ships, with validation, as a share of ``epochs``; 0 for none
    more_epochs: float = 0.25
    more_rate: float = 0.3  # factor on the rate in these epochs
    seconds: float | None = None  # time limit; no epoch starts that would end later. None for no limit.
    seed: int = 0  # of shuffling, augmentation and the validation part

    def for_images(self, images: int) -> Finetuning:
        """Return the hyperparameters for so many training images: few of them get more epochs."""
        needed = min(MOST_EPOCHS, -(-self.least_steps // max(1, -(-images // self.batch))))
        epochs = max(self.epochs, needed)
        return replace(self, epochs=epochs, patience=self.patience * epochs // self.epochs)

    def shorten_to(self, share: float) -> Finetuning:
        """Return the hyperparameters for a share (0-1) of the seconds that all of them take.

        A training on cached maps trains fewer layers, so that it comes to its low rates, for more epochs: it ends with
        its time. The others stay as they are.
        """
        if not self.cached or share >= WHOLE_SHARE:
            return self
        layers = next(layers for least, layers in LAYERS_IN_TIME if share >= least)
        if layers >= self.trained:
            return self
        epochs = round(MORE_EPOCHS * self.epochs)
        return replace(self, trained=layers, epochs=epochs, patience=epochs)

    def share_of_seconds(self, trained: float, epochs: int) -> float:
        """Return the seconds of a training that :meth:`shorten_to` made of this one, over those of this one."""
        if trained >= self.trained:
            return 1.0
        epoch_s = EPOCH_SHARE.get(trained, 1.0)
        return MAPS_SHARE + (1.0 - MAPS_SHARE) * epoch_s * epochs / max(1, self.epochs)

    def going_on(self) -> Finetuning:
        """Return the hyperparameters of the extra epochs of the network that ships."""
        epochs = max(1, round(self.more_epochs * self.epochs)) if self.more_epochs else 0
        return replace(self, epochs=epochs, patience=epochs, learning_rate=self.more_rate * self.learning_rate)

    def plain(self) -> dict[str, Any]:
        """Return the hyperparameters as JSON, without the time limit: a resumed run may have another."""
        plain: dict[str, Any] = json.loads(json.dumps({**asdict(self), "seconds": None}))
        return plain


@dataclass(frozen=True)
class TrainingTime:
    """What a time limit means for a fine-tuning beside its own seconds."""

    alone_s: float | None = None  # its limit in seconds if no training follows; None where none follows anyway
    fitted: bool = False  # the limit has chosen its hyperparameters


FINETUNING: Mapping[str, Finetuning] = {
    FINETUNE_CACHED: Finetuning(
        trained=recipe_of(FINETUNE_CACHED).layers,
        cached=True,
        copies=2,
        epochs=6,
        least_steps=120,
        learning_rate=1e-3,
        averaging=50.0,
        augmentation=Augmentation(crop=0.8, colour=0.1, mixup=0.0),
    ),
    FINETUNE_TOP: Finetuning(trained=recipe_of(FINETUNE_TOP).layers),
    FINETUNE_ALL: Finetuning(trained=recipe_of(FINETUNE_ALL).layers, lowest_rate=0.1),
}
"""The hyperparameters of each recipe by its name. ``finetune_cached`` trains on maps of the lower layers, about two
thirds of the MACs of a mobile network; ``finetune_all`` trains the first layers at a low rate."""


class Trials:
    """Suggests hyperparameters from the results so far. Equal seeds and results give equal suggestions.

    The first suggestion is the recipe's own hyperparameters, so that no study ends below them. A few random ones
    follow, then those of the tree-structured Parzen estimator (Bergstra et al., 2011), Optuna's default.
    """

    def __init__(self, base: Finetuning, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1 + _RANDOM_FIRST)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._base = base
        self._told = list[tuple[float, Finetuning]]()
        values = {**asdict(base), **asdict(base.augmentation)}
        spans = {"learning_rate": LEARNING_RATE, **SPACE}
        turned = {name: span for name, span in spans.items() if self._is_tuned(name)}
        start_values = {name: min(max(float(values[name]), low), high) for name, (low, high) in turned.items()}
        self._study.enqueue_trial({**start_values, "epochs": base.epochs})
        self._asked: Any = None

    def ask(self) -> Finetuning:
        """Return the next hyperparameters to train with."""
        self._asked = trial = self._study.ask()
        rate = trial.suggest_float("learning_rate", *LEARNING_RATE, log=True)
        epochs = trial.suggest_int("epochs", *(CACHED_EPOCHS if self._base.cached else EPOCHS))
        suggested = {name: trial.suggest_float(name, *span) for name, span in SPACE.items() if self._is_tuned(name)}
        of_training: dict[str, Any] = {name: suggested.pop(name) for name in _OF_TRAINING if name in suggested}
        changes = replace(self._base.augmentation, **suggested)
        return replace(self._base, learning_rate=rate, epochs=epochs, augmentation=changes, **of_training)

    def tell(self, hyperparameters: Finetuning, accuracy: float) -> None:
        """Record the validation accuracy (0-1) of the last suggestion."""
        self._study.tell(self._asked, accuracy)
        self._told.append((accuracy, hyperparameters))

    @property
    def best(self) -> Finetuning:
        """The hyperparameters with the best result; the first of equal ones."""
        return max(self._told, key=lambda result: result[0])[1]

    def _is_tuned(self, name: str) -> bool:
        fixed = ("trained", "shrink") if self._base.cached else ("trained",) if self._base.trained >= 1.0 else ()
        return name not in fixed
