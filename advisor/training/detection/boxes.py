"""Loss and targets of a head for boxes: the overlap and the place of the box of each anchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.training.detection.changes import Objects
from advisor.training.detection.fit import Anchors, Shape, TrainableHead, anchors_of, assign
from advisor.training.detection.network import head

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
