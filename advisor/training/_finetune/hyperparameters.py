"""List the hyperparameters of each fine-tuning recipe, and search for better ones.

A stage of the search reads ``FINETUNING`` by the name of the recipe; with several trials for a
card, :class:`Trials` suggests those after the first. A changed value gives other networks: raise
``FINETUNE_VERSION`` with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.core import TrainingName, recipe_of
from advisor.training._augmentation import Augmentation
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._loop import Reserve

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
"""The ranges of other fields of ``Finetuning`` and ``Augmentation``. A recipe that trains all
layers keeps doing so. One that learns on cached maps keeps its layers and the size of its images.
"""

_RANDOM_FIRST = 3
_OF_TRAINING = ("trained", "shrink", "l2_sp")

FINETUNING: Mapping[str, Finetuning] = {
    TrainingName.FINETUNE_CACHED: Finetuning(
        trained=recipe_of(TrainingName.FINETUNE_CACHED).layers,
        cached=recipe_of(TrainingName.FINETUNE_CACHED).cached,
        copies=2,
        epochs=6,
        least_steps=120,
        learning_rate=1e-3,
        averaging=50.0,
        augmentation=Augmentation(crop=0.8, colour=0.1, mixup=0.0),
    ),
    TrainingName.FINETUNE_TOP: Finetuning(trained=recipe_of(TrainingName.FINETUNE_TOP).layers),
    TrainingName.FINETUNE_ALL: Finetuning(
        trained=recipe_of(TrainingName.FINETUNE_ALL).layers, lowest_rate=0.1
    ),
}
"""The hyperparameters of each recipe by its name. ``finetune_cached`` trains on maps of the lower
layers, about two thirds of the MACs of a mobile network; ``finetune_all`` trains the first layers
at a low rate.
"""


@dataclass(frozen=True)
class TrainingTime:
    """Effect of a time limit on a fine-tuning, beside its own seconds."""

    # Its limit in seconds if no training follows; None where none follows anyway.
    alone_s: float | None = None
    fitted: bool = False  # the limit has chosen its hyperparameters
    reserve: Reserve | None = None  # what the limit keeps for the work after it; None for no limit


class Trials:
    """Suggests hyperparameters from the results so far, equal ones for equal seeds and results.

    The first suggestion is the recipe's own hyperparameters, so that no study ends below them. A
    few random ones follow, then those of the tree-structured Parzen estimator (Bergstra et al.,
    2011), Optuna's default.
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
        start_values = {}
        for name, (low, high) in spans.items():
            # The recipe's value may lie outside of its range, and Optuna refuses such a trial.
            if self._is_tuned(name):
                start_values[name] = min(max(float(values[name]), low), high)
        self._study.enqueue_trial({**start_values, "epochs": base.epochs})
        self._asked: Any = None

    def ask(self) -> Finetuning:
        """Return the next hyperparameters to train with."""
        self._asked = trial = self._study.ask()
        rate = trial.suggest_float("learning_rate", *LEARNING_RATE, log=True)
        epochs = trial.suggest_int("epochs", *(CACHED_EPOCHS if self._base.cached else EPOCHS))
        suggested = {}
        for name, span in SPACE.items():
            if self._is_tuned(name):
                suggested[name] = trial.suggest_float(name, *span)
        of_training = dict[str, Any]()
        for name in _OF_TRAINING:
            if name in suggested:
                of_training[name] = suggested.pop(name)
        changes = replace(self._base.augmentation, **suggested)
        return replace(
            self._base, learning_rate=rate, epochs=epochs, augmentation=changes, **of_training
        )

    def tell(self, hyperparameters: Finetuning, accuracy: float) -> None:
        """Record the validation accuracy (0-1) of the last suggestion."""
        self._study.tell(self._asked, accuracy)
        self._told.append((accuracy, hyperparameters))

    @property
    def best(self) -> Finetuning:
        """The hyperparameters with the best result; the first of equal ones."""
        return max(self._told, key=lambda result: result[0])[1]

    def _is_tuned(self, name: str) -> bool:
        if self._base.cached:
            return name not in ("trained", "shrink")
        return name != "trained" or self._base.trained < 1.0
