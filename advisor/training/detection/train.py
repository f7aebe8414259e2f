"""Train a card's detector: from pretrained weights and images with boxes to a float file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.training.detection.fit import Fitting, fit_head
from advisor.training.detection.maps import Boxed, keep_maps
from advisor.training.detection.network import detector, with_maps
from advisor.training.finetune.network import flatbuffer

if TYPE_CHECKING:
    from advisor.catalog.cards import Card, WeightsFile


@dataclass(frozen=True, eq=False)
class RawDetector:
    """A trained detector before post-processing, the origin of its compressed forms.

    Attributes:
        data: float ``.tflite`` with the outputs of :mod:`advisor.tflite.postprocess`.
        anchors: float32 (N, 4), for its post-processing.
        copies: changed copies of each image that it learnt from.
    """

    data: bytes
    anchors: NDArray[np.float32]
    copies: int


def train(
    card: Card, weights: WeightsFile | None, boxed: Boxed, classes: int, fitting: Fitting, folder: Path
) -> RawDetector:
    """Train a head for boxes on a card's frozen backbone.

    Args:
        card: the model card, with the side of the detector's input.
        weights: the pretrained weights.
        boxed: the images to learn from.
        classes: number of classes.
        fitting: the hyperparameters.
        folder: for the maps, which take up to 2 GB; the caller removes it.

    Raises:
        StageError: the maps do not fit on disk, an image cannot be read, or the training diverged.
    """
    import keras

    from advisor.catalog.build import build_model

    try:
        model = build_model(card, weights)
        maps = with_maps(keras.Model(model.inputs[0], model.output["features"]))
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        kept = keep_maps(maps, boxed, spec, folder, fitting.seed)
        head, anchors = fit_head(kept, classes, fitting)
        return RawDetector(flatbuffer(detector(maps, head)), anchors.boxes, kept.copies)
    finally:
        keras.backend.clear_session()
