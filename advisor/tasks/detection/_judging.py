"""Judge the files of detection and of counting by the boxes of the user's images.

The search calls a :class:`Detected` after a file has run over the validation part or the
hold-out. It reads what the file found (:meth:`.Detections.save_all`) and returns the figures of
the evaluation. Detection and counting differ in their :class:`Criterion`: when a found object is
right, and which figure decides.

What :class:`Detected` returns is written to ``evaluations.jsonl``. The names of the figures are
those of ``METRICS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from advisor.core import (
    METRICS,
    BoxFacts,
    BoxScores,
    ClassBoxes,
    Guarantees,
    ImageAnswers,
    Interval,
    JudgedBox,
    JudgedImage,
    Quantity,
)
from advisor.engine import AccuracyVerdict, Images, Role, Scored
from advisor.measurement import (
    BoxAnswers,
    Detections,
    ScoreCalibration,
    average_precision,
    box_matches,
)
from advisor.tasks._judge import EVERY, HELD_OUT, VALIDATED, JudgeByShares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from advisor.measurement import Floats


WORST = 10  # Images of the hold-out that are kept with their boxes


@dataclass(frozen=True, eq=False)
class FoundObjects:
    """True boxes and found ones, with what they reach by a criterion."""

    true: Sequence[Detections]  # the true boxes of N images
    found: Sequence[Detections]  # what was found in them
    sizes: Sequence[tuple[int, int]]  # height and width of the images in pixels
    classes: int  # number of classes
    by: Criterion
    groups: Sequence[int] = ()  # the number of the group of each image; empty if each image is one

    @cached_property
    def figures(self) -> ObjectFigures:
        """The figures of the file."""
        return self.by.figures(self)

    @property
    def figure(self) -> Interval:
        """The mean over the classes."""
        return self.figures.mean

    @property
    def shares(self) -> list[float]:
        """Each image's share in it."""
        return self.by.shares(self)

    @property
    def answers(self) -> BoxAnswers:
        """Each answer, and whether it is right."""
        return BoxAnswers.of_matches(self.by.match(self, 0.0))

    def metrics(self, source: str) -> dict[str, Quantity]:
        """Return the further figures in %, by their names in ``METRICS``;
        ``source`` says of which images.
        """
        known = self.figures.metrics
        return {
            name: share.as_percent(len(self.true), f"{METRICS[name].label} {source}")
            for name, share in known.items()
        }

    def at(
        self, threshold: float, images: Images, floats: FoundObjects | None = None
    ) -> tuple[BoxFacts, list[box_matches.Matched]]:
        """Return the counts of each class and size at a threshold, and the matches in each image.

        ``floats`` is what the float32 file finds in the same images;
        None if the two are not compared.
        """
        matched = self.by.match(self, threshold)
        others = None
        if floats is not None:
            others = self.by.match(floats, threshold)
        # For each image and class: true boxes, found ones, right ones. Beside the found counts
        # stands the best constant guess: a file that counts worse than the median of each class
        # helps no app.
        table = box_matches.count_boxes(matched, self.classes)
        true = table[:, :, 0]
        miscounted = abs(true - table[:, :, 1]).sum(axis=0).tolist()
        guessed = abs(true - np.median(true, axis=0)).sum(axis=0).tolist()
        rows = zip(images.classes, table.sum(axis=0).tolist(), miscounted, guessed, strict=True)
        by_class = {}
        for name, (boxes, some, right), wrong, constant in rows:
            by_class[name] = ClassBoxes(
                boxes,
                some,
                _share(right, some),
                _share(right, boxes),
                _share(wrong, boxes),
                _share(constant, boxes),
            )
        coco = self.figures.coco
        value, ends = (coco.value, (coco.low, coco.high)) if coco else (None, None)
        by_size = box_matches.count_by_size(matched, others, self.groups)
        facts = BoxFacts(threshold, value, by_class, coco_interval=ends, by_size=by_size)
        return facts, matched


@dataclass(frozen=True)
class ObjectFigures:
    """The figures of a file."""

    mean: Interval  # mean over the classes, the figure that decides
    # The figure of each class, None for a class without an object.
    by_class: tuple[float | None, ...]
    # Average precision over overlaps from 0.5 to 0.95; None of centres.
    coco: Interval | None = None
    # Further figures by their names in ``METRICS``.
    metrics: Mapping[str, Interval] = field(default_factory=dict)


class Criterion(Protocol):
    """Rule by which an object counts as found, and the figure of accuracy that goes with it."""

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """Return the figures."""

    def shares(self, given: FoundObjects) -> list[float]:
        """Return each image's share in the mean, to compare files image by image."""

    def threshold(self, given: FoundObjects) -> float:
        """Return the score from which an answer counts."""

    def match(self, given: FoundObjects, threshold: float) -> list[box_matches.Matched]:
        """Return which objects were found, and which answers are right, in each image."""


@dataclass(frozen=True)
class ByBoxes:
    """See :class:`Criterion`: the overlap of a found box
    with the object's own is at least one half.
    """

    metric: str = ""  # name in ``METRICS`` of the figure that decides; empty for the mAP@0.5

    def figures(self, given: FoundObjects) -> ObjectFigures:
        reached = average_precision.score_boxes(
            given.true, given.found, given.sizes, given.classes, given.groups
        )
        areas = average_precision.score_areas(
            given.true, given.found, given.sizes, given.classes, given.groups
        )
        metrics = {average_precision.MAP: reached.coco, **areas}
        return ObjectFigures(
            metrics.get(self.metric, reached.half), reached.by_class, reached.coco, metrics
        )

    def shares(self, given: FoundObjects) -> list[float]:
        shares = average_precision.split_precision(
            given.true, given.found, given.sizes, given.classes, self.metric
        )
        return list(map(float, shares))

    def threshold(self, given: FoundObjects) -> float:
        return box_matches.choose_threshold(given.true, given.found, given.sizes, given.classes)

    def match(self, given: FoundObjects, threshold: float) -> list[box_matches.Matched]:
        return box_matches.match_boxes(
            given.true, given.found, given.sizes, given.classes, threshold
        )


@dataclass(frozen=True)
class ByCentres:
    """See :class:`Criterion`: a found centre is inside the object's box."""

    def figures(self, given: FoundObjects) -> ObjectFigures:
        """Return the F1 of the classes."""
        matched = self.match(given, self.threshold(given))
        reached = box_matches.centre_score(matched, given.classes, given.groups)
        return ObjectFigures(reached.mean, reached.by_class)

    def shares(self, given: FoundObjects) -> list[float]:
        matched = self.match(given, self.threshold(given))
        return list(map(float, box_matches.centre_shares(matched, given.classes)))

    def threshold(self, _given: FoundObjects) -> float:
        """Return the score to which the training has moved the threshold: one half."""
        return box_matches.LEAST_SCORE

    def match(self, given: FoundObjects, threshold: float) -> list[box_matches.Matched]:
        return box_matches.match_centres(given.true, given.found, threshold)


def _share(some: float, whole: int) -> float | None:
    return some / whole if whole else None


def _worst(
    matched: Sequence[box_matches.Matched], images: Images, role: Role
) -> tuple[JudgedImage, ...]:
    """Return the images with the lowest F1; of equal ones, those with more errors come first."""
    part = images.part(role)
    boxes = images.boxes
    assert boxes is not None, "a search for objects has boxes"
    # Images without any hit all have an F1 of 0, so the number of errors puts these in order.
    order = sorted(
        range(len(matched)), key=lambda place: (matched[place].f1, -matched[place].errors)
    )
    worst = []
    for place in order[:WORST]:
        worst.append(
            JudgedImage(
                images.dataset.show_path(part.paths[place]),
                part.hashes[place],
                *boxes.sizes[part.indices[place]],
                matched[place].f1,
                _judge_boxes(matched[place].true, matched[place].seen),
                _judge_boxes(matched[place].found, matched[place].right),
            )
        )
    return tuple(worst)


def _judge_boxes(one: Detections, matched: NDArray[np.bool_]) -> tuple[JudgedBox, ...]:
    edges = one.boxes.astype(float).round(4).tolist()
    rows = zip(one.labels.tolist(), edges, one.scores.tolist(), matched.tolist(), strict=True)
    boxes = []
    for label, (top, left, bottom, right), sureness, flag in rows:
        boxes.append(JudgedBox(label, top, left, bottom, right, round(sureness, 4), flag))
    return tuple(boxes)


def _pair_answers(
    detections: Sequence[Detections], images: Images, role: Role, by: Criterion
) -> FoundObjects:
    """Return the true boxes of some images, beside what a file found in them."""
    part = images.part(role)
    boxes = images.boxes
    assert boxes is not None, "a search for objects has boxes"
    # Images state width and height, the metrics take height and width.
    sizes = [boxes.sizes[index][::-1] for index in part.indices]
    true = list(map(Detections.of_true_boxes, part.objects))
    return FoundObjects(true, detections, sizes, len(images.classes), by, part.groups)


def _rate_scores(
    calibration: ScoreCalibration, answers: BoxAnswers, after: Floats, before: Floats
) -> BoxScores | None:
    """Return how far scores can be believed after and before their calibration;
    None where no box was found.
    """
    # A short training may end in a network that finds nothing, which says nothing about scores.
    if not len(answers.scores):
        return None
    return BoxScores(
        *calibration, answers.calibration_error(after), answers.calibration_error(before)
    )


@dataclass(frozen=True)
class Detected(JudgeByShares[FoundObjects]):
    """Judge of found objects."""

    by: Criterion  # rule by which an object counts as found
    # What the threshold shall keep; None for scores that are not calibrated.
    guarantees: Guarantees | None = None
    drops: Sequence[str] = ()  # names in ``METRICS`` of further figures whose loss is limited

    def score_images(
        self,
        answers: Path,
        images: Images,
        role: Role,
        each: slice = EVERY,
    ) -> FoundObjects:
        """Return the true boxes beside what a file found."""
        return _pair_answers(Detections.load_all(answers)[each], images, role, self.by)

    def verdict(
        self, scored: Scored, images: Images, file: str
    ) -> tuple[AccuracyVerdict, Mapping[str, Sequence[float]]]:
        """Return the figure on the validation part with what compression lost of it
        and of further figures, and the shares to keep by their file.
        """
        verdict, answers_by_file = super().verdict(scored, images, file)
        if not self.drops:
            return verdict, answers_by_file
        own, floats = (
            self.score_images(path, images, Role.VALIDATION)
            for path in (scored.answers, scored.float_answers)
        )
        drops = {}
        for metric in self.drops:
            by = ByBoxes(metric)
            lost = Interval.paired_shares(by.shares(floats), by.shares(own), own.groups)
            drops[metric] = lost.as_drop(len(own.true))
        answers = replace(verdict.answers, metric_drops=drops)
        return replace(verdict, answers=answers), answers_by_file

    def compare_answers(
        self, own: FoundObjects, floats: FoundObjects | None, images: Images
    ) -> ImageAnswers:
        """Return the figure of each class, and the threshold. It is that of the file that ships:
        its scores are those that the ``floats`` boxes calibrate, None for scores as they are.
        """
        by_class = dict(zip(images.classes, own.figures.by_class, strict=True))
        if self.guarantees is None:
            boxes = own.at(self.by.threshold(own), images, floats)[0]
            return ImageAnswers(by_class, boxes=boxes, metrics=own.metrics(VALIDATED))
        answers = own.answers
        batch = len(images.part(Role.HOLDOUT).paths) / len(own.true)
        score, guarantee = answers.guarantee_threshold(self.guarantees, batch)
        score = score if guarantee and guarantee.kept else self.by.threshold(own)
        facts = replace(
            own.at(score, images, floats)[0],
            guarantee=answers.complete_guarantee(score, guarantee),
        )
        if floats is not None:
            calibration = floats.answers.fit_calibration()
            scores = _rate_scores(calibration, answers, answers.crossfit_scores(), answers.scores)
            facts = replace(facts, threshold=float(calibration.of(np.array(score))), scores=scores)
        return ImageAnswers(by_class, boxes=facts, metrics=own.metrics(VALIDATED))

    def judge_answers(
        self, own: FoundObjects, images: Images, chosen: ImageAnswers
    ) -> ImageAnswers:
        """Return the figure of each class and, at the threshold of validation,
        the images with the most errors.
        """
        boxes = None
        facts = chosen.boxes
        if facts:
            plain, matched = own.at(facts.threshold, images)
            boxes = replace(plain, worst=_worst(matched, images, Role.HOLDOUT))
            if self.guarantees is not None:
                seen = own.answers
                scores = facts.scores
                if scores:
                    # The file that ships has the calibration inside,
                    # so it is undone to show what it gains.
                    calibration = ScoreCalibration(scores.slope, scores.offset)
                    scores = _rate_scores(
                        calibration, seen, seen.scores, calibration.undone(seen.scores)
                    )
                boxes = replace(
                    boxes,
                    scores=scores,
                    guarantee=seen.complete_guarantee(facts.threshold, facts.guarantee),
                )
        by_class = dict(zip(images.classes, own.figures.by_class, strict=True))
        return ImageAnswers(by_class, boxes=boxes, metrics=own.metrics(HELD_OUT))
