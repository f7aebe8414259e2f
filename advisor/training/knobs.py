"""The knobs of fine-tuning, and the two settings that have names."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from advisor.training.augment import Augmentation


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
        shrink: share of the model's side that training pictures have. Crops show things larger than whole pictures do,
            so that fewer pixels show them as large as the whole picture will (Touvron et al., "Fixing the train-test
            resolution discrepancy", 2019), at shrink squared of the price.
        full_epochs: last epochs that run at the model's own side all the same.
        averaging: memory, in steps, of the running mean of the weights that is validated and kept; 1 keeps the last.
        label_smoothing: share of the target spread over all classes.
        balance: exponent of the inverse class frequency by which pictures are weighted: 0 all alike, 1 classes alike.
        capture: share of the training pictures that is changed as a phone's camera may change them.
        augmentation: how far training pictures are changed besides.
        seconds: no epoch is begun that would end later than this; None for no limit.
        seed: of shuffling, augmentation and the validation part.
    """

    trained: float = 0.45
    epochs: int = 12
    patience: int = 5
    learning_rate: float = 6e-5
    weight_decay: float = 1e-4
    batch: int = 32
    shrink: float = 1.0
    full_epochs: int = 0
    averaging: float = 60.0
    label_smoothing: float = 0.1
    balance: float = 0.0
    capture: float = 0.0
    augmentation: Augmentation = field(default_factory=Augmentation)
    seconds: float | None = None
    seed: int = 0

    def plain(self) -> dict[str, Any]:
        """The knobs as JSON keeps them, the time limit left out: a resumed run may have another."""
        kept: dict[str, Any] = json.loads(json.dumps({**asdict(self), "seconds": None}))
        return kept


FINETUNE_TOP = Finetuning()
"""The last blocks. At this rate MobileNetV2 came to 85.6 % of TrashNet's hold-out from 83.2 % of a head on the last
layer's features (seed 0, before weights were averaged); the rate was chosen on the validation part."""

FINETUNE_ALL = Finetuning(trained=1.0, learning_rate=3e-5, epochs=20)
"""Every layer, at a rate that the first ones bear: at 1.5e-4 they forget more than the top learns."""
