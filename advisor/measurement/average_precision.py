"""Score found boxes by their average precision, as COCO does, and count right and wrong ones."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from advisor.core.errors import require_extra
from advisor.core.quantity import Interval
from advisor.measurement.accuracy import Detections

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Flags = NDArray[np.bool_]


RESAMPLES = 200
HALF = (0.5,)
"""The overlap of mAP@0.5."""

MOST_GROUPS = 300
"""Groups of images that are left out in turn, at most."""


@dataclass(frozen=True)
class DetectionScore:
    """Average precision of found boxes (0-1), with 95 % intervals by a bootstrap over the images.

    Attributes:
        half: mAP@0.5: the mean over classes of the average precision at an overlap of 0.5.
        coco: the mean over overlaps from 0.5 to 0.95, COCO's main figure.
        by_class: average precision at 0.5 of each class; None for a class without a box.
    """

    half: Interval
    coco: Interval
    by_class: tuple[float | None, ...]


def score(
    true: Sequence[Detections], found: Sequence[Detections], sizes: Sequence[tuple[int, int]], classes: int
) -> DetectionScore:
    """Return the average precision of found boxes, by ``pycocotools``.

    Args:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.

    Raises:
        ValueError: there is no true box.
    """
    import numpy as np

    if not sum(len(one.labels) for one in true):
        raise ValueError("no image has a box")
    judged, draw = evaluated(true, found, sizes, classes), np.random.default_rng(0)
    precision = _precision(judged, range(len(true)))
    drawn = [_precision(judged, draw.integers(0, len(true), len(true)).tolist()) for _ in range(RESAMPLES)]
    half = _interval(precision[0], [each[0] for each in drawn])
    by_class = tuple(None if np.isnan(value) else float(value) for value in precision[0])
    return DetectionScore(half, _interval(precision, drawn), by_class)


def _interval(precision: Floats, drawn: Sequence[Floats]) -> Interval:
    """Return the mean of average precisions, with the interval that resamples of the images give."""
    import numpy as np

    value = _mean(precision)
    low, high = np.nanquantile([_mean(each) for each in drawn], [0.025, 0.975])
    return Interval(value, min(value, float(low)), max(value, float(high)))


def shares(
    true: Sequence[Detections], found: Sequence[Detections], sizes: Sequence[tuple[int, int]], classes: int
) -> Floats:
    """Return each image's share in the mAP@0.5: N values whose mean is the mAP@0.5, to compare files image by image.

    An average precision is no mean over images. Its jackknife pseudo-values are used instead: N times the figure of
    all images less N - 1 times the figure without one image (B. Efron and R. Tibshirani, "An Introduction to the
    Bootstrap", 1993, chapter 11), shifted so that their mean is the figure itself. A share may be below 0 or above 1.
    Of many images, several are left out at a time, and have one value.

    Args:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.
    """
    import numpy as np

    judged, count = evaluated(true, found, sizes, classes, HALF), len(true)
    groups = np.arange(count) * min(count, MOST_GROUPS) // count
    whole, left = _mean(_precision(judged, range(count))[0]), np.zeros(groups[-1] + 1)
    for group in range(len(left)):
        left[group] = _mean(_precision(judged, np.flatnonzero(groups != group).tolist())[0])
    left = np.where(np.isnan(left), whole, left)
    values = (len(left) * whole - (len(left) - 1) * left)[groups]
    found_shares: Floats = (values - values.mean() + whole).astype(np.float32)
    return found_shares


def threshold(
    true: Sequence[Detections], found: Sequence[Detections], sizes: Sequence[tuple[int, int]], classes: int
) -> float:
    """Return the score (0-1) from which on found boxes should count: one for all classes, with the best F1 in all.

    F1 is twice the number of right boxes over the number of true and of found ones. A box is right if it overlaps a
    true one of its class by half, and no surer box does. The threshold lies midway between the least score that counts
    and the next one, so that rounding moves no box across it.

    Args:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.
    """
    import numpy as np

    judged = [each for each in evaluated(true, found, sizes, classes, HALF).evalImgs if each]
    right = np.concatenate([np.zeros(0, bool), *(each["dtMatches"][0] > 0 for each in judged)])
    scores = np.concatenate([np.zeros(0), *(each["dtScores"] for each in judged)])
    order = np.argsort(-scores)
    ends = np.concatenate([[1.0], scores[order], [0.0]])
    hits = np.append(0, np.cumsum(right[order]))
    f1 = 2 * hits / np.maximum(np.arange(len(hits)) + sum(len(one.labels) for one in true), 1)
    f1[ends[:-1] == ends[1:]] = 0.0  # boxes with one score count together
    best = int(f1.argmax())
    return float(ends[best] + ends[best + 1]) / 2


def _mean(values: Floats) -> float:
    import numpy as np

    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def require_coco() -> None:
    """Refuse to score boxes where the package that does it is not installed.

    Raises:
        UsageError: it is missing.
    """
    require_extra("pycocotools", "detection", "boxes are scored by pycocotools, which is not installed")


def evaluated(
    true: Sequence[Detections],
    found: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    overlaps: Sequence[float] = (),
) -> Any:
    """Match the boxes of each image at some overlaps, COCO's by default; return the evaluation of ``pycocotools``."""
    require_coco()
    import numpy as np
    from pycocotools import coco, cocoeval

    for module in (coco, cocoeval):  # they print each step; redirecting the output of one thread is not possible
        vars(module)["print"] = lambda *_: None
    categories = [{"id": label, "name": str(label)} for label in range(classes)]
    images = [{"id": number, "height": height, "width": width} for number, (height, width) in enumerate(sizes)]
    truth, answers = coco.COCO(), coco.COCO()
    for documents, rows in ((truth, true), (answers, found)):
        listed: Any = {"images": images, "categories": categories, "annotations": _rows(rows, sizes)}
        documents.dataset = listed
        documents.createIndex()
    evaluation = cocoeval.COCOeval(truth, answers, "bbox")
    parameters = evaluation.params
    parameters.areaRng, parameters.areaRngLbl = parameters.areaRng[:1], parameters.areaRngLbl[:1]
    parameters.maxDets = parameters.maxDets[-1:]
    if overlaps:
        parameters.iouThrs = np.array(overlaps)
    evaluation.evaluate()
    return evaluation


def _rows(rows: Sequence[Detections], sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return boxes in COCO's form: numbered from 1, as left, top, width and height in pixels."""
    listed: list[dict[str, Any]] = []
    for number, (one, (height, width)) in enumerate(zip(rows, sizes, strict=True)):
        for (top, left, bottom, right), label, sureness in zip(one.boxes.tolist(), one.labels, one.scores, strict=True):
            box = [left * width, top * height, (right - left) * width, (bottom - top) * height]
            listed.append({
                "id": len(listed) + 1, "image_id": number, "category_id": int(label), "bbox": box,
                "area": box[2] * box[3], "iscrowd": 0, "score": float(sureness),
            })  # fmt: skip
    return listed


def _precision(evaluation: Any, images: Sequence[int]) -> Floats:
    """Return the average precision over some images, which may repeat: (overlaps, classes), NaN without a true box."""
    import numpy as np

    chosen, whole = copy.copy(evaluation), evaluation.evalImgs
    starts = range(0, len(whole), len(evaluation.params.imgIds))  # a block for each class
    chosen.evalImgs = [whole[start + image] for start in starts for image in images]
    chosen.params = chosen._paramsEval = copy.copy(evaluation.params)
    chosen.params.imgIds = list(range(len(images)))
    chosen.accumulate()
    found = chosen.eval["precision"][:, :, :, 0, 0]  # overlap, recall, class
    precision: Floats = np.where((found > -1).any(axis=1), found.mean(axis=1), np.nan)
    return precision


@dataclass(frozen=True, eq=False)
class Matched:
    """The boxes of one image from a threshold on.

    Attributes:
        true: the true boxes.
        found: the found boxes with at least the threshold as score.
        seen: for each true box, whether it was found, bool (true boxes,).
        right: for each found box, whether it is right, bool (found boxes,).
    """

    true: Detections
    found: Detections
    seen: Flags
    right: Flags

    @property
    def f1(self) -> float:
        """Twice the right boxes over the true and the found ones; 1 if there is nothing, and nothing was found."""
        boxes = len(self.seen) + len(self.right)
        return 2 * int(self.right.sum()) / boxes if boxes else 1.0

    @property
    def errors(self) -> int:
        """Number of boxes that were missed or are wrong."""
        return int((~self.seen).sum() + (~self.right).sum())


def match(
    true: Sequence[Detections],
    found: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    threshold: float,
) -> list[Matched]:
    """Match found boxes to true ones of their class that they overlap by half, the surest first, as COCO does.

    Args:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.
        threshold: least score of a box that counts.
    """
    sure = [one.above(threshold) for one in found]
    judged = [each for each in evaluated(true, sure, sizes, classes, HALF).evalImgs if each]
    seen = _flags(true, [(each["gtIds"], each["gtMatches"][0]) for each in judged])
    right = _flags(sure, [(each["dtIds"], each["dtMatches"][0]) for each in judged])
    return [Matched(*each) for each in zip(true, sure, seen, right, strict=True)]


def counts(matched: Sequence[Matched], classes: int) -> NDArray[np.int64]:
    """Return the true, the found and the right boxes of each image and class, int64 (images, classes, 3)."""
    import numpy as np

    table = np.zeros((len(matched), classes, 3), np.int64)
    for row, one in zip(table, matched, strict=True):
        for place, labels in enumerate((one.true.labels, one.found.labels, one.found.labels[one.right])):
            row[:, place] = np.bincount(labels, minlength=classes)
    return table


def _flags(rows: Sequence[Detections], matches: Sequence[tuple[Sequence[int], Flags]]) -> list[Flags]:
    """Return whether each box of each image has a match; boxes are numbered from 1 over all images."""
    import numpy as np

    ends = np.cumsum([0, *(len(one.labels) for one in rows)])
    flags = np.zeros(ends[-1], bool)
    for ids, partners in matches:
        flags[np.asarray(ids, np.int64) - 1] = partners > 0
    return [flags[start:end] for start, end in pairwise(ends)]
