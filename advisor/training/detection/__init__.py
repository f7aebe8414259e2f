"""Train detectors in Keras, from pretrained weights to a float file: a head on the maps of a backbone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.images import InputSpec
from advisor.tflite.postprocess import CENTRES, ENCODINGS, SCORES, Suppression, append_postprocess
from advisor.training.finetune.network import flatbuffer, freeze
from advisor.training.on_maps import last, pyramid, separable, with_maps
from advisor.training.on_maps.fit import Hyperparameters, MakeHead, fit
from advisor.training.on_maps.kept import LabelledImages, Objects, keep_maps, keep_photographs, listed

if TYPE_CHECKING:
    import keras

    from advisor.catalog.cards import Card
    from advisor.downloads.files import WeightsFile

WIDTH = 96  # Channels of the maps of a head for boxes
CENTRE_WIDTH, CENTRE_DEPTH = 64, 2  # Channels of the maps of a head for centres, and its separable convolutions

FIRST_LOGIT = -math.log(99)
"""Logit of every place before training, a score of 0.01: nearly all places have no object, which would drive the first
steps (T.-Y. Lin et al., "Focal Loss for Dense Object Detection", 2017, section 3.3)."""


def head(shapes: Sequence[tuple[int, int, int]], classes: int) -> keras.Model:
    """Return a new head for boxes, from the shapes of the maps to logits (n, N, C) and encodings (n, N, 4).

    On each map, the finest first, separable convolutions lead to the logits of the classes and to the boxes, for the
    one anchor of each place.
    """
    import keras

    inputs = [keras.Input(shape) for shape in shapes]
    logits, encodings = [], []
    for one in pyramid(inputs, WIDTH):
        seen = separable(separable(one))
        logits.append(keras.layers.Reshape((-1, classes))(last(seen, classes, FIRST_LOGIT)))
        encodings.append(keras.layers.Reshape((-1, 4))(last(seen, 4)))
    outputs = [
        parts[0] if len(parts) == 1 else keras.layers.Concatenate(axis=1)(parts) for parts in (logits, encodings)
    ]
    return keras.Model(inputs, outputs, name="head")


def centre_head(shapes: Sequence[tuple[int, int, int]], classes: int) -> keras.Model:
    """Return a new head for centres, from the shapes of the maps to logits (n, rows, columns, C) of the finest."""
    import keras

    inputs = [keras.Input(shape) for shape in shapes]
    seen = pyramid(inputs, CENTRE_WIDTH)[0]
    for _ in range(CENTRE_DEPTH):
        seen = separable(seen)
    return keras.Model(inputs, last(seen, classes, FIRST_LOGIT), name="head")


def joined(maps: keras.Model, head: keras.Model) -> keras.Model:
    """Return backbone and head in one, for conversion: from one normalised image (1, S, S, 3) to ``encodings`` (1, N,
    4) and ``scores`` (1, N, C), or to ``centres`` (1, rows, columns, C).
    """
    import keras

    image = keras.Input(maps.inputs[0].shape[1:], batch_size=1, name="image")
    outputs = head(listed(maps(image)))
    if not isinstance(outputs, list | tuple):
        return keras.Model(image, {CENTRES: keras.layers.Activation("sigmoid", name=CENTRES)(outputs)})
    logits, encodings = outputs
    scores = keras.layers.Activation("sigmoid", name=SCORES)(logits)
    return keras.Model(image, {ENCODINGS: keras.layers.Activation("linear", name=ENCODINGS)(encodings), SCORES: scores})


@dataclass(frozen=True)
class HeadKind:
    """A kind of head."""

    coarsest: int  # pixels of the input to a cell of the coarsest map that it reads
    make_head: MakeHead  # makes its network, with loss and targets
    hyperparameters: Hyperparameters  # of its training on a frozen backbone


FINETUNING = Hyperparameters(epochs=14)
"""Hyperparameters that train head and backbone together.

On BCCD's validation part, with the upper 65 % of MobileNetV2: 14 epochs gave an mAP@0.5 of 89.5 % and an mAP of 53.3,
the head alone 89.2 and 46.4, 8 epochs at half of the rate 88.4 and 49.6."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained detector."""

    data: bytes  # float ``.tflite``: with post-processing for boxes, with the output ``centres`` otherwise
    head: Sequence[NDArray[np.float32]]  # the weights of the head, in the order of its Keras model


@dataclass(frozen=True, eq=False)
class DetectorStart:
    """The start of fine-tuning."""

    head: Sequence[NDArray[np.float32]]  # see :class:`Trained`
    share: float  # of the backbone's layers that learn too, from the top


def train(
    card: Card,
    weights: WeightsFile | None,
    images: LabelledImages[Objects],
    classes: int,
    kind: HeadKind,
    seed: int,
    folder: Path,
    start: DetectorStart | None = None,
) -> Trained:
    """Train a head on a card's frozen backbone, or go on from a trained head, together with the backbone.

    ``folder`` is for maps, which take up to 2 GB, or pixels; the caller removes it. ``start`` is None for a new head on
    a frozen backbone. Raises StageError if the maps do not fit on disk, an image cannot be read, or the training
    diverged.
    """
    import keras

    from advisor.catalog.convert import build_model

    try:
        model = build_model(card, weights)
        maps = with_maps(keras.Model(model.inputs[0], model.output["features"]), kind.coarsest)
        spec = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
        keras.utils.set_random_seed(seed)
        head = kind.make_head([tuple(output.shape[1:]) for output in maps.outputs], classes)
        if start:
            head.model.set_weights(start.head)
            freeze(maps, start.share)
            fit(head, keep_photographs(images, spec, folder), replace(FINETUNING, seed=seed), maps)
        else:
            fit(head, keep_maps(maps, images, spec, folder, seed), replace(kind.hyperparameters, seed=seed))
        raw = flatbuffer(joined(maps, head.model))
        data = append_postprocess(raw, head.anchors, Suppression()) if head.anchors is not None else raw
        return Trained(data, head.model.get_weights())
    finally:
        keras.backend.clear_session()
