"""The images of a fine-tuning, and the head that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.training.finetune import network
from advisor.training.finetune.hyperparameters import Finetuning
from advisor.training.head.train import Head, fit_head, folds, train_head
from advisor.training.head.trials import ALL_LEVELS, GRID

if TYPE_CHECKING:
    import keras

STRONG = 0.01
"""``C`` of the first head on cached maps."""

WEAKEST = 0.1
"""Largest ``C`` that fine-tuning takes from a first head: a weaker penalty would let it forget the start."""

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
        groups: a number for each image; images of one number belong together. Empty if each image is a group.
        head: the head that was chosen for the images outside the validation part; None to choose one.
    """

    features: NDArray[np.float32]
    images: Sequence[Path]
    labels: Sequence[int]
    spec: InputSpec
    validation: Sequence[int] = ()
    groups: Sequence[int] = ()
    head: Head | None = None

    def unseen(self, seed: int) -> NDArray[np.bool_]:
        """Return a mask of the images for validation, (N,)."""
        if len(self.validation):
            return np.isin(np.arange(len(self.labels)), self.validation)
        drawn: NDArray[np.bool_] = folds(np.asarray(self.labels, dtype=np.int64), VALIDATION_FOLDS, seed) == 0
        return drawn


def first_head(
    backbone: keras.Model, data: FinetuneData, learnt: NDArray[np.bool_], hyperparameters: Finetuning
) -> tuple[network.Start, float]:
    """Return the head to start from, fitted to the images of the mask ``learnt``, and its ``C``.

    Its kind is that of a head without fine-tuning. It reads all levels only if they gain clearly and Keras computes the
    same levels as the file. If the maps below are cached, its penalty is strong: a head without errors would teach the
    layers below nothing.
    """
    features, levels = data.features, network.level_layers(backbone)
    few = np.stack([data.spec.read(path) for path in data.images[:CHECKED]])
    last = int(backbone.outputs[0].shape[-1])
    if not network.agrees(backbone, levels, few, features[: len(few)]):
        levels, features = [], features[:, :last]
    own, labels = features[learnt], np.asarray(data.labels, dtype=np.int64)
    targets, classes = labels[learnt].tolist(), int(labels.max()) + 1
    groups = np.asarray(data.groups)[learnt].tolist() if len(data.groups) else ()
    head = data.head
    if head is None or (head.facts.kind == ALL_LEVELS and not levels):
        head = train_head(own, targets, classes, hyperparameters.seed, groups=groups, last=last)
    if head.facts.kind != ALL_LEVELS:
        levels, own = [], own[:, :last]
    if hyperparameters.cached:
        strength = STRONG
        weights, bias = fit_head(own, targets, classes, strength)
    else:
        weights, bias = head.weights[: own.shape[1]], head.bias
        strength = min(max(head.facts.regularization, GRID[0]), WEAKEST)
    return network.Start(weights, bias, tuple(levels), own.mean(axis=0), own.std(axis=0)), strength
