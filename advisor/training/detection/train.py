"""Train a card's detector: from pretrained weights and images with boxes to a float file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.tflite.postprocess import Suppression, append_postprocess
from advisor.training.detection.fit import Hyperparameters, MakeHead, fit
from advisor.training.detection.maps import Boxed, keep_maps, keep_photographs
from advisor.training.detection.network import joined, with_maps
from advisor.training.finetune.network import flatbuffer, freeze

if TYPE_CHECKING:
    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile


@dataclass(frozen=True)
class HeadKind:
    """A kind of head.

    Attributes:
        coarsest: pixels of the input to a cell of the coarsest map that it reads.
        make_head: makes its network, with loss and targets.
        epochs: passes over the images.
    """

    coarsest: int
    make_head: MakeHead
    epochs: int


FINETUNING = Hyperparameters(epochs=14)
"""Hyperparameters that train head and backbone together.

On BCCD's validation part, with the upper 65 % of MobileNetV2: 14 epochs gave an mAP@0.5 of 89.5 % and an mAP of 53.3,
the head alone 89.2 and 46.4, 8 epochs at half of the rate 88.4 and 49.6."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained detector.

    Attributes:
        data: float ``.tflite``: with post-processing if the head finds boxes, with the output ``centres`` otherwise.
        head: the weights of the head, in the order of its Keras model.
    """

    data: bytes
    head: Sequence[NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class DetectorStart:
    """The start of fine-tuning.

    Attributes:
        head: see :class:`Trained`.
        share: of the backbone's layers that learn too, from the top.
    """

    head: Sequence[NDArray[np.float32]]
    share: float


def train(
    card: Card,
    weights: WeightsFile | None,
    boxed: Boxed,
    classes: int,
    kind: HeadKind,
    seed: int,
    folder: Path,
    start: DetectorStart | None = None,
) -> Trained:
    """Train a head on a card's frozen backbone, or go on from a trained head, together with the backbone.

    Args:
        card: the model card, with the side of the detector's input.
        weights: the pretrained weights.
        boxed: the images to learn from.
        classes: number of classes.
        kind: of the head.
        seed: draws weights, copies and order.
        folder: for maps, which take up to 2 GB, or pixels; the caller removes it.
        start: of fine-tuning; None for a new head on a frozen backbone.

    Raises:
        StageError: the maps do not fit on disk, an image cannot be read, or the training diverged.
    """
    import keras

    from advisor.catalog.build import build_model

    try:
        model = build_model(card, weights)
        maps = with_maps(keras.Model(model.inputs[0], model.output["features"]), kind.coarsest)
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        keras.utils.set_random_seed(seed)
        head = kind.make_head([tuple(output.shape[1:]) for output in maps.outputs], classes)
        if start:
            head.model.set_weights(start.head)
            freeze(maps, start.share)
            fit(head, keep_photographs(boxed, spec, folder), replace(FINETUNING, seed=seed), maps)
        else:
            fit(head, keep_maps(maps, boxed, spec, folder, seed), Hyperparameters(kind.epochs, seed=seed))
        raw = flatbuffer(joined(maps, head.model))
        data = append_postprocess(raw, head.anchors.boxes, Suppression()) if head.anchors else raw
        return Trained(data, head.model.get_weights())
    finally:
        keras.backend.clear_session()
