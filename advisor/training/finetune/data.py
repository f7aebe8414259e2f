"""What a fine-tuning learns from, and where that lets it begin: the head, and how much each image counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.datasets.images import InputSpec
from advisor.training.finetune.levels import agrees, level_layers
from advisor.training.finetune.network import Start
from advisor.training.head.train import folds, train_head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VALIDATION_FOLDS = 8
CHECKED = 2
"""Images on which the levels of backbone and file are compared."""


@dataclass(frozen=True, eq=False)
class FinetuneData:
    """The images that a network learns from, as it sees them.

    Attributes:
        features: the backbone's features of these images, float32 (N, F), or with those of its levels: the head
            to begin with is trained on those outside the validation part.
        images: the training part, hold-out excluded.
        labels: their class indices.
        view: how an image becomes the backbone's input.
        validation: places of the validation part among the images; empty to draw a stratified eighth.
    """

    features: NDArray[np.float32]
    images: Sequence[Path]
    labels: Sequence[int]
    view: InputSpec
    validation: Sequence[int] = ()

    def unseen(self, seed: int) -> NDArray[np.bool_]:
        """Return which images are validated on, (N,)."""
        import numpy as np

        if len(self.validation):
            return np.isin(np.arange(len(self.labels)), self.validation)
        drawn: NDArray[np.bool_] = folds(np.asarray(self.labels, dtype=np.int64), VALIDATION_FOLDS, seed) == 0
        return drawn


def begin(backbone: Any, lesson: FinetuneData, learnt: NDArray[np.bool_], seed: int) -> Start:
    """Fit a head to what is learnt from; to the features of all levels, where Keras finds those that the file has."""
    import numpy as np

    features, levels = lesson.features, level_layers(backbone)
    few = np.stack([lesson.view.read(path) for path in lesson.images[:CHECKED]])
    if not agrees(backbone, levels, few, features[: len(few)]):
        levels, features = [], features[:, : int(backbone.outputs[0].shape[-1])]
    own, labels = features[learnt], np.asarray(lesson.labels, dtype=np.int64)
    head = train_head(own, labels[learnt].tolist(), int(labels.max()) + 1, seed)
    return Start(head, tuple(levels), own.mean(axis=0), own.std(axis=0))


def class_weights(labels: NDArray[np.int64], classes: int, balance: float) -> NDArray[np.float32]:
    """Return a weight for each class, 1 on average over the images."""
    import numpy as np

    counts = np.maximum(np.bincount(labels, minlength=classes), 1).astype(np.float64)
    weights = counts**-balance
    result: NDArray[np.float32] = (weights * counts.sum() / (weights * counts).sum()).astype(np.float32)
    return result
