"""Let detectors learn from more images, and compare two of them by mAP@0.5 on the same images.

``advisor update`` asks :class:`DetectorGrowth`. A class that is unknown in an image does not judge
there, but it is learnt as absent: the training of a box has no third answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from advisor.core import UsageError, listed
from advisor.datasets import Box, BoxSurvey
from advisor.engine import growth
from advisor.measurement import Detections, average_precision, box_matches
from advisor.tasks._table_growth import TableGrowth, number_groups

if TYPE_CHECKING:
    from advisor.engine import LoadedRun

EDGES = ("xmin", "ymin", "xmax", "ymax")
SLACK = 1.0  # Pixels by which an edge may differ between two formats: some count from 1


@dataclass(frozen=True)
class BoxedLabels(growth.LabelSet):
    """The boxes of an image as a table states them, and their classes."""

    boxes: tuple[Box, ...] = ()  # in pixels of the upright image, sorted
    size: tuple[int, int] = (1, 1)  # width and height of the upright image

    @classmethod
    def of_boxes(
        cls, boxes: Sequence[Box], size: tuple[int, int], unknown: frozenset[str] = frozenset()
    ) -> BoxedLabels:
        """Return the labels of an image with these boxes; where they stood in a file is lost."""
        rows = [replace(box, line=0) for box in boxes]
        # Another order of the rows is no correction.
        rows.sort(key=lambda box: (box.label, box.edges))
        return cls(frozenset(box.label for box in rows), unknown, tuple(rows), size)

    @property
    def sentence(self) -> str:
        """The boxes in words: ``cat at 8/5, dog at 28/5``, in pixels from left and top."""
        names = [f"{box.label} at {box.left:.0f}/{box.top:.0f}" for box in self.boxes]
        return listed(names) or "none"

    def keep(self, classes: Collection[str]) -> BoxedLabels:
        """Return the labels without boxes of other classes."""
        boxes = [box for box in self.boxes if box.label in classes]
        return self.of_boxes(boxes, self.size, self.unknown)

    def correct(self, earlier: growth.LabelSet) -> growth.LabelSet:
        """Return what an ``earlier`` statement becomes by this later one: of each class that this
        one knows, its boxes count. What differs by less than formats do is no correction.
        """
        assert isinstance(earlier, BoxedLabels)
        # Of a class that nobody looked for now, the earlier boxes stay.
        boxes = (*self.boxes, *earlier.keep(self.unknown).boxes)
        later = self.of_boxes(boxes, self.size, self.unknown & earlier.unknown)
        is_same = later.unknown == earlier.unknown and _are_alike(later, earlier)
        return earlier if is_same else later

    def contradicts(self, other: growth.LabelSet) -> bool:
        """Return whether both know a class, and have other boxes of it."""
        assert isinstance(other, BoxedLabels)
        known = (self.there | other.there) - self.unknown - other.unknown
        return not _are_alike(self.keep(known), other.keep(known))

    def list_objects(self, classes: Sequence[str]) -> list[tuple[int, float, float, float, float]]:
        """Return the boxes as :meth:`.Detections.of_true_boxes` takes them."""
        width, height = self.size
        rows = []
        for box in self.keep(classes).boxes:
            top, bottom = box.top / height, box.bottom / height
            left, right = box.left / width, box.right / width
            rows.append((classes.index(box.label), top, left, bottom, right))
        return rows


class DetectorGrowth(TableGrowth[BoxSurvey]):
    """See :class:`.Growth`."""

    words = growth.Words(
        figure="mAP@0.5",
        right="objects found",
        corrected="set of boxes",
        several_corrected="sets of boxes",
    )
    least = 8  # A search refuses a class with boxes in fewer images
    unstated = "learnt as absent there, and not judged"

    def read(self, earlier: LoadedRun, data: Path) -> growth.GrowingSet:
        """Return the images of a run and the new ones, without boxes of new classes that too few
        of them have: a search would refuse these.
        """
        growing = super().read(earlier, data)
        images_of = Counter(chain.from_iterable(labels.there for labels in growing.labels))
        # A class of the run stays, be it rare after corrections: the search says what is wrong.
        of_run = set[str]()
        for stated in growing.labels[: growing.of_run]:
            of_run |= stated.there
        rare = []
        for label in sorted(images_of.keys() - of_run):
            if images_of[label] < self.least:
                rare.append(label)
        learnt = images_of.keys() - set(rare)
        labels = []
        for stated in growing.labels:
            assert isinstance(stated, BoxedLabels)
            labels.append(stated.keep(learnt))
        new = labels[growing.of_run :]
        if rare and not any(row.there for row in new):
            raise UsageError(
                f"'{data}' has boxes of new classes alone, each in fewer than {self.least} images:"
                f" {listed(rare)}",
                "add more images of them",
            )
        return replace(growing, labels=tuple(labels))

    def read_table(
        self, path: Path, known: Collection[str] = (), most: int | None = None
    ) -> BoxSurvey:
        """Return the images of a set with their boxes."""
        return BoxSurvey.read_images(path, most=most)

    def list_labels(self, table: BoxSurvey) -> list[BoxedLabels]:
        """Return the boxes of each image."""
        labels = []
        for boxes, size in zip(table.boxes, table.sizes, strict=True):
            labels.append(BoxedLabels.of_boxes(boxes, size))
        return labels

    def list_named(self, table: BoxSurvey) -> tuple[str, ...]:
        """Return the classes that a set names, be they without a box."""
        return tuple(sorted({*table.classes, *table.unused}))

    def list_rows(self, labels: growth.LabelSet) -> list[dict[str, str]]:
        """Return a row for each box, with its edges in pixels, or an empty row."""
        assert isinstance(labels, BoxedLabels)
        rows = []
        for box in labels.boxes:
            row = {"label": box.label}
            for name, edge in zip(EDGES, box.edges, strict=True):
                row[name] = f"{edge:.2f}"
            rows.append(row)
        return rows or [dict.fromkeys(("label", *EDGES), "")]

    def can_judge(self, images: Sequence[growth.GrownImage]) -> bool:
        """Return whether an image has a box: without one, no file finds anything."""
        return any(image.labels.there for image in images)

    def judge(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> growth.JudgedPart:
        """Return the mAP@0.5 of two files, over the classes of the images."""
        classes = _list_classes(images)
        # Corrections may leave no box in the old hold-out.
        if not classes:
            return growth.JudgedPart(len(images), 0.0, 0.0, 0.0, 0.0, 0.0)
        earlier, later, gain = average_precision.measure_gain(
            _list_true(images, classes),
            _list_found(images, before, classes),
            _list_found(images, after, classes),
            len(classes),
            number_groups(images),
        )
        return growth.JudgedPart.of_shares(len(images), earlier, later, gain)

    def has_learnt(
        self,
        labels: Collection[str],
        images: Sequence[growth.GrownImage],
        after: growth.Answers,
    ) -> bool:
        """Return whether their boxes fit their images better than the boxes that the file finds in
        other ones: these are a guess that knows nothing of the image.
        """
        classes = [label for label in _list_classes(images) if label in labels]
        if not classes:
            return False
        detections = _list_found(images, after, classes)
        # Each image gets the boxes of the next one.
        of_next_images = [*detections[1:], *detections[:1]]
        _, _, gain = average_precision.measure_gain(
            _list_true(images, classes),
            of_next_images,
            detections,
            len(classes),
            number_groups(images),
        )
        return gain.low > 0

    def list_rights(
        self,
        images: Sequence[growth.GrownImage],
        before: growth.Answers,
        after: growth.Answers,
    ) -> Iterator[tuple[str, list[growth.Rights]]]:
        """Yield each class with its objects, and whether each file shows a box that fits."""
        classes = _list_classes(images)
        true = _list_true(images, classes)
        matches = []
        for answers in (before, after):
            shown = _list_found(images, answers, classes, is_shown=True)
            sizes = [(1, 1)] * len(images)
            matches.append(box_matches.match_boxes(true, shown, sizes, len(classes), 0.0))
        # Objects are counted, not images: where cells are many, no image is right as a whole.
        for place, label in enumerate(classes):
            rights = []
            for image, earlier, later in zip(images, *matches, strict=True):
                of_class = earlier.true.labels == place
                for was_seen, is_seen in zip(
                    earlier.seen[of_class], later.seen[of_class], strict=True
                ):
                    rights.append((image.path, bool(was_seen), bool(is_seen)))
            yield label, rights


def _are_alike(one: BoxedLabels, other: BoxedLabels) -> bool:
    """Return whether two sets have the same boxes to a pixel."""
    if len(one.boxes) != len(other.boxes):
        return False
    rest = list(other.boxes)
    # Rounding changes the order of boxes, so each looks for its own among the rest.
    for box in one.boxes:
        for place, candidate in enumerate(rest):
            distances = [abs(a - b) for a, b in zip(box.edges, candidate.edges, strict=True)]
            if box.label == candidate.label and max(distances) <= SLACK:
                del rest[place]
                break
    return not rest


def _list_classes(images: Sequence[growth.GrownImage]) -> list[str]:
    """Return the classes of which images have a box."""
    return sorted(frozenset[str]().union(*(image.labels.there for image in images)))


def _list_true(images: Sequence[growth.GrownImage], classes: Sequence[str]) -> list[Detections]:
    """Return the true boxes of the classes in each image."""
    true = []
    for image in images:
        assert isinstance(image.labels, BoxedLabels)
        true.append(Detections.of_true_boxes(image.labels.list_objects(classes)))
    return true


def _list_found(
    images: Sequence[growth.GrownImage],
    answers: growth.Answers,
    classes: Sequence[str],
    is_shown: bool = False,
) -> list[Detections]:
    """Return what a file finds of the classes in each image, or what the app shows of it.

    What nobody looked for judges neither file.
    """
    # A class without a true box has no precision, so its boxes do not count.
    places = {label: place for place, label in enumerate(classes)}
    detections = []
    for image, answer in zip(images, answers, strict=True):
        rows = []
        scores = []
        for scored in answer.objects:
            is_known = scored.label in places and scored.label not in image.labels.unknown
            is_hidden = is_shown and scored.score < answer.least
            if is_known and not is_hidden:
                top, left, bottom, right = scored.box
                rows.append((places[scored.label], top, left, bottom, right))
                scores.append(scored.score)
        boxes = Detections.of_true_boxes(rows)
        detections.append(replace(boxes, scores=np.array(scores, np.float32)))
    return detections
