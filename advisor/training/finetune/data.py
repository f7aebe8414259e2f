"""Hold the data of a fine-tuning, and fit the head that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.training.finetune.levels import agrees, level_layers
from advisor.training.finetune.network import Start
from advisor.training.head.train import folds, train_head

if TYPE_CHECKING:
    import keras

VALIDATION_FOLDS = 8
CHECKED = 2
"""Number of images on which the levels of backbone and file are compared."""


@dataclass(frozen=True, eq=False)
class FinetuneData:
    """The images that a network is trained and validated on.

    Attributes:
        features: the backbone's features of these images, float32 (N, F), or with those of its levels. The first head
            is trained on those outside the validation part.
        images: the training part, hold-out excluded.
        labels: their class indices.
        spec: how an image becomes the backbone's input.
        validation: indices of the validation part in ``images``; empty to draw a stratified eighth.
    """

    features: NDArray[np.float32]
    images: Sequence[Path]
    labels: Sequence[int]
    spec: InputSpec
    validation: Sequence[int] = ()

    def unseen(self, seed: int) -> NDArray[np.bool_]:
        """Return a mask of the images for validation, (N,)."""
        if len(self.validation):
            return np.isin(np.arange(len(self.labels)), self.validation)
        drawn: NDArray[np.bool_] = folds(np.asarray(self.labels, dtype=np.int64), VALIDATION_FOLDS, seed) == 0
        return drawn


def begin(backbone: keras.Model, data: FinetuneData, learnt: NDArray[np.bool_], seed: int) -> Start:
    """Fit a head to the images of the mask ``learnt``; on all levels, if Keras computes the same levels as the file."""
    features, levels = data.features, level_layers(backbone)
    few = np.stack([data.spec.read(path) for path in data.images[:CHECKED]])
    if not agrees(backbone, levels, few, features[: len(few)]):
        levels, features = [], features[:, : int(backbone.outputs[0].shape[-1])]
    own, labels = features[learnt], np.asarray(data.labels, dtype=np.int64)
    head = train_head(own, labels[learnt].tolist(), int(labels.max()) + 1, seed)
    return Start(head, tuple(levels), own.mean(axis=0), own.std(axis=0))


def class_weights(labels: NDArray[np.int64], classes: int, balance: float) -> NDArray[np.float32]:
    """Return a weight for each class, with a mean of 1 over the images."""
    counts = np.maximum(np.bincount(labels, minlength=classes), 1).astype(np.float64)
    weights = counts**-balance
    result: NDArray[np.float32] = (weights * counts.sum() / (weights * counts).sum()).astype(np.float32)
    return result
