"""Loss and targets of the heads for boxes and for centres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.measurement.accuracy import Detections, centres
from advisor.measurement.average_precision import counts, f1_of, match_centres
from advisor.training.detection.changes import Objects
from advisor.training.detection.fit import Anchors, Shape, TrainableHead, anchors_of, assign
from advisor.training.detection.network import centre_head, head

if TYPE_CHECKING:
    import tensorflow as tf


Floats = NDArray[np.float32]

BOX_WEIGHT = 2.0
"""Weight of the boxes' loss beside that of the classes."""


def box_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for boxes.

    The score of a class is trained to be the overlap of the predicted with the true box (X. Li et al., "Generalized
    Focal Loss", 2020, quality focal loss), so that of two boxes on one object the better one is kept. The loss of the
    boxes is one minus their generalized overlap (H. Rezatofighi et al., "Generalized Intersection over Union", 2019).

    Args:
        shapes: of the maps, the finest first.
        classes: number of classes.
    """
    anchors = anchors_of([shape[:2] for shape in shapes])

    def loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
        import tensorflow as tf

        logits, encodings = outputs
        return _loss(logits, _decoded(encodings, tf.constant(anchors.boxes)), *targets)

    return TrainableHead(head(shapes, classes), loss, lambda objects: _targets(objects, anchors), anchors)


def _targets(objects: Objects, anchors: Anchors) -> tuple[Floats, NDArray[np.int64]]:
    """Return the box of each anchor (N, 4), and its class (N,), -1 for none."""
    chosen = assign(anchors, objects.boxes)
    boxes, labels = anchors.edges.copy(), np.full(len(chosen), -1, np.int64)
    boxes[chosen >= 0], labels[chosen >= 0] = objects.boxes[chosen[chosen >= 0]], objects.labels[chosen[chosen >= 0]]
    return boxes, labels


def _decoded(encodings: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Return the edges of boxes that a detector encoded; no side is beyond e**4 of its anchor."""
    import tensorflow as tf

    from advisor.tflite.postprocess import CENTRE_SCALE, SIDE_SCALE

    middle = encodings[..., :2] / CENTRE_SCALE * anchors[:, 2:] + anchors[:, :2]
    half = tf.exp(tf.clip_by_value(encodings[..., 2:] / SIDE_SCALE, -4.0, 4.0)) * anchors[:, 2:] / 2
    return tf.concat([middle - half, middle + half], axis=-1)


def _loss(logits: tf.Tensor, found: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    taken = tf.cast(labels >= 0, tf.float32)
    count = tf.maximum(tf.reduce_sum(taken), 1.0)
    overlap, generalized = _overlaps(found, boxes)
    quality = tf.stop_gradient(overlap) * taken
    wanted = tf.one_hot(labels, logits.shape[-1]) * quality[..., None]
    missed = tf.square(tf.abs(wanted - tf.sigmoid(logits)))
    classes = tf.reduce_sum(missed * tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)) / count
    return classes + BOX_WEIGHT * tf.reduce_sum((1.0 - generalized) * taken) / count


def _overlaps(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and the generalized one, of boxes in pairs: edges (..., 4)."""
    import tensorflow as tf

    def area(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
        return tf.reduce_prod(tf.maximum(high - low, 0.0), axis=-1)

    shared = area(tf.maximum(first[..., :2], second[..., :2]), tf.minimum(first[..., 2:], second[..., 2:]))
    union = sum(area(each[..., :2], each[..., 2:]) for each in (first, second)) - shared + 1e-9
    around = area(tf.minimum(first[..., :2], second[..., :2]), tf.maximum(first[..., 2:], second[..., 2:])) + 1e-9
    overlap = shared / union
    return overlap, overlap - (around - union) / around


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

    return TrainableHead(model, _map_loss, lambda objects: (_bells(objects, rows, columns, classes),), finish=finish)


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


def _map_loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
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
