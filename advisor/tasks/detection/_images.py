"""Read images with boxes for a search, and check them for ``advisor data check``.

``read`` returns the images of a question, divided into parts; detection and counting share it.
``check_detection`` returns the findings of a check, whose content is :class:`BoxContent`. The keys
of ``BoxContent.to_json`` are those of the JSON document of a check: they stay.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from advisor.core import plural
from advisor.datasets import (
    BoxSurvey,
    Division,
    Finding,
    ObjectSizes,
    Overview,
    Pair,
    check_boxes,
    write_boxes,
)
from advisor.engine import (
    Boxes,
    DataCheck,
    Drawing,
    Images,
    Question,
    Say,
)
from advisor.measurement import average_precision
from advisor.tasks._task import report_progress


def read(question: Question, say: Say) -> Images:
    """Return images in which boxes have classes;
    raises UsageError without the package for average precision.
    """
    average_precision.require_coco()
    read = BoxSurvey.read_images(
        question.require_data(), report_progress(say), question.most_images
    )
    boxes = Boxes(read.classes, read.objects, read.sizes)
    if question.judged_whole:
        return replace(Images.all_held_out(read.images.dataset, question.seed), boxes=boxes)
    division, _, notes = Division.of_boxes(read, question.seed)
    return replace(Images.of_division(read.images.dataset, division, notes, say), boxes=boxes)


@dataclass(frozen=True, eq=False)
class BoxContent:
    """The boxes in images, as the content of a check."""

    read: BoxSurvey
    next_command: str = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """Boxes of each class."""
        return dict(sorted(self.read.boxes_per_class.items()))

    @property
    def summary(self) -> str:
        """The number of images, of boxes and of classes."""
        images = len(self.read.boxes)
        classes = len(self.read.classes)
        return (
            f"{plural(images, 'image')}, {self.read.count:,} boxes in"
            f" {plural(classes, 'class', 'classes')}"
        )

    @cached_property
    def sizes(self) -> tuple[ObjectSizes, ...]:
        """Sizes of the objects at usual inputs."""
        return ObjectSizes.measure_objects(self.read)

    def label(self, path: Path) -> str:
        """Return the number of boxes of each class in an image; empty for one that
        was left out.
        """
        if path not in self.read.index:
            return ""
        counts = Counter(box.label for box in self.read.boxes[self.read.index[path]])
        return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "no boxes"

    def drawing(self, path: Path) -> Drawing | None:
        """Return the boxes of an image; None for one that was left out."""
        index = self.read.index.get(path)
        return None if index is None else Drawing(self.read.sizes[index], self.read.boxes[index])

    def to_json(self) -> Mapping[str, Any]:
        """Return the boxes and images of each class, the sizes of objects,
        and what was left out or turned.
        """
        return {
            "images": len(self.read.boxes),
            "boxes_per_class": self.counts,
            "images_per_class": dict(sorted(self.read.images_per_class.items())),
            "boxes_left_out": len(self.read.faults),
            "images_with_turned_boxes": self.read.turned,
            "object_sizes": [sizes.to_json() for sizes in self.sizes],
        }

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table without the images and boxes that the findings leave out;
        return its number of images.
        """
        return write_boxes(path, self.read, findings)


def check_detection(path: Path, say: Say) -> DataCheck:
    """Check a set of images with boxes in any format; it is not changed.
    No network judges the labels.
    """
    say(f"reading boxes of {path}")
    read = BoxSurvey.read_images(path, report_progress(say))
    say("comparing images")
    pairs = Pair.find_alike(read.images.thumbnails)

    def overview(seed: int) -> Overview:
        division, boxes, notes = Division.of_boxes(read, seed, pairs)
        return replace(
            Overview.of_split(read.images.dataset, division.split, division.grouping, notes),
            boxes=boxes,
        )

    return DataCheck.of_survey(
        path, read.images, BoxContent(read), check_boxes(read, pairs), overview
    )
