"""A head that marks the centres of objects on one map: where they are and how many, at next to no cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.measurement.box_counts import counts
from advisor.measurement.counting import centres, f1_of, match_centres
from advisor.measurement.detection import Detections
from advisor.training.detection.changes import Objects
from advisor.training.detection.fit import Shape, TrainableHead
from advisor.training.detection.network import centre_head

if TYPE_CHECKING:
    import tensorflow as tf

Floats = NDArray[np.float32]

SPREAD = 0.15
"""Standard deviation of the score that is wanted around a centre, over the side of the box."""

LEAST_SPREAD = 0.4
"""Its least value in cells, with which the wanted score of a neighbour of the centre's cell is below one half."""

THRESHOLDS = np.linspace(0.1, 0.8, 15)
"""Thresholds to choose from."""


def centre_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for centres. After training, scores are shifted: the best threshold is one half.

    The score of a place is trained to be that of a bell around each centre, with less weight on places near a centre:
    X. Zhou et al., "Objects as Points" (2019), equation 1. The network is that of Edge Impulse's FOMO: a backbone cut
    where a cell has 8 or 16 pixels, and a map of classes.

    Args:
        shapes: of the maps, the finest first.
        classes: number of classes.
    """
    model, (rows, columns) = centre_head(shapes, classes), shapes[0][:2]

    def finish(logits: Floats, objects: Sequence[Objects]) -> None:
        kernel, bias = model.layers[-1].get_weights()
        model.layers[-1].set_weights([kernel, bias - _thresholds(logits, objects, classes)])

    return TrainableHead(model, _loss, lambda objects: (_bells(objects, rows, columns, classes),), finish=finish)


def _bells(objects: Objects, rows: int, columns: int, classes: int) -> Floats:
    """Return the wanted scores (rows, columns, C): one at the cell of each centre, and less around it."""
    wanted, cells = np.zeros((rows, columns, classes), np.float32), np.array([rows, columns])
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    for box, label in zip(objects.boxes, objects.labels, strict=True):
        centre = np.minimum((box[:2] + box[2:]) / 2 * cells, cells - 1).astype(np.int64)
        spread = np.maximum(LEAST_SPREAD, SPREAD * (box[2:] - box[:2]) * cells)
        bell = np.exp(-np.square((places - centre) / spread).sum(axis=-1) / 2)
        wanted[:, :, label] = np.maximum(wanted[:, :, label], bell)
    return wanted


def _loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
    import tensorflow as tf

    (logits,), (wanted,) = outputs, targets
    scores, centre = tf.sigmoid(logits), tf.cast(wanted >= 1, tf.float32)
    right = centre * (1 - scores) ** 2 * tf.math.log_sigmoid(logits)
    wrong = (1 - centre) * (1 - wanted) ** 4 * scores**2 * tf.math.log_sigmoid(-logits)
    return -tf.reduce_sum(right + wrong) / tf.maximum(tf.reduce_sum(centre), 1.0)


def _thresholds(logits: Floats, objects: Sequence[Objects], classes: int) -> Floats:
    """Return the logit of each class from which a centre counts, by F1 on the training images themselves."""
    true = [Detections(one.boxes, one.labels, np.ones(len(one.labels), np.float32)) for one in objects]
    found = [centres(1 / (1 + np.exp(-row)), THRESHOLDS[0]) for row in logits]
    tables = [counts(match_centres(true, found, least), classes).sum(axis=0) for least in THRESHOLDS.tolist()]
    reached = np.nan_to_num(np.stack([f1_of(table) for table in tables]))
    best = THRESHOLDS[reached.argmax(axis=0)]
    shifts: Floats = np.log(best / (1 - best)).astype(np.float32)
    return shifts
