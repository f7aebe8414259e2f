"""Loss and targets of the heads for boxes and for centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.measurement import Detections, count_boxes, f1_of, find_centres, match_centres
from advisor.tflite import CENTRES, ENCODINGS, SCORES, Suppression, append_postprocess
from advisor.training._detection import centre_head, make_head
from advisor.training._on_maps.fit import Shape, TrainableHead
from advisor.training._on_maps.kept import Floats, Objects

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

# Weight of the boxes' loss beside that of the classes.
BOX_WEIGHT = 2.0

# Standard deviation of the score that is wanted around a centre, over the side of the box.
SPREAD = 0.15
# Its least value in cells: the wanted score of a neighbour is below one half.
LEAST_SPREAD = 0.4
# Thresholds to choose from.
THRESHOLDS = np.linspace(0.1, 0.8, 15)

# Side of an anchor in cells of its map, as ATSS (below) has it; see decision 0113.
SIDE = 8.0
# Places of each level whose anchors a box may be assigned to, the nearest ones:
# the figure of ATSS.
CANDIDATES = 9


def box_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for boxes, from the shapes of the maps, the finest first,
    and the classes.

    The score of a class is trained to be the overlap of the predicted with the true box (X. Li et
    al., "Generalized Focal Loss", 2020, quality focal loss), so that of two boxes on one object
    the better one is kept. The loss of the boxes is one minus their generalized overlap (H.
    Rezatofighi et al., "Generalized Intersection over Union", 2019).
    """
    return learn_boxes(make_head(shapes, classes), anchors_of([shape[:2] for shape in shapes]))


def learn_boxes(model: keras.Model, anchors: Anchors) -> TrainableHead:
    """Return a network from maps to logits (n, N, C) and encodings (n, N, 4),
    with loss and targets for its anchors.
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
        return append_postprocess(raw, anchors.boxes, Suppression())

    return TrainableHead(model, loss, targets, outputs, complete)


def _compute_loss(
    logits: tf.Tensor, predicted: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    import tensorflow as tf

    taken = tf.cast(labels >= 0, tf.float32)
    # A batch may have no box at all.
    count = tf.maximum(tf.reduce_sum(taken), 1.0)
    overlap, generalized = _measure_overlaps(predicted, boxes)
    # The overlap is the target of the score here.
    # With its gradient, boxes would be moved to please their scores.
    quality = tf.stop_gradient(overlap) * taken
    wanted = tf.one_hot(labels, logits.shape[-1]) * quality[..., None]
    missed = tf.square(tf.abs(wanted - tf.sigmoid(logits)))
    classes = (
        tf.reduce_sum(missed * tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)) / count
    )
    return classes + BOX_WEIGHT * tf.reduce_sum((1.0 - generalized) * taken) / count


def _measure_overlaps(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and the generalized one, of boxes in pairs: edges (...,
    4).
    """
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


def centre_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for centres. After training, scores are shifted:
    the best threshold is one half.

    The score of a place is trained to be that of a bell around each centre, with less weight on
    places near a centre: X. Zhou et al., "Objects as Points" (2019), equation 1. The network is
    that of Edge Impulse's FOMO: a backbone cut where a cell has 8 or 16 pixels, and a map of
    classes.
    """
    model = centre_head(shapes, classes)
    rows, columns = shapes[0][:2]

    def finish(logits: Floats, objects: Sequence[Objects]) -> None:
        kernel, bias = model.layers[-1].get_weights()
        model.layers[-1].set_weights([kernel, bias - _choose_thresholds(logits, objects, classes)])

    def targets(objects: Objects) -> tuple[Floats]:
        return (_draw_bells(objects, rows, columns, classes),)

    def outputs(head_outputs: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        from keras.layers import Activation

        return {CENTRES: Activation("sigmoid", name=CENTRES)(head_outputs[0])}

    return TrainableHead(model, _map_loss, targets, outputs, finish=finish)


def _draw_bells(objects: Objects, rows: int, columns: int, classes: int) -> Floats:
    """Return the wanted scores (rows, columns, C):
    one at the cell of each centre, and less around it.
    """
    wanted = np.zeros((rows, columns, classes), np.float32)
    cells = np.array([rows, columns])
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    for box, label in zip(objects.boxes, objects.labels, strict=True):
        centre = np.minimum((box[:2] + box[2:]) / 2 * cells, cells - 1).astype(np.int64)
        spread = np.maximum(LEAST_SPREAD, SPREAD * (box[2:] - box[:2]) * cells)
        bell = np.exp(-np.square((places - centre) / spread).sum(axis=-1) / 2)
        wanted[:, :, label] = np.maximum(wanted[:, :, label], bell)
    return wanted


def _map_loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
    import tensorflow as tf

    (logits,) = outputs
    (wanted,) = targets
    scores = tf.sigmoid(logits)
    centre = tf.cast(wanted >= 1, tf.float32)
    right = centre * (1 - scores) ** 2 * tf.math.log_sigmoid(logits)
    wrong = (1 - centre) * (1 - wanted) ** 4 * scores**2 * tf.math.log_sigmoid(-logits)
    return -tf.reduce_sum(right + wrong) / tf.maximum(tf.reduce_sum(centre), 1.0)


def _choose_thresholds(logits: Floats, objects: Sequence[Objects], classes: int) -> Floats:
    """Return the logit of each class from which a centre counts,
    by F1 on the training images themselves.
    """
    true = []
    for objects_of_image in objects:
        sure = np.ones(len(objects_of_image.labels), np.float32)
        true.append(Detections(objects_of_image.boxes, objects_of_image.labels, sure))
    marks = []
    for logits_of_image in logits:
        marks.append(find_centres(1 / (1 + np.exp(-logits_of_image)), THRESHOLDS[0]))
    scores = []
    for threshold in THRESHOLDS.tolist():
        table = count_boxes(match_centres(true, marks, threshold), classes).sum(axis=0)
        scores.append(f1_of(table))
    # A class without an object has no F1, and any threshold serves it.
    best = THRESHOLDS[np.nan_to_num(np.stack(scores)).argmax(axis=0)]
    return np.asarray(np.log(best / (1 - best)), np.float32)


@dataclass(frozen=True, eq=False)
class Anchors:
    """The anchors of some maps, the finest map first and row by row."""

    boxes: Floats  # float32 (N, 4): centre y and x, height and width
    counts: tuple[int, ...]  # number of anchors of each map
    of_place: int = 1  # number of anchors of each place

    @property
    def edges(self) -> Floats:
        """The anchors as edges, float32 (N, 4)."""
        centres = self.boxes[:, :2]
        sides = self.boxes[:, 2:]
        return np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)


def anchors_of(shapes: Sequence[tuple[int, int]]) -> Anchors:
    """Return the anchors of maps with these rows and columns."""
    parts = []
    for rows, columns in shapes:
        down = (np.arange(rows) + 0.5) / rows
        across = (np.arange(columns) + 0.5) / columns
        y, x = np.meshgrid(down, across, indexing="ij")
        boxes = np.stack(
            [y, x, np.full_like(y, SIDE / rows), np.full_like(x, SIDE / columns)], axis=-1
        )
        parts.append(boxes.reshape(-1, 4).astype(np.float32))
    return Anchors(np.concatenate(parts), tuple(map(len, parts)))


def compute_overlaps(first: Floats, second: Floats) -> Floats:
    """Return the intersection over union of boxes: edges (N, 4) and (M, 4) give (N, M)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    first_areas = np.prod(first[:, 2:] - first[:, :2], axis=1)
    second_areas = np.prod(second[:, 2:] - second[:, :2], axis=1)
    union = first_areas[:, None] + second_areas[None, :] - shared
    return np.asarray(shared / np.maximum(union, 1e-12), np.float32)


def assign_anchors(anchors: Anchors, boxes: Floats) -> NDArray[np.int64]:
    """Return the index of the true box of each anchor, -1 for none; ``boxes`` are edges (M, 4).

    Of the nearest anchors of each level, a box takes those with its centre inside that overlap it
    by at least the mean and one standard deviation: S. Zhang et al., "Bridging the Gap Between
    Anchor-based and Anchor-free Detection via Adaptive Training Sample Selection" (ATSS, 2020). So
    small and large boxes get anchors without thresholds to choose. A box that has none takes the
    candidate with the largest overlap.
    """
    box_of_anchor = np.full(len(anchors.boxes), -1, np.int64)
    best_overlaps = np.zeros(len(anchors.boxes))
    if not len(boxes):
        return box_of_anchor
    overlaps = compute_overlaps(anchors.edges, boxes)
    centres = anchors.boxes[:, :2]
    box_centres = (boxes[None, :, :2] + boxes[None, :, 2:]) / 2
    distances = np.square(centres[:, None] - box_centres).sum(axis=-1)
    most = CANDIDATES * anchors.of_place
    nearest = []
    start = 0
    for count in anchors.counts:
        order = np.argsort(distances[start : start + count], axis=0, kind="stable")
        nearest.append(start + order[:most])
        start += count
    candidates_of_boxes = np.concatenate(nearest)
    for number, box in enumerate(boxes):
        candidates = candidates_of_boxes[:, number]
        overlaps_of_box = overlaps[candidates, number]
        inside = ((centres[candidates] > box[:2]) & (centres[candidates] < box[2:])).all(axis=1)
        least_overlap = overlaps_of_box.mean() + overlaps_of_box.std()
        taken = candidates[(overlaps_of_box >= least_overlap) & inside]
        # A box between all anchor centres would otherwise have nothing that learns it.
        if not len(taken):
            taken = candidates[[overlaps_of_box.argmax()]]
        # Two boxes may want one anchor: it learns the one that it overlaps more.
        better = taken[
            (overlaps[taken, number] > best_overlaps[taken]) | (box_of_anchor[taken] < 0)
        ]
        box_of_anchor[better] = number
        best_overlaps[better] = overlaps[better, number]
    return box_of_anchor
