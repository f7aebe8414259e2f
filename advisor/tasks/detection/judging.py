"""Judge found objects in the user's images, by their boxes (mAP@0.5) or by another criterion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from advisor.core.box_facts import BoxFacts, ClassBoxes, JudgedBox, JudgedImage
from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_facts import ImageAnswers
from advisor.core.quantity import Interval, Quantity, paired_shares
from advisor.engine.pipeline.evaluation.accuracy import AccuracyVerdict, drop_of, percent
from advisor.engine.pipeline.evaluation.scorer import HeldOut, Scored
from advisor.engine.pipeline.materials import Images, Role
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.measurement.accuracy import Detections
    from advisor.measurement.average_precision import Flags, Matched

WORST = 10
"""Images of the hold-out that are kept with their boxes."""

VALIDATED = "on the validation part of --data, run in LiteRT"
HELD_OUT = "on the hold-out of --data, run in LiteRT"


@dataclass(frozen=True, eq=False)
class FoundObjects:
    """True boxes and found ones.

    Attributes:
        true: the true boxes of N images.
        found: what was found in them.
        sizes: height and width of the images in pixels.
        classes: number of classes.
    """

    true: Sequence[Detections]
    found: Sequence[Detections]
    sizes: Sequence[tuple[int, int]]
    classes: int


@dataclass(frozen=True)
class ObjectFigures:
    """The figures of a file.

    Attributes:
        mean: mean over the classes, the figure that decides.
        by_class: the figure of each class, None for a class without an object.
        coco: average precision over overlaps from 0.5 to 0.95; None of centres.
    """

    mean: Interval
    by_class: tuple[float | None, ...]
    coco: Interval | None = None


class Criterion(Protocol):
    """Rule by which an object counts as found, and the figure of accuracy that goes with it."""

    @property
    def metric(self) -> str:
        """The name of the figure."""

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """Return the figures."""

    def shares(self, given: FoundObjects) -> list[float]:
        """Return each image's share in the mean, to compare files image by image."""

    def threshold(self, given: FoundObjects) -> float:
        """Return the score from which an answer counts."""

    def match(self, given: FoundObjects, threshold: float) -> list[Matched]:
        """Return which objects were found, and which answers are right, in each image."""


@dataclass(frozen=True)
class ByBoxes:
    """Criterion of boxes: the overlap of a found box with the object's own is at least one half."""

    metric: str

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """See :class:`Criterion`."""
        from advisor.measurement.average_precision import score

        reached = score(given.true, given.found, given.sizes, given.classes)
        return ObjectFigures(reached.half, reached.by_class, reached.coco)

    def shares(self, given: FoundObjects) -> list[float]:
        """See :class:`Criterion`."""
        from advisor.measurement.average_precision import shares

        each: list[float] = shares(given.true, given.found, given.sizes, given.classes).tolist()
        return each

    def threshold(self, given: FoundObjects) -> float:
        """See :class:`Criterion`."""
        from advisor.measurement.average_precision import threshold

        return threshold(given.true, given.found, given.sizes, given.classes)

    def match(self, given: FoundObjects, threshold: float) -> list[Matched]:
        """See :class:`Criterion`."""
        from advisor.measurement.average_precision import match

        return match(given.true, given.found, given.sizes, given.classes, threshold)


def measured(own: Path, floats: Path, images: Images, criterion: Criterion) -> tuple[AccuracyVerdict, list[float]]:
    """Return the accuracy on the validation part with the points that are lost against the float32 file.

    The second value is each image's share in the accuracy.

    Args:
        own: what the file found, see :func:`advisor.measurement.accuracy.save`.
        floats: what the float32 file of the same card found.
        images: the user's images.
        criterion: rule by which an object counts as found.
    """
    given, of_float = (_answered(path, images, Role.VALIDATION) for path in (own, floats))
    reached, each = criterion.figures(given), criterion.shares(given)
    boxes, _ = _at(criterion.threshold(given), images, given, reached.coco, criterion)
    drop = paired_shares(criterion.shares(of_float), each)
    verdict = AccuracyVerdict(
        accuracy=percent(reached.mean, len(each), f"{criterion.metric} {VALIDATED}"),
        drop=drop_of(drop, len(each)),
        answers=_by_class(reached, images, boxes),
    )
    return verdict, each


def held_out(
    own: Path, images: Images, criterion: Criterion, threshold: float | None = None
) -> tuple[Quantity, ImageAnswers]:
    """Return the accuracy on the hold-out: in all, and of each class.

    Args:
        own: what the file found.
        images: the user's images.
        criterion: rule by which an object counts as found.
        threshold: score from which on an answer counts; None if none was chosen.
    """
    given = _answered(own, images, Role.HOLDOUT)
    reached, boxes = criterion.figures(given), None
    if threshold is not None:
        plain, matched = _at(threshold, images, given, reached.coco, criterion)
        boxes = replace(plain, worst=_worst(matched, images, Role.HOLDOUT))
    source = f"{criterion.metric} {HELD_OUT}"
    return percent(reached.mean, len(given.true), source), _by_class(reached, images, boxes)


def _at(
    threshold: float, images: Images, given: FoundObjects, coco: Interval | None, criterion: Criterion
) -> tuple[BoxFacts, list[Matched]]:
    """Return the counts of each class at a threshold, and the matches in each image."""
    import numpy as np

    from advisor.measurement.average_precision import counts

    matched = criterion.match(given, threshold)
    table = counts(matched, given.classes)
    miscounted = np.abs(table[:, :, 1] - table[:, :, 0]).sum(axis=0).tolist()
    by_class = {
        name: ClassBoxes(own, some, _share(right, some), _share(right, own), _share(wrong, own))
        for name, (own, some, right), wrong in zip(images.classes, table.sum(axis=0).tolist(), miscounted, strict=True)
    }
    value, ends = (coco.value, (coco.low, coco.high)) if coco else (None, None)
    return BoxFacts(threshold, value, by_class, coco_interval=ends), matched


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


def _answered(file: Path, images: Images, role: Role) -> FoundObjects:
    """Return the true boxes of some images, and what a file found in them."""
    from advisor.measurement.accuracy import load, true_boxes

    part, boxes = images.part(role), images.boxes
    assert boxes is not None, "a search for objects has boxes"
    sizes = [boxes.sizes[index][::-1] for index in part.indices]
    return FoundObjects([true_boxes(rows) for rows in part.objects], load(file), sizes, len(images.classes))


def _by_class(reached: ObjectFigures, images: Images, boxes: BoxFacts | None) -> ImageAnswers:
    return ImageAnswers(dict(zip(images.classes, reached.by_class, strict=True)), boxes=boxes)


@dataclass(frozen=True)
class Detected:
    """Judge of found objects, which keeps each image's share in the figure to compare files image by image.

    Attributes:
        by: rule by which an object counts as found.
    """

    by: Criterion

    def verdict(self, scored: Scored, images: Images, run: RunFolder, name: str) -> AccuracyVerdict:
        """See :class:`Judge`."""
        found, shares = measured(scored.own, scored.floats, images, self.by)
        return replace(found, answers=replace(found.answers, file=run.keep_answers(name, shares)))

    def held_out(self, evaluation: Evaluation, own: Path, images: Images, file: str = "") -> HeldOut:
        """See :class:`Judge`."""
        chosen = evaluation.answers.boxes
        found, by_class = held_out(own, images, self.by, chosen.threshold if chosen else None)
        return replace(evaluation, holdout_accuracy=found, holdout_answers=by_class), {}
