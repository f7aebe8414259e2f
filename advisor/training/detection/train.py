"""Train a card's detector: from pretrained weights and images with boxes to a float file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from advisor.core.tasks import OBJECT_COUNTING, OBJECT_DETECTION
from advisor.datasets.images import InputSpec
from advisor.tflite.postprocess import Suppression, append_postprocess
from advisor.training.detection.boxes import box_lesson
from advisor.training.detection.centres import centre_lesson
from advisor.training.detection.fit import Fitting, Lessons, fit_head
from advisor.training.detection.maps import Boxed, keep_maps
from advisor.training.detection.network import joined, with_maps
from advisor.training.finetune.network import flatbuffer

if TYPE_CHECKING:
    from advisor.catalog.cards import Card, WeightsFile


@dataclass(frozen=True)
class Kind:
    """A kind of head.

    Attributes:
        coarsest: pixels of the input to a cell of the coarsest map that it reads.
        lessons: what it learns.
        epochs: passes over the images.
    """

    coarsest: int
    lessons: Lessons
    epochs: int


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        OBJECT_DETECTION: Kind(32, box_lesson, 20),
        OBJECT_COUNTING: Kind(16, centre_lesson, 30),
    }
)
"""The kind of head by task."""


def train(
    card: Card,
    weights: WeightsFile | None,
    boxed: Boxed,
    classes: int,
    kind: Kind,
    seed: int,
    folder: Path,
) -> bytes:
    """Train a head on a card's frozen backbone.

    Args:
        card: the model card, with the side of the detector's input.
        weights: the pretrained weights.
        boxed: the images to learn from.
        classes: number of classes.
        kind: of the head.
        seed: draws weights, copies and order.
        folder: for the maps, which take up to 2 GB; the caller removes it.

    Returns:
        A float ``.tflite``: with post-processing if the head finds boxes, with the output ``centres`` otherwise.

    Raises:
        StageError: the maps do not fit on disk, an image cannot be read, or the training diverged.
    """
    import keras

    from advisor.catalog.build import build_model

    try:
        model = build_model(card, weights)
        maps = with_maps(keras.Model(model.inputs[0], model.output["features"]), kind.coarsest)
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        kept = keep_maps(maps, boxed, spec, folder, seed)
        learnt = fit_head(kind.lessons, kept, classes, Fitting(kind.epochs, seed=seed))
        raw = flatbuffer(joined(maps, learnt.model))
        return append_postprocess(raw, learnt.anchors.boxes, Suppression()) if learnt.anchors else raw
    finally:
        keras.backend.clear_session()
