"""The hyperparameters of fine-tuning, and the two settings that have names."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.training.augment import Augmentation

CHANGES = Augmentation(crop=0.6, colour=0.25, mixup=0.2, turn=15.0)


@dataclass(frozen=True)
class Finetuning:
    """The hyperparameters.

    Attributes:
        trained: share of the backbone's layers that learn, from the top; 1 is all of them.
        epochs: passes over the images at most.
        patience: epochs that do not surpass the best one before them on validation, after which it stops, from the
            middle on: a cosine gains most at its end, and falls below its start at first.
        learning_rate: of Adam with decoupled weight decay, at its highest; falls to nothing along a cosine.
        lowest_rate: share of the rate at which the lowest of the layers that learn do; it rises to 1 at the top.
        head_rate: share of the rate at which the head learns.
        head_penalty: share of its own penalty that the head keeps while it learns.
        weight_decay: of the same.
        batch: images a step.
        shrink: share of the model's side that training images have. Crops show things larger than whole images do,
            so that fewer pixels show them as large as the whole image will (Touvron et al., "Fixing the train-test
            resolution discrepancy", 2019), at shrink squared of the price.
        full_epochs: last epochs that run at the model's own side all the same.
        averaging: memory, in steps, of the running mean of the weights that is validated and kept; 1 keeps the last.
        label_smoothing: share of the target spread over all classes.
        balance: exponent of the inverse class frequency by which images are weighted: 0 all alike, 1 classes alike.
        capture: share of the training images that is changed as a phone's camera may change them.
        augmentation: how far training images are changed besides.
        more_epochs: share of the epochs that what ships goes on for, with the validation part too.
        more_rate: share of the rate at which it does.
        seconds: no epoch is begun that would end later than this; None for no limit.
        seed: of shuffling, augmentation and the validation part.
    """

    trained: float = 0.65
    epochs: int = 18
    patience: int = 6
    learning_rate: float = 3e-4
    lowest_rate: float = 0.3
    head_rate: float = 0.3
    head_penalty: float = 0.1
    weight_decay: float = 1e-4
    batch: int = 32
    shrink: float = 1.0
    full_epochs: int = 0
    averaging: float = 100.0
    label_smoothing: float = 0.1
    balance: float = 0.0
    capture: float = 0.0
    augmentation: Augmentation = CHANGES
    more_epochs: float = 0.25
    more_rate: float = 0.3
    seconds: float | None = None
    seed: int = 0

    def going_on(self) -> Finetuning:
        """The hyperparameters of the epochs that what ships learns beyond what was compared."""
        epochs = max(1, round(self.more_epochs * self.epochs))
        return replace(self, epochs=epochs, patience=epochs, learning_rate=self.more_rate * self.learning_rate)

    def plain(self) -> dict[str, Any]:
        """The hyperparameters as JSON keeps them, the time limit left out: a resumed run may have another."""
        kept: dict[str, Any] = json.loads(json.dumps({**asdict(self), "seconds": None}))
        return kept


FINETUNE_TOP = Finetuning()
"""The last blocks, from a third of the layers on."""

FINETUNE_ALL = Finetuning(trained=1.0, lowest_rate=0.1)
"""Every layer, the first ones at a rate that they bear."""
