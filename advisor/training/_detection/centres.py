"""Train a head that marks the centres of objects: its loss, its targets and its thresholds.

The task that counts objects uses :func:`centre_detector_head`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.measurement import Detections, box_matches
from advisor.tflite import CENTRES
from advisor.training._detection import make_centre_head
from advisor.training._on_maps.changes import Floats, Objects
from advisor.training._on_maps.fit import Shape, TrainableHead

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Standard deviation of the score that is wanted around a centre, over the side of the box.
SPREAD = 0.15

# Its least value in cells: the wanted score of a neighbour is below one half.
LEAST_SPREAD = 0.4

# Thresholds to choose from.
THRESHOLDS = np.linspace(0.1, 0.8, 15)


def centre_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for centres.

    After training, scores are shifted such that the best threshold is one half. The score of a
    place is trained to be that of a bell around each centre, with less weight on places near a
    centre: X. Zhou et al., "Objects as Points" (2019), equation 1. The network is that of Edge
    Impulse's FOMO: a backbone cut where a cell has 8 or 16 pixels, and a map of classes.
    """
    model = make_centre_head(shapes, classes)
    rows, columns = shapes[0][:2]

    def finish(logits: Floats, objects: Sequence[Objects]) -> None:
        kernel, bias = model.layers[-1].get_weights()
        model.layers[-1].set_weights([kernel, bias - _choose_thresholds(logits, objects, classes)])

    def targets(objects: Objects) -> tuple[Floats]:
        return (_draw_bells(objects, rows, columns, classes),)

    def outputs(head_outputs: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        from keras.layers import Activation

        return {CENTRES: Activation("sigmoid", name=CENTRES)(head_outputs[0])}

    return TrainableHead(model, _compute_loss, targets, outputs, finish=finish)


def _draw_bells(objects: Objects, rows: int, columns: int, classes: int) -> Floats:
    """Return the wanted scores (rows, columns, C): one at each centre's cell, less around it."""
    wanted = np.zeros((rows, columns, classes), np.float32)
    cells = np.array([rows, columns])
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    for box, label in zip(objects.boxes, objects.labels, strict=True):
        centre = np.minimum((box[:2] + box[2:]) / 2 * cells, cells - 1).astype(np.int64)
        spread = np.maximum(LEAST_SPREAD, SPREAD * (box[2:] - box[:2]) * cells)
        bell = np.exp(-np.square((places - centre) / spread).sum(axis=-1) / 2)
        wanted[:, :, label] = np.maximum(wanted[:, :, label], bell)
    return wanted


def _compute_loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
    import tensorflow as tf

    (logits,) = outputs
    (wanted,) = targets
    scores = tf.sigmoid(logits)
    centre = tf.cast(wanted >= 1, tf.float32)
    right = centre * (1 - scores) ** 2 * tf.math.log_sigmoid(logits)
    wrong = (1 - centre) * (1 - wanted) ** 4 * scores**2 * tf.math.log_sigmoid(-logits)
    return -tf.reduce_sum(right + wrong) / tf.maximum(tf.reduce_sum(centre), 1.0)


def _choose_thresholds(logits: Floats, objects: Sequence[Objects], classes: int) -> Floats:
    """Return the logit of each class from which a centre counts, by F1 on training images."""
    true = []
    for objects_of_image in objects:
        sure = np.ones(len(objects_of_image.labels), np.float32)
        true.append(Detections(objects_of_image.boxes, objects_of_image.labels, sure))
    marks = []
    for logits_of_image in logits:
        marks.append(Detections.find_centres(1 / (1 + np.exp(-logits_of_image)), THRESHOLDS[0]))
    scores = []
    for threshold in THRESHOLDS.tolist():
        table = box_matches.count_boxes(
            box_matches.match_centres(true, marks, threshold), classes
        ).sum(axis=0)
        scores.append(box_matches.f1_of(table))
    # A class without an object has no F1, and any threshold serves it.
    best = THRESHOLDS[np.nan_to_num(np.stack(scores)).argmax(axis=0)]
    return np.asarray(np.log(best / (1 - best)), np.float32)
