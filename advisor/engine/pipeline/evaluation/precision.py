"""Average precision of a detector on the user's images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.quantity import Provenance, Quantity
from advisor.core.statistics import Interval, paired_shares
from advisor.engine.pipeline.evaluation.accuracy import LEVEL, Verdict
from advisor.engine.pipeline.images import Images, Role

if TYPE_CHECKING:
    from advisor.measurement.detection import Detections

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
    from advisor.measurement.detection import load, score, shares

    true, sizes = _true(images, Role.VALIDATION)
    found, classes, count = load(own), len(images.classes), len(images.part(Role.VALIDATION).paths)
    reached = score(true, found, sizes, classes)
    each, of_float = (shares(true, rows, sizes, classes).tolist() for rows in (found, load(floats)))
    verdict = Verdict(
        accuracy=_percent(reached.half, "%", count, VALIDATED),
        drop=_percent(paired_shares(of_float, each), "points", count, "against float32 on the same images"),
        answers=_by_class(reached.by_class, images),
    )
    return verdict, each


def held_out(own: Path, images: Images) -> tuple[Quantity, ImageAnswers]:
    """Return the precision on the hold-out: in all, and of each class."""
    from advisor.measurement.detection import load, score

    true, sizes = _true(images, Role.HOLDOUT)
    reached = score(true, load(own), sizes, len(images.classes))
    return _percent(reached.half, "%", len(sizes), HELD_OUT), _by_class(reached.by_class, images)


def _true(images: Images, role: Role) -> tuple[list[Detections], list[tuple[int, int]]]:
    """Return the true boxes of some images, and their heights and widths."""
    from advisor.measurement.detection import true_boxes

    part, boxes = images.part(role), images.boxes
    assert boxes is not None, "a search for objects has boxes"
    return [true_boxes(rows) for rows in part.objects], [boxes.sizes[index][::-1] for index in part.indices]


def _by_class(found: tuple[float | None, ...], images: Images) -> ImageAnswers:
    return ImageAnswers(dict(zip(images.classes, found, strict=True)), None, "")


def _percent(interval: Interval, unit: str, images: int, source: str) -> Quantity:
    value, low, high = (100 * each for each in (interval.value, interval.low, interval.high))
    return Quantity(value, unit, Provenance.MEASURED, low, high, LEVEL, images, source)
