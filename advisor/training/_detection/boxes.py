"""Train a head for boxes: its loss and its targets.

The task ``detection`` uses :func:`box_detector_head`; `whole.py` uses :func:`learn_boxes` for a
network that has anchors of another form. The file that ships gets the boxes decoded and
suppressed by :meth:`Suppression.append_to`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.tflite import ENCODINGS, SCORES, Suppression
from advisor.training._detection import list_class_weights, make_head
from advisor.training._detection.anchors import Anchors, assign_anchors, make_anchors
from advisor.training._on_maps.changes import Floats, Objects
from advisor.training._on_maps.fit import Shape, TrainableHead

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Weight of the boxes' loss beside that of the classes.
BOX_WEIGHT = 2.0


def box_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for boxes, given the shapes of the maps, the finest first.

    The score of a class is trained to be the overlap of the predicted with the true box (X. Li et
    al., "Generalized Focal Loss", 2020, quality focal loss), so that of two boxes on one object
    the better one is kept. The loss of the boxes is one minus their generalized overlap (H.
    Rezatofighi et al., "Generalized Intersection over Union", 2019).
    """
    return learn_boxes(make_head(shapes, classes), make_anchors([shape[:2] for shape in shapes]))


def learn_boxes(model: keras.Model, anchors: Anchors) -> TrainableHead:
    """Return a network from maps to logits and encodings, with loss and targets.

    The logits are (n, N, C), the encodings (n, N, 4), for the N ``anchors``.
    """

    def loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
        import tensorflow as tf

        from advisor.tflite import CENTRE_SCALE, SIDE_SCALE

        logits, encodings = outputs
        places = tf.constant(anchors.boxes)
        middle = encodings[..., :2] / CENTRE_SCALE * places[:, 2:] + places[:, :2]
        # Sides over those of the anchor; a wild value must not overflow.
        sides = tf.exp(tf.clip_by_value(encodings[..., 2:] / SIDE_SCALE, -4.0, 4.0))
        half = sides * places[:, 2:] / 2
        return _compute_loss(logits, tf.concat([middle - half, middle + half], axis=-1), *targets)

    # Box (N, 4) and class (N,) of each anchor, -1 for none.
    def targets(objects: Objects) -> tuple[Floats, NDArray[np.int64]]:
        object_of_anchor = assign_anchors(anchors, objects.boxes)
        taken = object_of_anchor >= 0
        boxes = anchors.edges.copy()
        labels = np.full(len(object_of_anchor), -1, np.int64)
        boxes[taken] = objects.boxes[object_of_anchor[taken]]
        labels[taken] = objects.labels[object_of_anchor[taken]]
        return boxes, labels

    def outputs(head_outputs: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        from keras.layers import Activation

        logits, encodings = head_outputs
        scores = Activation("sigmoid", name=SCORES)(logits)
        return {ENCODINGS: Activation("linear", name=ENCODINGS)(encodings), SCORES: scores}

    def complete(raw: bytes) -> bytes:
        return Suppression().append_to(raw, anchors.boxes)

    telling = list_class_weights(model)
    return TrainableHead(model, loss, targets, outputs, complete, telling=telling)


def _compute_loss(
    logits: tf.Tensor, predicted: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    import tensorflow as tf

    taken = tf.cast(labels >= 0, tf.float32)
    # A batch may have no box at all.
    count = tf.maximum(tf.reduce_sum(taken), 1.0)
    overlap, generalized = _measure_overlaps(predicted, boxes)
    # The overlap is the target of the score: with its gradient, boxes would move to fit scores.
    quality = tf.stop_gradient(overlap) * taken
    wanted = tf.one_hot(labels, logits.shape[-1]) * quality[..., None]
    missed = tf.square(tf.abs(wanted - tf.sigmoid(logits)))
    surprise = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)
    classes = tf.reduce_sum(missed * surprise) / count
    return classes + BOX_WEIGHT * tf.reduce_sum((1.0 - generalized) * taken) / count


def _measure_overlaps(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and the generalized one, of pairs of boxes, (..., 4)."""
    import tensorflow as tf

    def area(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
        return tf.reduce_prod(tf.maximum(high - low, 0.0), axis=-1)

    first_low, first_high = first[..., :2], first[..., 2:]
    second_low, second_high = second[..., :2], second[..., 2:]
    shared = area(tf.maximum(first_low, second_low), tf.minimum(first_high, second_high))
    union = area(first_low, first_high) + area(second_low, second_high) - shared + 1e-9
    # The smallest box around both.
    around = area(tf.minimum(first_low, second_low), tf.maximum(first_high, second_high)) + 1e-9
    overlap = shared / union
    return overlap, overlap - (around - union) / around
