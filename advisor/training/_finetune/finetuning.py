"""Define the hyperparameters of one fine-tuning, and what a time limit makes of them.

`hyperparameters.py` has the values of each recipe. The fields are a part of the keys of cached
trainings and stand in their checkpoints (:meth:`Finetuning.plain`).
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.training._augmentation import Augmentation

MOST_EPOCHS = 24  # of few images: each ends with a validation and a checkpoint

CHANGES = Augmentation(crop=0.6, colour=0.25, mixup=0.2, turn=15.0)
"""Changes of training images unless a recipe states others."""

WHOLE_SHARE = 0.95
"""Share of the seconds of a whole fine-tuning from which on all of its layers are trained."""

LAYERS_IN_TIME = ((0.8, 0.5), (0.65, 0.35), (0.0, 0.2))
"""Least share of the seconds of a whole fine-tuning on cached maps, and the share of the layers
whose training takes about as long. Of EfficientNet-Lite0 at 0.61, an epoch takes 23 s and all of
it 183 s on one core of a Xeon; at 0.35 they are 14 and 119 s, and at 0.2 they are 7 and 87 s.
Chosen on draws that judge nothing, see decision 0141.
"""

LABEL_BATCH = 16
LABEL_STEPS = 240
"""Images in a step of a network that gives several labels, and its least steps: as many epochs as
of classes, of twice as many steps. On one draw of playing cards they gave an mAP of 92.0 % in
place of 89.2, in the same time.
"""

MAPS_SHARE = 0.25
EPOCH_SHARE = {0.5: 0.8, 0.35: 0.61, 0.2: 0.3}
"""Share of the seconds of a whole fine-tuning that its start and its maps take, and the seconds of
an epoch of fewer layers over those of a whole one, from the same times.
"""

MORE_EPOCHS = 3.0
"""Factor on the epochs of fewer layers. They are cheap, so the time may allow more of them than of
a whole training; the rate falls with the time if it does not. With twice the epochs, a training on
TrashNet ended 17 s before its time on one core.
"""


@dataclass(frozen=True)
class Finetuning:
    """The hyperparameters of a fine-tuning."""

    # Share of the backbone's layers that are trained, from the top; 1 is all of them.
    trained: float = 0.65
    # Whether the maps below the trained layers are computed once and kept, see :mod:`.maps`.
    cached: bool = False
    # Changed copies of each image whose maps are kept too; others change images in each epoch.
    copies: int = 0
    # Whether images of the validation part have such copies, which only what ships reads.
    judged_copies: bool = True
    epochs: int = 18  # largest number of passes over the images
    least_steps: int = 0  # steps that few images get in more epochs, at most ``MOST_EPOCHS``
    # epochs without a better validation accuracy before training stops, from the middle on. With a
    # cosine rate, accuracy falls at first and rises most at the end.
    patience: int = 6
    # Highest rate of Adam with decoupled weight decay; it falls to 0 along a cosine.
    learning_rate: float = 3e-4
    # Factor on the rate for the lowest trained layer; it rises to 1 at the top.
    lowest_rate: float = 0.3
    head_rate: float = 0.3  # factor on the rate for the head
    head_penalty: float = 0.1  # share of its own penalty that the head keeps during training
    weight_decay: float = 1e-4  # decoupled weight decay of the kernels
    # decoupled decay of all weights of the backbone towards their start (Li et al., "Explicit
    # Inductive Bias for Transfer Learning with Convolutional Networks", 2018)
    l2_sp: float = 0.0
    batch: int = 32  # images in a step
    # side of training images over the model's side. Crops show things larger than whole images do,
    # so fewer pixels show them at the size of the whole image (Touvron et al., "Fixing the
    # train-test resolution discrepancy", 2019). The cost falls with the square.
    shrink: float = 1.0
    full_epochs: int = 0  # number of last epochs at the model's own side
    # Steps of the running mean of the weights that is validated and kept; 1 keeps the last.
    averaging: float = 100.0
    label_smoothing: float = 0.1  # share of the target spread over all classes
    # Exponent of the inverse class frequency: 0 weights images equally, 1 classes.
    balance: float = 0.0
    capture: float = 0.0  # share of training images that get a capture condition
    augmentation: Augmentation = CHANGES  # how training images are augmented
    # extra epochs of the network that ships, with validation, as a share of ``epochs``; 0 for none
    more_epochs: float = 0.25
    more_rate: float = 0.3  # factor on the rate in these epochs
    # Time limit; no epoch starts that would end later. None for no limit.
    seconds: float | None = None
    seed: int = 0  # of shuffling, augmentation and the validation part

    def for_images(self, images: int) -> Finetuning:
        """Return the hyperparameters for so many training images: few of them get more epochs."""
        steps_in_epoch = max(1, math.ceil(images / self.batch))
        needed = min(MOST_EPOCHS, math.ceil(self.least_steps / steps_in_epoch))
        epochs = max(self.epochs, needed)
        return replace(self, epochs=epochs, patience=self.patience * epochs // self.epochs)

    def for_labels(self) -> Finetuning:
        """Return the hyperparameters of a network that gives an image several labels."""
        return replace(self, batch=LABEL_BATCH, least_steps=LABEL_STEPS)

    def shorten_to(self, share: float) -> Finetuning:
        """Return the hyperparameters for a share (0-1) of the seconds that all of them take.

        A training on cached maps trains fewer layers, so that it comes to its low rates, for more
        epochs: it ends with its time, and mostly ships itself. The others stay as they are.
        """
        if not self.cached or share >= WHOLE_SHARE:
            return self
        layers = self.trained
        for least_share, layers_in_time in LAYERS_IN_TIME:
            if share >= least_share:
                layers = layers_in_time
                break
        if layers >= self.trained:
            return self
        epochs = round(MORE_EPOCHS * self.epochs)
        return replace(self, trained=layers, epochs=epochs, patience=epochs, judged_copies=False)

    def share_of_seconds(self, trained: float, epochs: int) -> float:
        """Return the seconds of a training of :meth:`shorten_to` over those of this one."""
        if trained >= self.trained:
            return 1.0
        epoch_s = EPOCH_SHARE.get(trained, 1.0)
        return MAPS_SHARE + (1.0 - MAPS_SHARE) * epoch_s * epochs / max(1, self.epochs)

    def going_on(self) -> Finetuning:
        """Return the hyperparameters of the extra epochs of the network that ships."""
        epochs = max(1, round(self.more_epochs * self.epochs)) if self.more_epochs else 0
        return replace(
            self, epochs=epochs, patience=epochs, learning_rate=self.more_rate * self.learning_rate
        )

    def plain(self) -> dict[str, Any]:
        """Return the hyperparameters as JSON, without the time limit, which may change."""
        plain: dict[str, Any] = json.loads(json.dumps({**asdict(self), "seconds": None}))
        return plain
