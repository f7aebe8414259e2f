"""Average precision of a detector on the user's images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.box_facts import BoxFacts, ClassBoxes, JudgedBox, JudgedImage
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import Interval, paired_shares
from advisor.engine.pipeline.evaluation.accuracy import LEVEL, Verdict
from advisor.engine.pipeline.images import Images, Role

if TYPE_CHECKING:
    from advisor.measurement.box_counts import Flags, Matched
    from advisor.measurement.detection import Detections, DetectionScore

WORST = 10
"""Images of the hold-out that are kept with their boxes."""

VALIDATED = "mAP@0.5 on the validation part of --data, run in LiteRT"
HELD_OUT = "mAP@0.5 on the hold-out of --data, run in LiteRT"


def measured(own: Path, floats: Path, images: Images) -> tuple[Verdict, list[float]]:
    """Return the precision on the validation part with the points that are lost against the float32 file.

    The second value is each image's share in the precision.

    Args:
        own: what the file found, see :func:`advisor.measurement.detection.save`.
        floats: what the float32 file of the same card found.
        images: the user's images.
    """
    from advisor.measurement.detection import load, score, shares, threshold

    true, sizes = _true(images, Role.VALIDATION)
    found, classes, count = load(own), len(images.classes), len(images.part(Role.VALIDATION).paths)
    reached = score(true, found, sizes, classes)
    each, of_float = (shares(true, rows, sizes, classes).tolist() for rows in (found, load(floats)))
    boxes, _ = _at(threshold(true, found, sizes, classes), images, Role.VALIDATION, found, reached.coco)
    verdict = Verdict(
        accuracy=_percent(reached.half, "%", count, VALIDATED),
        drop=_percent(paired_shares(of_float, each), "points", count, "against float32 on the same images"),
        answers=_by_class(reached, images, boxes),
    )
    return verdict, each


def held_out(own: Path, images: Images, threshold: float | None = None) -> tuple[Quantity, ImageAnswers]:
    """Return the precision on the hold-out: in all, and of each class.

    Args:
        own: what the file found.
        images: the user's images.
        threshold: score from which on a box counts; None if none was chosen.
    """
    from advisor.measurement.detection import load, score

    true, sizes = _true(images, Role.HOLDOUT)
    found = load(own)
    reached, boxes = score(true, found, sizes, len(images.classes)), None
    if threshold is not None:
        plain, matched = _at(threshold, images, Role.HOLDOUT, found, reached.coco)
        boxes = replace(plain, worst=_worst(matched, images, Role.HOLDOUT))
    return _percent(reached.half, "%", len(sizes), HELD_OUT), _by_class(reached, images, boxes)


def _at(
    threshold: float, images: Images, role: Role, found: Sequence[Detections], coco: float
) -> tuple[BoxFacts, list[Matched]]:
    """Return the counts of each class at a threshold, and the matches in each image."""
    import numpy as np

    from advisor.measurement.box_counts import counts, match

    true, sizes = _true(images, role)
    matched = match(true, found, sizes, len(images.classes), threshold)
    table = counts(matched, len(images.classes))
    miscounted = np.abs(table[:, :, 1] - table[:, :, 0]).sum(axis=0).tolist()
    by_class = {
        name: ClassBoxes(own, some, _share(right, some), _share(right, own), _share(wrong, own))
        for name, (own, some, right), wrong in zip(images.classes, table.sum(axis=0).tolist(), miscounted, strict=True)
    }
    return BoxFacts(threshold, coco, by_class), matched


def _share(some: int, whole: int) -> float | None:
    return some / whole if whole else None


def _worst(matched: Sequence[Matched], images: Images, role: Role) -> tuple[JudgedImage, ...]:
    """Return the images with the lowest F1; of equal ones, those with more errors come first."""
    part, boxes = images.part(role), images.boxes
    assert boxes is not None, "a search for objects has boxes"
    order = sorted(range(len(matched)), key=lambda place: (matched[place].f1, -matched[place].errors))
    return tuple(
        JudgedImage(
            images.dataset.shown(part.paths[place]), part.hashes[place], *boxes.sizes[part.indices[place]],
            matched[place].f1, _judged(matched[place].true, matched[place].seen),
            _judged(matched[place].found, matched[place].right),
        )
        for place in order[:WORST]
    )  # fmt: skip


def _judged(one: Detections, matched: Flags) -> tuple[JudgedBox, ...]:
    edges = one.boxes.astype(float).round(4).tolist()
    rows = zip(one.labels.tolist(), edges, one.scores.tolist(), matched.tolist(), strict=True)
    return tuple(
        JudgedBox(label, top, left, bottom, right, round(sureness, 4), flag)
        for label, (top, left, bottom, right), sureness, flag in rows
    )


def _true(images: Images, role: Role) -> tuple[list[Detections], list[tuple[int, int]]]:
    """Return the true boxes of some images, and their heights and widths."""
    from advisor.measurement.detection import true_boxes

    part, boxes = images.part(role), images.boxes
    assert boxes is not None, "a search for objects has boxes"
    return [true_boxes(rows) for rows in part.objects], [boxes.sizes[index][::-1] for index in part.indices]


def _by_class(reached: DetectionScore, images: Images, boxes: BoxFacts | None) -> ImageAnswers:
    return ImageAnswers(dict(zip(images.classes, reached.by_class, strict=True)), boxes=boxes)


def _percent(interval: Interval, unit: str, images: int, source: str) -> Quantity:
    value, low, high = (100 * each for each in (interval.value, interval.low, interval.high))
    return Quantity(value, unit, Provenance.MEASURED, low, high, LEVEL, images, source)
