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

BOX_WEIGHT = 2.0  # Weight of the boxes' loss beside that of the classes

SPREAD = 0.15  # Standard deviation of the score that is wanted around a centre, over the side of the box
LEAST_SPREAD = 0.4  # Its least value in cells: the wanted score of a neighbour is below one half
THRESHOLDS = np.linspace(0.1, 0.8, 15)  # Thresholds to choose from

SIDE = 8.0  # Side of an anchor in cells of its map, as ATSS (below) has it; see decision 0113
CANDIDATES = 9  # Places of each level whose anchors a box may be assigned to, the nearest ones: the figure of ATSS


def box_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for boxes, from the shapes of the maps, the finest first, and the classes.

    The score of a class is trained to be the overlap of the predicted with the true box (X. Li et al., "Generalized
    Focal Loss", 2020, quality focal loss), so that of two boxes on one object the better one is kept. The loss of the
    boxes is one minus their generalized overlap (H. Rezatofighi et al., "Generalized Intersection over Union", 2019).
    """
    return learn_boxes(make_head(shapes, classes), anchors_of([shape[:2] for shape in shapes]))


def learn_boxes(model: keras.Model, anchors: Anchors) -> TrainableHead:
    """Return a network from maps to logits (n, N, C) and encodings (n, N, 4), with loss and targets for its anchors."""

    def loss(outputs: list[tf.Tensor], targets: tuple[tf.Tensor, ...]) -> tf.Tensor:
        import tensorflow as tf

        from advisor.tflite import CENTRE_SCALE, SIDE_SCALE

        logits, encodings = outputs
        places = tf.constant(anchors.boxes)
        middle = encodings[..., :2] / CENTRE_SCALE * places[:, 2:] + places[:, :2]
        sides = tf.exp(tf.clip_by_value(encodings[..., 2:] / SIDE_SCALE, -4.0, 4.0))  # over those of the anchor
        half = sides * places[:, 2:] / 2
        return _compute_loss(logits, tf.concat([middle - half, middle + half], axis=-1), *targets)

    def targets(objects: Objects) -> tuple[Floats, NDArray[np.int64]]:  # box (N, 4) and class (N,), -1 for none
        chosen = assign_anchors(anchors, objects.boxes)
        taken = chosen >= 0
        boxes = anchors.edges.copy()
        labels = np.full(len(chosen), -1, np.int64)
        boxes[taken] = objects.boxes[chosen[taken]]
        labels[taken] = objects.labels[chosen[taken]]
        return boxes, labels

    def outputs(given: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        from keras.layers import Activation

        logits, encodings = given
        scores = Activation("sigmoid", name=SCORES)(logits)
        return {ENCODINGS: Activation("linear", name=ENCODINGS)(encodings), SCORES: scores}

    def complete(raw: bytes) -> bytes:
        return append_postprocess(raw, anchors.boxes, Suppression())

    return TrainableHead(model, loss, targets, outputs, complete)


def _compute_loss(logits: tf.Tensor, predicted: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    taken = tf.cast(labels >= 0, tf.float32)
    # A batch may have no box at all.
    count = tf.maximum(tf.reduce_sum(taken), 1.0)
    overlap, generalized = _measure_overlaps(predicted, boxes)
    # The overlap is the target of the score here. With its gradient, boxes would be moved to please their scores.
    quality = tf.stop_gradient(overlap) * taken
    wanted = tf.one_hot(labels, logits.shape[-1]) * quality[..., None]
    missed = tf.square(tf.abs(wanted - tf.sigmoid(logits)))
    classes = tf.reduce_sum(missed * tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)) / count
    return classes + BOX_WEIGHT * tf.reduce_sum((1.0 - generalized) * taken) / count


def _measure_overlaps(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and the generalized one, of boxes in pairs: edges (..., 4)."""
    import tensorflow as tf

    def area(low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
        return tf.reduce_prod(tf.maximum(high - low, 0.0), axis=-1)

    shared = area(tf.maximum(first[..., :2], second[..., :2]), tf.minimum(first[..., 2:], second[..., 2:]))
    union = sum(area(edges[..., :2], edges[..., 2:]) for edges in (first, second)) - shared + 1e-9
    around = area(tf.minimum(first[..., :2], second[..., :2]), tf.maximum(first[..., 2:], second[..., 2:])) + 1e-9
    overlap = shared / union
    return overlap, overlap - (around - union) / around


def centre_detector_head(shapes: Sequence[Shape], classes: int) -> TrainableHead:
    """Return head, loss and targets for centres. After training, scores are shifted: the best threshold is one half.

    The score of a place is trained to be that of a bell around each centre, with less weight on places near a centre:
    X. Zhou et al., "Objects as Points" (2019), equation 1. The network is that of Edge Impulse's FOMO: a backbone cut
    where a cell has 8 or 16 pixels, and a map of classes.
    """
    model = centre_head(shapes, classes)
    rows, columns = shapes[0][:2]

    def finish(logits: Floats, objects: Sequence[Objects]) -> None:
        kernel, bias = model.layers[-1].get_weights()
        model.layers[-1].set_weights([kernel, bias - _choose_thresholds(logits, objects, classes)])

    def targets(objects: Objects) -> tuple[Floats]:
        return (_draw_bells(objects, rows, columns, classes),)

    def outputs(given: list[keras.KerasTensor]) -> dict[str, keras.KerasTensor]:
        from keras.layers import Activation

        return {CENTRES: Activation("sigmoid", name=CENTRES)(given[0])}

    return TrainableHead(model, _map_loss, targets, outputs, finish=finish)


def _draw_bells(objects: Objects, rows: int, columns: int, classes: int) -> Floats:
    """Return the wanted scores (rows, columns, C): one at the cell of each centre, and less around it."""
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
    """Return the logit of each class from which a centre counts, by F1 on the training images themselves."""
    true = [
        Detections(objects_of_image.boxes, objects_of_image.labels, np.ones(len(objects_of_image.labels), np.float32))
        for objects_of_image in objects
    ]
    marks = [find_centres(1 / (1 + np.exp(-row)), THRESHOLDS[0]) for row in logits]
    tables = [count_boxes(match_centres(true, marks, least), classes).sum(axis=0) for least in THRESHOLDS.tolist()]
    reached = np.nan_to_num(np.stack([f1_of(table) for table in tables]))
    best = THRESHOLDS[reached.argmax(axis=0)]
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
        y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
        whole = [y, x, np.full_like(y, SIDE / rows), np.full_like(x, SIDE / columns)]
        parts.append(np.stack(whole, axis=-1).reshape(-1, 4).astype(np.float32))
    return Anchors(np.concatenate(parts), tuple(map(len, parts)))


def compute_overlaps(first: Floats, second: Floats) -> Floats:
    """Return the intersection over union of boxes: edges (N, 4) and (M, 4) give (N, M)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    whole = areas[0][:, None] + areas[1][None, :] - shared
    return np.asarray(shared / np.maximum(whole, 1e-12), np.float32)


def assign_anchors(anchors: Anchors, boxes: Floats) -> NDArray[np.int64]:
    """Return the index of the true box of each anchor, -1 for none; ``boxes`` are edges (M, 4).

    Of the nearest anchors of each level, a box takes those with its centre inside that overlap it by at least the mean
    and one standard deviation: S. Zhang et al., "Bridging the Gap Between Anchor-based and Anchor-free Detection via
    Adaptive Training Sample Selection" (ATSS, 2020). So small and large boxes get anchors without thresholds to choose.
    A box that has none takes the candidate with the largest overlap.
    """
    chosen = np.full(len(anchors.boxes), -1, np.int64)
    best = np.zeros(len(anchors.boxes))
    if not len(boxes):
        return chosen
    shared = compute_overlaps(anchors.edges, boxes)
    centres = anchors.boxes[:, :2]
    distances = np.square(centres[:, None] - (boxes[None, :, :2] + boxes[None, :, 2:]) / 2).sum(axis=-1)
    levels = [(end - count, end) for count, end in zip(anchors.counts, np.cumsum(anchors.counts), strict=True)]
    most = CANDIDATES * anchors.of_place
    order = [start + np.argsort(distances[start:end], axis=0, kind="stable")[:most] for start, end in levels]
    near = np.concatenate(order)
    for number, box in enumerate(boxes):
        mine = near[:, number]
        overlaps_of_box = shared[mine, number]
        inside = ((centres[mine] > box[:2]) & (centres[mine] < box[2:])).all(axis=1)
        taken = mine[(overlaps_of_box >= overlaps_of_box.mean() + overlaps_of_box.std()) & inside]
        # A box between all anchor centres would otherwise have nothing that learns it.
        taken = taken if len(taken) else mine[[overlaps_of_box.argmax()]]
        # Two boxes may want one anchor: it learns the one that it overlaps more.
        better = taken[(shared[taken, number] > best[taken]) | (chosen[taken] < 0)]
        chosen[better] = number
        best[better] = shared[better, number]
    return chosen
