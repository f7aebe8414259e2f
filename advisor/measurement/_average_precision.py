"""Score found boxes by their average precision, as COCO does: in all, by area, and image by image.

``pycocotools`` matches boxes and sums the precision. The task of detection calls these functions
for each file; the names of the metrics by area are keys of stored evaluations.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import METRICS, ImageUnits, Interval, require_extra
from advisor.measurement._detections import Detections
from advisor.measurement._other_images import interval_of_gain, of_other_images

Floats = NDArray[np.float32]

# The overlap of mAP@0.5.
HALF = (0.5,)
# Groups of images that are left out in turn, at most.
MOST_GROUPS = 300
# Groups that are left out in turn for the figures of areas: they take three times the work.
MOST_AREA_GROUPS = 40

ALL_AREAS = slice(0, 1)
EACH_AREA = slice(1, 4)
MAP, *BY_AREA = (name for name, metric in METRICS.items() if metric.of_boxes)
AREAS = {name: slice(place, place + 1) for place, name in enumerate((MAP, *BY_AREA))}
"""Place of the area of each metric in those of ``pycocotools``:
all objects, small, medium and large ones.
"""


@dataclass(frozen=True)
class DetectionScore:
    """Average precision of found boxes (0-1), with its 95 % interval (:func:`.of_other_images`).

    ``half`` is mAP@0.5, the mean over classes of the average precision at an overlap of 0.5; a
    class without a box has None. ``coco`` is the mean over overlaps from 0.5 to 0.95, COCO's main
    figure.
    """

    half: Interval
    coco: Interval
    by_class: tuple[float | None, ...]


def score_boxes(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    groups: Sequence[int] = (),
) -> DetectionScore:
    """Return the average precision of found boxes, by ``pycocotools``;
    sizes are height and width in pixels.

    ``groups`` has the number of the group of each image; empty if each image is one.
    """
    if not sum(len(boxes_of_image.labels) for boxes_of_image in true):
        raise ValueError("no image has a box")
    evaluation = evaluate_matches(true, detected, sizes, classes)
    precision = _compute_precision(evaluation, range(len(true)))
    half_without = list[float]()
    coco_without = list[float]()
    for others in _leave_out_groups(groups, len(true), MOST_GROUPS):
        # Overlap, class: the first overlap is 0.5.
        precision_without = _compute_precision(evaluation, others)
        half_without.append(_mean_of_known(precision_without[0]))
        coco_without.append(_mean_of_known(precision_without))
    half = of_other_images(_mean_of_known(precision[0]), half_without)
    coco = of_other_images(_mean_of_known(precision), coco_without)
    by_class = tuple(None if np.isnan(value) else float(value) for value in precision[0])
    return DetectionScore(half, coco, by_class)


def _leave_out_groups(groups: Sequence[int], images: int, most: int) -> Iterator[list[int]]:
    """Yield the places of all other images for each group of images,
    of which there are at most so many.
    """
    units = ImageUnits.of(groups, images)
    count = units.count
    # Neighbouring groups are joined: each that is left out costs an evaluation of all images.
    joined = units.numbers * min(count, most) // count
    for number in range(int(joined.max()) + 1):
        yield np.flatnonzero(joined != number).tolist()


def score_areas(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    groups: Sequence[int] = (),
) -> dict[str, Interval]:
    """Return COCO's average precision (0-1) of small,
    medium and large objects by the names of their metrics.

    An area without a true object is absent. Each has the range on as many other images, see
    :func:`.of_other_images`. Arguments are those of :func:`score_boxes`.
    """
    evaluation = evaluate_matches(true, detected, sizes, classes, areas=EACH_AREA)
    precision = _compute_area_precision(evaluation, range(len(true)))
    other_images = _leave_out_groups(groups, len(true), MOST_AREA_GROUPS)
    precisions_without = [_compute_area_precision(evaluation, others) for others in other_images]
    scores: dict[str, Interval] = {}
    for place, metric in enumerate(BY_AREA):
        value = _mean_of_known(precision[:, :, place])
        if np.isfinite(value):
            without = []
            for precision_without in precisions_without:
                without.append(_mean_of_known(precision_without[:, :, place]))
            scores[metric] = of_other_images(value, without)
    return scores


def split_precision(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    metric: str = "",
) -> Floats:
    """Return each image's share in the mAP@0.5:
    N values whose mean is the mAP@0.5, to compare files image by image.

    With a ``metric`` of :data:`AREAS` they are shares in this one.

    An average precision is no mean over images. Its jackknife pseudo-values are used instead: N
    times the figure of all images less N - 1 times the figure without one image (B. Efron and R.
    Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11), shifted so that their mean
    is the figure itself. A share may be below 0 or above 1. Of many images, several are left out
    at a time, and have one value. Arguments are those of :func:`score_boxes`.
    """
    # COCO's figures by area are means over all overlaps, as published.
    overlaps = () if metric else HALF
    evaluation = evaluate_matches(
        true, detected, sizes, classes, overlaps, AREAS.get(metric, ALL_AREAS)
    )
    images = len(true)
    groups = np.arange(images) * min(images, MOST_GROUPS) // images
    figure = _mean_of_known(_compute_precision(evaluation, range(images)))
    count = int(groups[-1]) + 1
    figures_without = np.zeros(count)
    for group in range(count):
        others = np.flatnonzero(groups != group).tolist()
        figures_without[group] = _mean_of_known(_compute_precision(evaluation, others))
    # Without these images no true box is left: they add nothing to the spread.
    figures_without = np.where(np.isnan(figures_without), figure, figures_without)
    pseudo_values = count * figure - (count - 1) * figures_without
    shares = pseudo_values[groups]
    return np.asarray((shares - shares.mean() + figure).astype(np.float32))


def measure_gain(
    true: Sequence[Detections],
    before: Sequence[Detections],
    after: Sequence[Detections],
    classes: int,
    groups: Sequence[int] = (),
) -> tuple[float, float, Interval]:
    """Return the mAP@0.5 of two files on the same images (0-1), and what the later one gains.

    The mean is over the classes of which a true box is there. See :func:`.interval_of_gain`;
    ``groups`` as of :func:`score_boxes`.
    """
    # Overlaps do not depend on the unit of the edges, so shares serve as pixels.
    sizes = [(1, 1)] * len(true)
    evaluations = []
    for found in (before, after):
        evaluations.append(evaluate_matches(true, found, sizes, classes, HALF))

    def compute_precisions(images: Sequence[int]) -> list[float]:
        return [_mean_of_known(_compute_precision(one, images)) for one in evaluations]

    earlier, later = compute_precisions(range(len(true)))
    # The same group is left out of both files: what an image is like moves both alike.
    without = []
    for others in _leave_out_groups(groups, len(true), MOST_GROUPS):
        earlier_without, later_without = compute_precisions(others)
        without.append(later_without - earlier_without)
    return earlier, later, interval_of_gain(later - earlier, np.array(without))


def _mean_of_known(values: Floats) -> float:
    if np.isfinite(values).any():
        return float(np.nanmean(values))
    return float("nan")


def require_coco() -> None:
    """Raise UsageError where the package that scores boxes is not installed."""
    require_extra(
        "pycocotools", "detection", "boxes are scored by pycocotools, which is not installed"
    )


def evaluate_matches(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    overlaps: Sequence[float] = (),
    areas: slice = ALL_AREAS,
) -> Any:
    """Match the boxes of each image at some overlaps, COCO's by default;
    return the evaluation of ``pycocotools``.

    ``areas`` selects the ranges of areas that are judged, each for itself.
    """
    require_coco()
    from pycocotools import coco, cocoeval

    # They print each step; redirecting the output of one thread is not possible.
    for module in (coco, cocoeval):
        vars(module)["print"] = lambda *_: None
    categories = [{"id": label, "name": str(label)} for label in range(classes)]
    images = []
    for number, (height, width) in enumerate(sizes):
        images.append({"id": number, "height": height, "width": width})
    truth = coco.COCO()
    answers = coco.COCO()
    for index, boxes in ((truth, true), (answers, detected)):
        dataset: Any = {
            "images": images,
            "categories": categories,
            "annotations": _coco_rows(boxes, sizes),
        }
        index.dataset = dataset
        index.createIndex()
    evaluation = cocoeval.COCOeval(truth, answers, "bbox")
    parameters = evaluation.params
    parameters.areaRng = parameters.areaRng[areas]
    parameters.areaRngLbl = parameters.areaRngLbl[areas]
    # COCO also reports figures for 1 and 10 boxes an image, which nobody reads here.
    parameters.maxDets = parameters.maxDets[-1:]
    if overlaps:
        parameters.iouThrs = np.array(overlaps)
    evaluation.evaluate()
    return evaluation


def _coco_rows(
    rows: Sequence[Detections], sizes: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """Return boxes in COCO's form: numbered from 1, as left, top, width and height in pixels."""
    annotations: list[dict[str, Any]] = []
    for number, (detections, (height, width)) in enumerate(zip(rows, sizes, strict=True)):
        boxes = zip(detections.boxes.tolist(), detections.labels, detections.scores, strict=True)
        for (top, left, bottom, right), label, score in boxes:
            box = [left * width, top * height, (right - left) * width, (bottom - top) * height]
            annotation = {
                # pycocotools marks an unmatched box by the number 0.
                "id": len(annotations) + 1,
                "image_id": number,
                "category_id": int(label),
                "bbox": box,
                "area": box[2] * box[3],
                "iscrowd": 0,
                "score": float(score),
            }
            annotations.append(annotation)
    return annotations


def _compute_precision(evaluation: Any, images: Sequence[int]) -> Floats:
    """Return the average precision over some images of objects of any area,
    see :func:`_compute_area_precision`.
    """
    return np.asarray(_compute_area_precision(evaluation, images)[:, :, 0])


def _compute_area_precision(evaluation: Any, images: Sequence[int]) -> Floats:
    """Return the average precision over some images, which may repeat: (overlaps, classes, areas).

    It is NaN for a class that has no true box of an area.
    """
    # Matching is the expensive part and is the same for every choice of images,
    # so only the sums are made anew.
    part = copy.copy(evaluation)
    matches = evaluation.evalImgs
    part.evalImgs = []
    # A block for each class and area.
    for start in range(0, len(matches), len(evaluation.params.imgIds)):
        part.evalImgs += [matches[start + image] for image in images]
    # accumulate() reads both: the images to sum, and how many were matched.
    part.params = part._paramsEval = copy.copy(evaluation.params)
    part.params.imgIds = list(range(len(images)))
    part.accumulate()
    # Overlap, recall, class, area. A class without a true box has -1 everywhere.
    precision = part.eval["precision"][:, :, :, :, 0]
    has_boxes = (precision > -1).any(axis=1)
    return np.asarray(np.where(has_boxes, precision.mean(axis=1), np.nan))
