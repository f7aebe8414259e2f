"""Read images with any number of labels for a search, and check them for ``advisor data check``.

``read`` returns the images of a question, divided into parts. ``check_tags`` returns the findings
of a check, whose content is :class:`TagContent`. The keys of ``TagContent.to_json`` are those of
the JSON document of a check: they stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import listed, plural
from advisor.datasets import (
    Division,
    Finding,
    LabelSetSurvey,
    Pair,
    check_images,
    phrase_count,
)
from advisor.engine import (
    DataCheck,
    Drawing,
    Images,
    Question,
    Say,
)
from advisor.tasks._task import report_progress

FEW = 20  # Images with a label, or without it, below which it is hardly learnt
NAMED = 5  # Labels that a sentence names


def _list_notes(read: LabelSetSurvey, division: Division) -> tuple[str, ...]:
    """Return a sentence about each thing that is unexpected of the images and their split."""
    notes = [*read.notes, *division.list_notes(read.images.dataset)]
    for names in read.lookalikes:
        shown = listed(list(names))
        notes.append(f"Labels that differ by the case of letters alone count apart: {shown}.")
    judged = read.truth[list(division.split.holdout)]
    unjudged = []
    for place, name in enumerate(read.classes):
        if not {0, 1} <= set(judged[:, place].tolist()):
            unjudged.append(name)
    if unjudged:
        what = phrase_count(len(unjudged), "label is", "labels are")
        notes.append(
            f"{what} not judged, as all images of the hold-out have it or none has:"
            f" {listed(unjudged, NAMED)}."
        )
    if (read.truth == 1).sum(axis=1).max() == 1:
        notes.append(
            "No image has two labels: if each has exactly one, --task image-classification is made"
            " for that."
        )
    unknown = int((read.truth < 0).sum())
    if unknown:
        notes.append(
            f"{plural(unknown, 'label is', 'labels are')} not known, which neither trains nor"
            " judges."
        )
    return tuple(notes)


def read(question: Question, say: Say) -> Images:
    """Return images with their labels; UsageError if they cannot be read or divided."""
    read = LabelSetSurvey.read_images(
        question.require_data(), report_progress(say), question.most_images
    )
    dataset = read.images.dataset
    if question.judged_whole:
        plain = Images.all_held_out(dataset, question.seed)
    else:
        division = read.divide_images(question.seed)
        plain = Images.of_division(dataset, division, _list_notes(read, division), say)
    rows = tuple(map(tuple, read.truth.tolist()))
    return replace(plain, objects=rows, keys=rows, outputs=read.classes)


TagFault = StrEnum(
    "TagFault",
    {
        "RARE": "rare labels",
        "COMMON": "labels of nearly all images",
        "ALIKE": "labels that differ by case alone",
        "NONE": "images without a label",
        "UNUSED": "labels not used",
    },
)


@dataclass(frozen=True, eq=False)
class TagContent:
    """The labels of images, as the content of a check."""

    read: LabelSetSurvey
    next_command: str = "advisor search --task image-tagging --data {manifest}"
    sizes: tuple[Any, ...] = ()

    @cached_property
    def _places(self) -> Mapping[Path, int]:
        return {image.path: place for place, image in enumerate(self.read.images.dataset.images)}

    @property
    def counts(self) -> Mapping[str, int]:
        """Images with each label."""
        return self.read.counts

    @property
    def summary(self) -> str:
        """The number of images and of labels."""
        mean = (self.read.truth == 1).sum() / max(len(self.read.truth), 1)
        labels = plural(len(self.read.classes), "label")
        return (
            f"{plural(len(self.read.truth), 'image')}, {labels}, {mean:.1f} of them in an image on"
            " average"
        )

    def label(self, path: Path) -> str:
        """Return the labels of an image; empty for one that was left out."""
        if path not in self._places:
            return ""
        return ", ".join(self.read.labels_of(self._places[path])) or "none"

    def drawing(self, path: Path) -> Drawing | None:
        """Return None: labels have no place in an image."""
        return None

    def to_json(self) -> Mapping[str, Any]:
        """Return the images with each label, and how many labels are not known."""
        unknown = int((self.read.truth < 0).sum())
        return {
            "images": len(self.read.truth),
            "images_per_class": self.counts,
            "unknown": unknown,
        }

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table with a column for each label, without images that findings leave out;
        return its images.
        """
        return self.read.write_table(path, findings)


def check_tags(path: Path, say: Say) -> DataCheck:
    """Check a set of images with labels in any layout; it is not changed."""
    say(f"reading labels of {path}")
    read = LabelSetSurvey.read_images(path, report_progress(say))
    say("comparing images")
    pairs = Pair.find_alike(read.images.thumbnails)
    findings = check_images(read.images, pairs, _list_faults(read))

    def overview(seed: int) -> Any:
        return read.divide_images(seed, pairs).make_overview(read.images.dataset)

    return DataCheck.of_survey(path, read.images, TagContent(read), findings, overview)


def _list_faults(read: LabelSetSurvey) -> Iterator[Finding]:
    """Yield what is odd about the labels of a set."""
    for note in read.unused:
        yield Finding(
            TagFault.UNUSED, note.rstrip("."), "add images, or take the label out of the table"
        )
    rare = [f"{name} ({count})" for name, count in read.counts.items() if count < FEW]
    if rare:
        what = phrase_count(len(rare), "label is", "labels are")
        message = f"{what} in fewer than {FEW} images: {listed(rare, NAMED)}"
        yield Finding(TagFault.RARE, message, "add images: from so few the network learns little")
    lacking = (read.truth == 0).sum(axis=0).tolist()
    counted = zip(read.classes, lacking, strict=True)
    common = [f"{name} ({count})" for name, count in counted if count < FEW]
    if common:
        what = phrase_count(len(common), "label is", "labels are")
        message = f"{what} missing in fewer than {FEW} images: {listed(common, NAMED)}"
        advice = "check that these lack it: its figures rest on them, and mAP is the mean of all"
        yield Finding(TagFault.COMMON, message, advice)
    alike = ["'" + "' and '".join(names) + "'" for names in read.lookalikes]
    if alike:
        message = f"labels differ by the case of letters alone: {listed(alike, NAMED)}"
        yield Finding(TagFault.ALIKE, message, "give them one name if they mean the same")
    bare = np.flatnonzero(~(read.truth == 1).any(axis=1)).tolist()
    none = list[Path]()
    with_unused = list[Path]()
    for place in bare:
        path = read.images.dataset.images[place].path
        images_like_it = with_unused if path in read.with_unused_labels else none
        images_like_it.append(path)
    if with_unused:
        what = phrase_count(len(with_unused), "image has", "images have")
        message = f"{what} labels of which none is used, and counts as one without a label"
        if len(with_unused) > 1:
            message = f"{what} labels of which none is used, and count as ones without a label"
        images = tuple((path,) for path in with_unused)
        advice = "add images of these labels until they are used, or take these images out"
        yield Finding(TagFault.UNUSED, message, advice, images)
    if none:
        message = f"{phrase_count(len(none), 'image has', 'images have')} no label"
        images = tuple((path,) for path in none)
        yield Finding(TagFault.NONE, message, "check that none is missing", images)
