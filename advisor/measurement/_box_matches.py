"""Match what a detector found to true objects, and count: by class, by size, and as F1 of centres.

Boxes are matched by their overlap, as COCO does, centres by the box that they lie in. The task of
detection chooses a threshold here, counts right and wrong boxes for reports, and scores detectors
that find centres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import ImageUnits, Interval, ObjectsOfSize
from advisor.measurement._average_precision import HALF, Floats, evaluate_matches
from advisor.measurement._detections import Detections
from advisor.measurement._other_images import of_other_images

Flags = NDArray[np.bool_]

SIZES = (0.0, 0.025, 0.05, 0.1, 0.2, 1.0)
"""Ends of the ranges of sizes, see :class:`.ObjectsOfSize`:
8, 16, 32 and 64 pixels at an input of 320 pixels.

Backbones halve a map five times, so a cell of the last map has 32 pixels,
and one of the map before it 16.
"""

# True objects that a range needs: fewer are joined with the next range.
LEAST_OF_SIZE = 5

# Score from which a centre counts: the training shifts the scores so that it has the best F1.
LEAST_SCORE = 0.5


def count_by_size(
    matched: Sequence[Matched], floats: Sequence[Matched] | None = None, groups: Sequence[int] = ()
) -> tuple[ObjectsOfSize, ...]:
    """Return how many objects of each size a file finds, and how many fewer than its float32 file.

    ``matched`` are the boxes of each image from the file's threshold on, and ``floats`` those of
    its float32 file from the same threshold on; None if the two are not compared. A range with
    fewer than :data:`LEAST_OF_SIZE` objects is joined with the next larger one. ``groups`` are
    those of :func:`.score_boxes`.
    """
    sizes = []
    for image in matched:
        sides = image.true.boxes[:, 2:] - image.true.boxes[:, :2]
        sizes.append(np.sqrt(np.prod(sides, axis=1)))
    all_sizes = np.concatenate(sizes) if sizes else np.zeros(0)
    units = ImageUnits.of(groups, len(matched))
    rows = []
    for least, below in _join_ranges(all_sizes):
        # The last range has its upper end too,
        # or an object as large as the image would be in none.
        is_last = below == SIZES[-1]
        inside = [(size >= least) & ((size < below) | is_last) for size in sizes]
        true = np.array([flags.sum() for flags in inside])
        seen = _count_seen(matched, inside)
        recall = _recall_on_others(seen, true, units)
        loss = None
        if floats is not None:
            loss = _loss_on_others(_count_seen(floats, inside) - seen, true, units)
        middle = float(np.median(all_sizes[np.concatenate(inside)]))
        recall_ends = (recall.low, recall.high)
        loss_value = loss.value if loss else None
        loss_ends = (loss.low, loss.high) if loss else None
        count = int(true.sum())
        rows.append(
            ObjectsOfSize(
                least, below, count, middle, recall.value, recall_ends, loss_value, loss_ends
            )
        )
    return tuple(rows)


def _join_ranges(sizes: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the ends of the ranges of :data:`SIZES` with enough objects each;
    small ranges join the next one.
    """
    ranges: list[tuple[float, float]] = []
    least = SIZES[0]
    for below in SIZES[1:]:
        is_last = below == SIZES[-1]
        inside = (sizes >= least) & ((sizes < below) | is_last)
        count = int(inside.sum())
        if count >= LEAST_OF_SIZE:
            ranges.append((least, below))
            least = below
        elif is_last and count:
            # The largest objects are too few for a range of their own,
            # so they join the one before.
            start = ranges.pop()[0] if ranges else SIZES[0]
            ranges.append((start, below))
    return ranges


def _count_seen(matched: Sequence[Matched], inside: Sequence[Flags]) -> NDArray[np.int64]:
    """Return how many of the chosen true objects of each image were found."""
    return np.array(
        [int((image.seen & flags).sum()) for image, flags in zip(matched, inside, strict=True)],
        np.int64,
    )


def _recall_on_others(
    seen: NDArray[np.int64], true: NDArray[np.int64], units: ImageUnits
) -> Interval:
    """Return the share of true objects that were found, with its range on as many other images."""
    without_seen = seen.sum() - units.sum_values(seen)
    without_true = true.sum() - units.sum_values(true)
    without = np.where(without_true > 0, without_seen / np.maximum(without_true, 1), np.nan)
    return of_other_images(float(seen.sum() / true.sum()), without)


def _loss_on_others(
    fewer: NDArray[np.int64], true: NDArray[np.int64], units: ImageUnits
) -> Interval:
    """Return the share of true objects by which two files differ (-1 to 1),
    with its range on as many other images.

    :func:`.of_other_images` keeps the ends inside 0 and 1,
    so a difference is moved there and back.
    """
    moved = _recall_on_others(fewer + true, 2 * true, units)
    value, low, high = (2 * float(share) - 1 for share in (moved.value, moved.low, moved.high))
    return Interval(value, low, high)


def choose_threshold(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
) -> float:
    """Return the score (0-1) from which on found boxes should count:
    one for all classes, with the best F1 in all.

    F1 is twice the number of right boxes over the number of true and of found ones. A box is right
    if it overlaps a true one of its class by half, and no surer box does. The threshold lies
    midway between the least score that counts and the next one, so that rounding moves no box
    across it. Arguments are those of :func:`.score_boxes`.
    """
    matches = _list_matches(true, detected, sizes, classes)
    # Empty arrays first: without any box there is nothing else to join.
    right = np.concatenate([np.zeros(0, bool), *(match["dtMatches"][0] > 0 for match in matches)])
    scores = np.concatenate([np.zeros(0), *(match["dtScores"] for match in matches)])
    order = np.argsort(-scores)
    ends = np.concatenate([[1.0], scores[order], [0.0]])
    # Entry n says how it is if the n surest boxes count.
    hits = np.append(0, np.cumsum(right[order]))
    true_count = sum(len(boxes_of_image.labels) for boxes_of_image in true)
    f1 = 2 * hits / np.maximum(np.arange(len(hits)) + true_count, 1)
    # Boxes with one score count together.
    f1[ends[:-1] == ends[1:]] = 0.0
    best = int(f1.argmax())
    return float(ends[best] + ends[best + 1]) / 2


@dataclass(frozen=True, eq=False)
class Matched:
    """The boxes of one image from a threshold on:
    which true ones were seen, and which found ones are right (bool).
    """

    true: Detections
    found: Detections
    seen: Flags
    right: Flags

    @property
    def f1(self) -> float:
        """Twice the right boxes over the true and the found ones;
        1 if there is nothing, and nothing was found.
        """
        boxes = len(self.seen) + len(self.right)
        if boxes:
            return 2 * int(self.right.sum()) / boxes
        return 1.0

    @property
    def errors(self) -> int:
        """Number of boxes that were missed or are wrong."""
        return int((~self.seen).sum() + (~self.right).sum())


def match_boxes(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    threshold: float,
) -> list[Matched]:
    """Match found boxes to true ones of their class that they overlap by half, the surest first,
    as COCO does.

    Boxes with a score below the threshold do not count.
    Arguments are those of :func:`.score_boxes`.
    """
    sure = [boxes_of_image.above(threshold) for boxes_of_image in detected]
    matches = _list_matches(true, sure, sizes, classes)
    seen = _flag_matches(true, [(match["gtIds"], match["gtMatches"][0]) for match in matches])
    right = _flag_matches(sure, [(match["dtIds"], match["dtMatches"][0]) for match in matches])
    return [Matched(*parts) for parts in zip(true, sure, seen, right, strict=True)]


def _list_matches(
    true: Sequence[Detections],
    detected: Sequence[Detections],
    sizes: Sequence[tuple[int, int]],
    classes: int,
) -> list[Any]:
    """Return the matches at an overlap of 0.5 of each image and class that have a box;
    the others are None.
    """
    matches = evaluate_matches(true, detected, sizes, classes, HALF).evalImgs
    return [match for match in matches if match]


def count_boxes(matched: Sequence[Matched], classes: int) -> NDArray[np.int64]:
    """Return the true, the found and the right boxes of each image and class,
    int64 (images, classes, 3).
    """
    table = np.zeros((len(matched), classes, 3), np.int64)
    for row, image in zip(table, matched, strict=True):
        for place, labels in enumerate(
            (image.true.labels, image.found.labels, image.found.labels[image.right])
        ):
            row[:, place] = np.bincount(labels, minlength=classes)
    return table


def _flag_matches(
    rows: Sequence[Detections], matches: Sequence[tuple[Sequence[int], Flags]]
) -> list[Flags]:
    """Return whether each box of each image has a match;
    boxes are numbered from 1 over all images.
    """
    ends = np.cumsum([0, *(len(boxes_of_image.labels) for boxes_of_image in rows)])
    flags = np.zeros(ends[-1], bool)
    for ids, partners in matches:
        # pycocotools marks an unmatched box by the number 0,
        # which is why boxes are numbered from 1.
        flags[np.asarray(ids, np.int64) - 1] = partners > 0
    return [flags[start:end] for start, end in pairwise(ends)]


@dataclass(frozen=True)
class CentreScore:
    """Mean over the classes of F1 (0-1), with the range on as many other images,
    and F1 of each class.

    A class without an object has None. See :func:`.of_other_images`.
    """

    mean: Interval
    by_class: tuple[float | None, ...]


def match_centres(
    true: Sequence[Detections], detected: Sequence[Detections], least: float = LEAST_SCORE
) -> list[Matched]:
    """Match what was found to true objects by its centres.

    A centre with at least the ``least`` score is right if it is inside the box of an object of its
    class that no surer centre has taken; of several ones it takes the one whose own centre is
    nearest.
    """
    matched = []
    for objects, answers in zip(true, detected, strict=True):
        marks = answers.above(least)
        seen = np.zeros(len(objects.labels), bool)
        right = np.zeros(len(marks.labels), bool)
        centres = _compute_centres(objects)
        # The surest mark comes first, and takes its object before the others.
        for number, (place, label) in enumerate(
            zip(_compute_centres(marks), marks.labels, strict=True)
        ):
            inside = ((objects.boxes[:, :2] <= place) & (place <= objects.boxes[:, 2:])).all(
                axis=1
            )
            # An object counts once, however many centres lie in it.
            free = np.flatnonzero(inside & ~seen & (objects.labels == label))
            if len(free):
                nearest = free[np.square(centres[free] - place).sum(axis=1).argmin()]
                seen[nearest] = True
                right[number] = True
        matched.append(Matched(objects, marks, seen, right))
    return matched


def _compute_centres(detections: Detections) -> Floats:
    return np.asarray((detections.boxes[:, :2] + detections.boxes[:, 2:]) / 2)


def centre_score(
    matched: Sequence[Matched], classes: int, groups: Sequence[int] = ()
) -> CentreScore:
    """Return F1: of each class and on average; raise ValueError if there is no true object;
    see :func:`.score_boxes`.
    """
    table = count_boxes(matched, classes)
    if not table[:, :, 0].any():
        raise ValueError("no image has a box")
    total = table.sum(axis=0)
    units = ImageUnits.of(groups, len(table))
    by_class = f1_of(total)
    without = _mean_over_classes(f1_of(total - units.sum_values(table)))
    mean = of_other_images(float(np.nanmean(by_class)), without)
    return CentreScore(
        mean, tuple(None if np.isnan(value) else float(value) for value in by_class)
    )


def centre_shares(matched: Sequence[Matched], classes: int) -> Floats:
    """Return each image's share in the mean F1; :func:`.split_precision` does so for the mAP."""
    table = count_boxes(matched, classes)
    images = len(table)
    total = table.sum(axis=0)
    figure = float(_mean_over_classes(f1_of(total)))
    figures_without = _mean_over_classes(f1_of(total - table))
    figures_without = np.where(np.isnan(figures_without), figure, figures_without)
    pseudo_values = images * figure - (images - 1) * figures_without
    return np.asarray((pseudo_values - pseudo_values.mean() + figure).astype(np.float32))


def f1_of(table: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return F1 (..., C) of counts (..., C, 3), see :func:`count_boxes`;
    NaN for a class without an object.
    """
    true, detected, right = (table[..., place] for place in range(3))
    return np.asarray(np.where(true, 2 * right / np.maximum(true + detected, 1), np.nan))


def _mean_over_classes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the classes that have objects, NaN without one."""
    has_objects = np.isfinite(values)
    number = has_objects.sum(axis=-1)
    return np.asarray(
        np.where(has_objects, values, 0).sum(axis=-1) / np.where(number, number, np.nan)
    )
