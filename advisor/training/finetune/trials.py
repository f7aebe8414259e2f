"""Tune the hyperparameters of fine-tuning with an Optuna study: one training a trial, scored on validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from advisor.training.finetune.hyperparameters import Finetuning

LEARNING_RATE = (1e-4, 1.2e-3)
EPOCHS, CACHED_EPOCHS = (10, 30), (3, 12)
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


class Trials:
    """Suggests hyperparameters from the results so far. Equal seeds and results give equal suggestions.

    The first suggestion is the recipe's own hyperparameters, so that no study ends below them. A few random ones
    follow, then those of the tree-structured Parzen estimator (Bergstra et al., 2011), Optuna's default.

    Args:
        base: the recipe's own hyperparameters.
        seed: of the draws.
    """

    def __init__(self, base: Finetuning, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=1 + _RANDOM_FIRST)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._base, self._told = base, list[tuple[float, Finetuning]]()
        self._study.enqueue_trial(self._own())
        self._asked: Any = None

    def ask(self) -> Finetuning:
        """Return the next hyperparameters to train with."""
        self._asked = trial = self._study.ask()
        rate = trial.suggest_float("learning_rate", *LEARNING_RATE, log=True)
        epochs = trial.suggest_int("epochs", *(CACHED_EPOCHS if self._base.cached else EPOCHS))
        found = {name: trial.suggest_float(name, *span) for name, span in SPACE.items() if self._turned(name)}
        own: dict[str, Any] = {name: found.pop(name) for name in _OF_TRAINING if name in found}
        changes = replace(self._base.augmentation, **found)
        return replace(self._base, learning_rate=rate, epochs=epochs, augmentation=changes, **own)

    def tell(self, hyperparameters: Finetuning, accuracy: float) -> None:
        """Record the validation accuracy (0-1) of the last suggestion."""
        self._study.tell(self._asked, accuracy)
        self._told.append((accuracy, hyperparameters))

    @property
    def best(self) -> Finetuning:
        """The hyperparameters with the best result; the first of equal ones."""
        return max(self._told, key=lambda told: told[0])[1]

    def _own(self) -> dict[str, float]:
        holders = {name: self._base if name in _OF_TRAINING else self._base.augmentation for name in SPACE}
        values = {name: float(getattr(holder, name)) for name, holder in holders.items() if self._turned(name)}
        own = {name: _within(value, SPACE[name]) for name, value in values.items()}
        return {**own, "learning_rate": _within(self._base.learning_rate, LEARNING_RATE), "epochs": self._base.epochs}

    def _turned(self, name: str) -> bool:
        if self._base.cached:
            return name not in ("trained", "shrink")
        return name != "trained" or self._base.trained < 1.0


def _within(value: float, span: tuple[float, float]) -> float:
    return min(max(value, span[0]), span[1])
