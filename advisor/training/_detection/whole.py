"""Train a detector that learnt other objects, with new layers for the classes of the images.

Its neck and its head keep what they learnt. The task ``detection`` asks for it
through :func:`detector_head` if a card is a whole detector;
`_on_maps/train.py` calls :func:`begin_detector`. The order and scale of the encodings
stay those of ``SCALES``, because the decoder in each shipped file reads them so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from advisor.tflite import CENTRE_SCALE, SIDE_SCALE
from advisor.training._detection import FIRST_LOGIT, join_levels
from advisor.training._detection.anchors import Anchors
from advisor.training._detection.boxes import box_detector_head, learn_boxes
from advisor.training._on_maps import COARSEST, add_last
from advisor.training._on_maps.fit import Hyperparameters, TrainableHead
from advisor.training._on_maps.train import HeadKind

if TYPE_CHECKING:
    import keras

    from advisor.training._on_maps.learnt_detector import LearntDetector

SCALES = (CENTRE_SCALE, CENTRE_SCALE, SIDE_SCALE, SIDE_SCALE)
"""Factors of the encodings of y, x, height and width in the files that are made here."""


def detector_head(whole: bool) -> HeadKind:
    """Return the kind of head for boxes: that of a ``whole`` detector, or a new one."""
    if whole:
        alone = Hyperparameters(20, learning_rate=8e-3, backbone_rate=0.5)
        tuned = Hyperparameters(20, backbone_rate=0.2)
        return HeadKind(
            COARSEST, box_detector_head, alone, finetuning_all=tuned, begin=begin_detector
        )
    alone = Hyperparameters(20, learning_rate=8e-3)
    tuned = Hyperparameters(20, backbone_rate=0.2, batch_statistics=True)
    return HeadKind(COARSEST, box_detector_head, alone, finetuning_all=tuned)


def begin_detector(detector: LearntDetector, classes: int) -> tuple[keras.Model, TrainableHead]:
    """Return the backbone of a whole detector, and its neck and head, which keep what they learnt.

    The layers that tell classes are new, with logits (n, N, C). Those that move boxes have their
    weights, in our order and scale, with encodings (n, N, 4).
    """
    import keras

    anchors = detector.anchors_of_place
    logits = []
    encodings = []
    for level, moving in enumerate(detector.encodings):
        scores = add_last(detector.logits[level].input, anchors * classes, FIRST_LOGIT)
        layer = keras.layers.Conv2D(moving.filters, moving.kernel_size, padding=moving.padding)
        moved = layer(moving.input)
        layer.set_weights(detector.encoding_weights(level, SCALES))
        logits.append(keras.layers.Reshape((-1, classes))(scores))
        encodings.append(keras.layers.Reshape((-1, 4))(moved))
    outputs = [join_levels(logits), join_levels(encodings)]
    model = keras.Model(detector.maps.outputs, outputs, name="head")
    levels = detector.anchors
    counts = tuple(map(len, levels))
    head = learn_boxes(model, Anchors(np.concatenate(levels), counts, anchors))
    new = set(map(id, head.telling))
    known = [weight for weight in model.trainable_variables if id(weight) not in new]
    return detector.maps, replace(head, learnt=known)
