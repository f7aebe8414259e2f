"""Files that find boxes or centres: judge them, ship them, and take users' own detectors.

``OwnDetectors`` takes users' files, ``SHIPPING`` and ``COUNTER`` say what a bundle has, and
``Detected`` judges. Detection and counting differ in their ``Criterion``: when a found object is
right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from advisor.catalog import Array, ImportedModel, ModelFacts, classifier
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
    UsageError,
)
from advisor.engine import AccuracyVerdict, Images, Role, Scored, drop_of, make_percent
from advisor.exporting import (
    COUNT,
    LOOKED_AT,
    TOLERANCES,
    Found,
    Page,
    ShippedModel,
    check,
    choose_vectors,
    make_runners,
)
from advisor.measurement import (
    BoxAnswers,
    Detections,
    ScoreCalibration,
    average_precision,
    box_matches,
    find_centres,
    load_detections,
    true_boxes,
)
from advisor.store import RunFolder
from advisor.tasks._judge import EVERY, HELD_OUT, PALETTE, VALIDATED, JudgeByShares
from advisor.tasks.detection import DETECTION
from advisor.tflite import (
    CENTRE_DISTANCE,
    DETECTIONS,
    ENDS,
    Metadata,
    Model,
    count,
    cut_postprocess,
    form_of,
    has_postprocess,
    read,
    with_named_outputs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from advisor.exporting import Crops
    from advisor.measurement import Floats

PAGE = Page(
    "templates/objects.js",
    {"palette": PALETTE, "near": CENTRE_DISTANCE},
    __package__,
    "Which objects are in the image?",
    bars="Highest score of each class",
)

DIGITS = 4  # Digits of the scores of a map, which has thousands

WORST = 10  # Images of the hold-out that are kept with their boxes


class OwnDetectors:
    """See :class:`advisor.catalog.OwnFiles`."""

    search_options = f" --task {DETECTION.name} --data BOXES"

    def takes(self, model: Model, asked: bool) -> bool:
        """Return whether a file decodes boxes and drops those that overlap."""
        return has_postprocess(model)

    def prepare(
        self, data: bytes, name: str, target: Path, metadata: Metadata, finished: bool = False
    ) -> ModelFacts:
        """Write the master of a detector, with named outputs and a batch of one image."""
        edited = with_named_outputs(data, name)
        raw, process = cut_postprocess(edited, name)
        input_size = classifier.side_of(raw, name, finished=finished)
        target.write_bytes(edited)
        model = read(raw, name)
        cost = count(model)
        form = form_of(model, cost) if finished else ""
        return ModelFacts(
            input_size,
            process.classes,
            cost.parameters,
            cost.macs,
            None,
            metadata,
            DETECTION.name,
            form,
        )

    def take(self, data: bytes, name: str, target: Path, metadata: Metadata) -> ModelFacts:
        """Write a detector as it is, with named outputs and a batch of one image."""
        return self.prepare(data, name, target, metadata, finished=True)

    def run(self, data: bytes, image: Array, finished: bool) -> Mapping[str, Array]:
        """Return the boxes, classes and scores."""
        return classifier.run(data, image)

    def surest(
        self, outputs: Mapping[str, Array], facts: ModelFacts, title: str
    ) -> list[tuple[int, float]]:
        """Return the class of the surest box, if there is one."""
        number = int(outputs["count"].reshape(-1)[0])
        boxes, classes, scores = (outputs[name][0, :number] for name in DETECTIONS[:3])
        # A file of the user may answer anything:
        # classes that it does not name, or values that are no numbers.
        known = ((classes >= 0) & (classes < facts.classes)).all()
        if not (known and np.isfinite(boxes).all() and np.isfinite(scores).all()):
            message = (
                f"the model's answer to a photograph ({title}) is not boxes of {facts.classes}"
                " classes"
            )
            raise UsageError(message, ENDS)
        if number:
            return [(int(classes[scores.argmax()]), float(scores.max()))]
        return []

    def remarks(self, added: ImportedModel) -> Iterator[str]:
        """Yield that a detector is not trained."""
        if not added.card.form:
            yield (
                "it is a detector: a search compresses and judges it on your images with boxes,"
                " and does not train it"
            )


def find_boxes(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the boxes that the app shows."""
    objects = []
    for box in check.boxes_of(list(outputs), model.threshold or 0.0):
        # Decoded boxes can reach beyond the image, and an app would draw there.
        edges = tuple(min(max(edge, 0.0), 1.0) for edge in box["box"])
        objects.append(Found(model.labels[box["label"]], box["score"], edges))
    return tuple(objects)


def detect_objects(
    model: ShippedModel, images: Crops
) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`advisor.exporting._shipping.Answering`:
    the boxes with at least half of an image's highest score.

    Only images in which other kernels find the same boxes within half the tolerance are taken: of
    two boxes that overlap, rounding can decide which one stays. The tolerance is the smallest that
    leaves enough images.
    """
    runner, other = make_runners(model, images)
    rows: list[tuple[int, dict[str, Any]]] = []
    for place in range(len(images)):
        boxes = check.boxes_of(runner(place), 0.0)
        least = max([box["score"] for box in boxes], default=0.0) / 2
        rows.append(
            (place, {"least": least, "boxes": [box for box in boxes if box["score"] >= least]})
        )
    rows = sorted(rows, key=lambda row: -row[1]["least"])[:LOOKED_AT]
    others = [other(place) for place, _ in rows]
    for tolerance in TOLERANCES:
        same = []
        for row, answer in zip(rows, others, strict=True):
            same.append(not check.other_boxes(answer, row[1], tolerance / 2))
        if sum(same) >= COUNT:
            break
    return tolerance, list(itertools.compress(rows, same))[:COUNT]


def find_centre_points(outputs: Sequence[Any], model: ShippedModel) -> tuple[Found, ...]:
    """Return the centres that the app shows."""
    seen = find_centres(outputs[0], model.threshold or 0.0)
    rows = zip(seen.labels.tolist(), seen.scores.tolist(), seen.boxes.tolist(), strict=True)
    return tuple(Found(model.labels[label], score, tuple(box)) for label, score, box in rows)


def mark_map(model: ShippedModel, images: Crops) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """See :data:`advisor.exporting._shipping.Answering`: the scores of a map."""
    tolerance, rows = choose_vectors(
        model, images, itemgetter(0), lambda one, other: float(abs(one - other).max()), np.max
    )
    return tolerance, [
        (place, {"scores": scores.reshape(-1).round(DIGITS).tolist()}) for place, scores in rows
    ]


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
            name: make_percent(share, len(self.true), f"{METRICS[name].label} {source}")
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
    true = list(map(true_boxes, part.objects))
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
        self, answers: Path, images: Images, role: Role, each: slice = EVERY
    ) -> FoundObjects:
        """Return the true boxes beside what a file found."""
        return _pair_answers(load_detections(answers)[each], images, role, self.by)

    def verdict(
        self, scored: Scored, images: Images, run: RunFolder, name: str
    ) -> AccuracyVerdict:
        """Return the figure on the validation part,
        and what compression lost of it and of further figures.
        """
        verdict = super().verdict(scored, images, run, name)
        if not self.drops:
            return verdict
        own, floats = (
            self.score_images(file, images, Role.VALIDATION)
            for file in (scored.answers, scored.float_answers)
        )
        drops = {}
        for metric in self.drops:
            by = ByBoxes(metric)
            lost = Interval.paired_shares(by.shares(floats), by.shares(own))
            drops[metric] = drop_of(lost, len(own.true))
        return replace(verdict, answers=replace(verdict.answers, metric_drops=drops))

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
