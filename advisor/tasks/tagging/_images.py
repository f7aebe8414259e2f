"""Read, divide and check images with any number of labels each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import UsageError, listed, plural
from advisor.datasets import (
    ONE_CLASS,
    Division,
    Finding,
    Listing,
    Pair,
    Progress,
    Rejected,
    Split,
    Survey,
    divide_survey,
    formats_of,
    make_stratifier,
    more_columns,
    near_duplicates,
    phrase_count,
    report_repeats,
    report_sizes,
    report_unreadable,
    row_of,
    survey,
    survey_boxes,
    write_rows,
)
from advisor.engine import (
    SEED,
    DataCheck,
    Drawing,
    Images,
    Question,
    Say,
    advance,
    divide_images,
    hold_out_all,
    run_data_check,
)
from advisor.store import sha256_json
from advisor.tasks.tagging._division import deal_out
from advisor.tasks.tagging._tables import HINT, list_tags

Truth = NDArray[np.int8]  # (N, C): 1 where an image has a label, 0 where not, UNKNOWN where nobody knows
UNKNOWN = -1
LEAST = 3  # Images with a label, and without it, at least: one for each part
FEW = 20  # Images with a label, below which it is hardly learnt
FEWEST_GROUPS = 10  # Groups of images from which on labels decide who comes into which part
NAMED = 5  # Labels that a sentence names
NOT_USED = "not used"


@dataclass(frozen=True, eq=False)
class TagSurvey:
    """Images whose labels were read."""

    images: Survey  # of one class
    classes: tuple[str, ...]  # the labels, sorted
    truth: Truth
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Images with each label."""
        return dict(zip(self.classes, (self.truth == 1).sum(axis=0).tolist(), strict=True))

    def labels_of(self, place: int) -> tuple[str, ...]:
        """Return the labels of an image."""
        return tuple(self.classes[label] for label in np.flatnonzero(self.truth[place] == 1).tolist())


def survey_tags(path: Path, progress: Progress | None = None, most: int | None = None) -> TagSurvey:
    """Read images and their labels; faults of single files are recorded with the images that are left out.

    Raises UsageError if no layout fits, or if no label is left that some images have and others do not.
    """
    if path.suffix.lower() == ".json" or (path.is_dir() and formats_of(path)):
        boxes = survey_boxes(path, progress, most)
        truth = np.array([[name in content for name in boxes.classes] for content in boxes.contents], np.int8)
        note = "The labels of an image are the classes of its boxes."
        return _without_useless(TagSurvey(boxes.images, boxes.classes, truth, (note,)), path)
    listing = list_tags(path)
    by_path = {entry.image.path: entry for entry in listing.entries}
    entries = [replace(entry.image, label=ONE_CLASS) for entry in by_path.values()]
    read = survey(Listing(listing.root, entries, (), listing.rejected, listing.notes), progress, most)
    classes = tuple(sorted(listing.classes))
    truth = np.zeros((len(read.dataset.images), len(classes)), np.int8)
    for row, image in enumerate(read.dataset.images):
        entry = by_path[image.path]
        truth[row] = [UNKNOWN if name in entry.unknown else name in entry.there for name in classes]
    return _without_useless(TagSurvey(read, classes, truth), path)


def _without_useless(read: TagSurvey, path: Path) -> TagSurvey:
    """Return the images without labels that cannot be learnt and judged, and without images of which nothing is known.

    A label is left out if too few images have it, or too few are known to lack it.
    """
    there, lacking = ((read.truth == value).sum(axis=0) for value in (1, 0))
    few = np.flatnonzero(there < LEAST).tolist()
    everywhere = np.flatnonzero((there >= LEAST) & (lacking < LEAST)).tolist()
    notes = list(read.notes)
    for places, why in ((few, "too few images have them"), (everywhere, "too few images lack them")):
        if places:
            names = [f"'{read.classes[place]}' ({int(there[place])})" for place in places]
            what = phrase_count(len(places), "label is", "labels are")
            notes.append(f"{what} {NOT_USED}, as {why}: {listed(names, NAMED)}.")
    useful = [place for place in range(len(read.classes)) if place not in {*few, *everywhere}]
    if not useful:
        lost = [f"; '{read.images.dataset.show_path(row.path)}': {row.reason}" for row in read.images.dataset.rejected]
        what = f"has no label that {LEAST} images have and {LEAST} lack: {' '.join(notes)}"
        raise UsageError(f"--data: '{path}' {what}{lost[0] if lost else ''}", HINT)
    truth = read.truth[:, useful]
    silent = np.flatnonzero((truth == UNKNOWN).all(axis=1)).tolist()
    images = read.images
    if silent:
        known = (truth != UNKNOWN).any(axis=1)
        paths = [images.dataset.images[place].path for place in silent]
        images = images.without_images([Rejected(file, "none of its labels is known") for file in paths])
        truth = truth[known]
    classes = tuple(read.classes[place] for place in useful)
    rows = sorted((image.sha256, row) for image, row in zip(images.dataset.images, truth.tolist(), strict=True))
    dataset = replace(images.dataset, fingerprint=sha256_json([classes, rows]))
    return TagSurvey(replace(images, dataset=dataset), classes, truth, tuple(notes))


def divide_tags(read: TagSurvey, seed: int, alike: tuple[Pair, ...] | None = None) -> Division:
    """Return the division of a set, in which each part has its share of each label; the user's own split is kept."""
    dataset = read.images.dataset
    contents = [Counter(read.labels_of(place)) for place in range(len(read.truth))]
    division = divide_survey(read.images, seed, alike, make_stratifier(dataset, contents))
    if division.split.given or len(set(division.groups)) < FEWEST_GROUPS:
        return division
    split = division.split
    parts = (split.train, split.validation, split.holdout)
    # The first division gives the sizes of the parts alone: its strata know only the rarest label of an image.
    shares = [len(part) / len(read.truth) for part in parts]
    hashes = [image.sha256 for image in dataset.images]
    part = deal_out(read.truth, division.groups, hashes, shares, seed)
    places = [tuple(np.flatnonzero(part == number).tolist()) for number in range(len(parts))]
    train, validation, holdout = places
    return replace(division, split=Split(train, validation, holdout, split.seed))


def _list_notes(read: TagSurvey, division: Division) -> tuple[str, ...]:
    """Return a sentence about each thing that a reader may not expect of the images and their split."""
    notes = [*read.notes, *division.list_notes(read.images.dataset)]
    judged = read.truth[list(division.split.holdout)]
    unjudged = [name for place, name in enumerate(read.classes) if not {0, 1} <= set(judged[:, place].tolist())]
    if unjudged:
        what = phrase_count(len(unjudged), "label has", "labels have")
        notes.append(f"{what} no image with it, or none without it, in the hold-out: {listed(unjudged, NAMED)}.")
    if (read.truth == 1).sum(axis=1).max() == 1:
        notes.append("No image has two labels: if each has exactly one, --task image-classification is made for that.")
    unknown = int((read.truth == UNKNOWN).sum())
    if unknown:
        notes.append(f"{plural(unknown, 'label is', 'labels are')} not known, which neither trains nor judges.")
    return tuple(notes)


def read(question: Question, say: Say) -> Images:
    """Return images with their labels; UsageError if they cannot be read or divided."""
    read = survey_tags(question.require_data(), advance(say), question.most_images)
    dataset = read.images.dataset
    if question.judged_whole:
        plain = hold_out_all(dataset, question.seed)
    else:
        division = divide_tags(read, question.seed)
        plain = divide_images(dataset, division, _list_notes(read, division), say)
    rows = tuple(tuple(row) for row in read.truth.tolist())
    return replace(plain, objects=rows, keys=rows, outputs=read.classes)


TagFault = StrEnum("TagFault", {"RARE": "rare labels", "NONE": "images without a label", "UNUSED": "labels not used"})


@dataclass(frozen=True, eq=False)
class TagContent:
    """The labels of images, as the content of a check."""

    read: TagSurvey
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
        return f"{plural(len(self.read.truth), 'image')}, {len(self.read.classes)} labels, {mean:.1f} of them an image"

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
        unknown = int((self.read.truth == UNKNOWN).sum())
        return {"images": len(self.read.truth), "images_per_class": self.counts, "unknown": unknown}

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table with a column for each label, without images that findings leave out; return its images."""
        out = {file for finding in findings for file in finding.leave_out}
        dataset = self.read.images.dataset
        rows = []
        for image, row in zip(dataset.images, self.read.truth.tolist(), strict=True):
            if image.path not in out:
                cells = ["" if value == UNKNOWN else str(value) for value in row]
                rows.append({**row_of(path, image), **dict(zip(self.read.classes, cells, strict=True))})
        write_rows(path, ["path", *more_columns(dataset), *self.read.classes], rows)
        return len(rows)


def check_tags(path: Path, say: Say) -> DataCheck:
    """Check a set of images with labels in any layout; it is not changed."""
    say(f"reading labels of {path}")
    read = survey_tags(path, advance(say))
    say("comparing images")
    pairs = near_duplicates(read.images.thumbnails)
    dataset = read.images.dataset
    findings = [
        *report_unreadable(dataset),
        *report_repeats(dataset, pairs),
        *_list_faults(read),
        *report_sizes(read.images),
    ]

    def overview() -> Any:
        return divide_tags(read, SEED, pairs).make_overview(dataset)

    return run_data_check(path, read.images, TagContent(read), findings, overview)


def _list_faults(read: TagSurvey) -> Iterator[Finding]:
    for note in read.notes:
        if NOT_USED in note:
            yield Finding(TagFault.UNUSED, note.rstrip("."), "add images, or take the label out of the table")
    if rare := [f"{name} ({count})" for name, count in read.counts.items() if count < FEW]:
        message = (
            f"{phrase_count(len(rare), 'label is', 'labels are')} in fewer than {FEW} images: {listed(rare, NAMED)}"
        )
        yield Finding(TagFault.RARE, message, "add images: from so few the network learns little")
    bare = np.flatnonzero(~(read.truth == 1).any(axis=1)).tolist()
    none = [read.images.dataset.images[place].path for place in bare]
    if none:
        message = f"{phrase_count(len(none), 'image has', 'images have')} no label"
        yield Finding(TagFault.NONE, message, "check that none is missing", tuple((path,) for path in none))
