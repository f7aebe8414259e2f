"""Divide a data set into training part, validation and hold-out, and say in sentences how.

Each task calls :meth:`Division.of_survey`, or a function on it, after the survey and before any
training. It groups the images (``_grouping.py``), draws the parts (``_split.py``), and leaves out
copies that would judge what has learnt from them. Images with boxes or masks have strata in place
of a class while the parts are drawn (``_strata.py``). A resumed run divides again, so equal images
and seeds must give the same parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.core import UsageError, listed, plain
from advisor.datasets._boxes.reading import BoxSurvey
from advisor.datasets._checks import (
    find_copies,
    find_copies_of_learnt,
    find_leaks,
    list_linked_groups,
)
from advisor.datasets._checks.boxes import (
    Counts,
    count_boxes_in_parts,
    name_lacking_classes,
    require_usable_boxes,
)
from advisor.datasets._checks.findings import phrase_count
from advisor.datasets._dataset import Dataset, LabelledImage
from advisor.datasets._demo import DEMO_NOTE, is_demo
from advisor.datasets._duplicates import Pair
from advisor.datasets._grouping import find_groups
from advisor.datasets._image_groups import Grouping
from advisor.datasets._parts import PARTS
from advisor.datasets._split import (
    HOLDOUT_SHARE,
    VALIDATION_SHARE,
    Split,
    copies_sentence,
    draw_split,
)
from advisor.datasets._split_part import SplitPart
from advisor.datasets._strata import Stratify, make_stratifier
from advisor.datasets._survey import Survey
from advisor.datasets._units import number_units

NAMED_COPIES = 2
"""Equal files of two classes that a sentence names; the others are counted."""

MOST_HELD = 10_000
"""Images that are drawn for the hold-out, at most:
they tell an accuracy of 90 % to 0.6 points with 95 %.
"""

MOST_COMPARED = 5_000
"""Images that are drawn for validation, at most.

They tell two files apart that differ in 5 % of their answers, by 0.7 points or more.
"""

NAMED = 5  # Classes named in a sentence, at most


@dataclass(frozen=True)
class Division:
    """A split and why it is as it is."""

    split: Split  # the parts
    grouping: Grouping  # the groups that are kept whole
    # Number of the group of each image: copies, near duplicates and ``grouping`` together.
    groups: tuple[int, ...]
    # Indices never separated: copies, near duplicates, groups of the manifest.
    together: tuple[tuple[int, ...], ...]
    # Groups of the manifest that the user's own split puts into several parts.
    leaks: tuple[tuple[int, ...], ...]
    # Classes that the user's validation part lacks: it was joined to the training part.
    rejoined: tuple[str, ...] = ()
    copies: Mapping[str, int] = field(default_factory=dict)
    """Images of each part of the user's own split that copy images which are learnt from:
    they are in no part.
    """
    alike: int = 0  # images of which the set has near copies

    def list_notes(self, dataset: Dataset) -> tuple[str, ...]:
        """Return a sentence about each thing that a reader may not expect of the split."""
        notes = list(dataset.notes)
        if is_demo(dataset.root):
            notes.insert(0, DEMO_NOTE)
        if self.grouping.of:
            notes.append(_describe_groups(self, dataset))
        read = len(dataset.images) + len(dataset.rejected)
        if read < dataset.listed:
            notes.append(
                f"{read:,} of {dataset.listed:,} images are read, in proportion to the classes: as"
                " many as the time limit leaves time for. A longer one reads more."
            )
        if dataset.rejected:
            first = dataset.rejected[0]
            which = phrase_count(len(dataset.rejected), "listed image is", "listed images are")
            notes.append(
                f"{which} not used; the first: '{plain(first.path.name)}': {first.reason}."
            )
        sizes = {part: len(getattr(self.split, part)) for part in PARTS}
        copied = copies_sentence(self.copies, sizes)
        if copied:
            notes.append(copied)
        elif self.alike and not self.split.given:
            which = phrase_count(self.alike, "image has", "images have")
            notes.append(
                f"{which} near copies by their thumbnails: these stay in one part of the split."
                " The check of the data compares more closely."
            )
        contradicting = _find_contradicting_copies(dataset)
        if contradicting:
            which = phrase_count(len(contradicting), "file is", "files are")
            notes.append(
                f"{which} equal to one of another class, so a label is wrong:"
                f" {listed(contradicting, NAMED_COPIES)}."
            )
        if self.rejoined:
            notes.append(
                f"The validation part of your split lacks {len(self.rejoined)} of"
                f" {len(dataset.classes)} classes ({_join_names(self.rejoined)}): it was joined to"
                " the training part, and another one was drawn."
            )
        counts = _count_classes(self.split, dataset)[SplitPart.VALIDATION]
        missing = []
        for label, name in enumerate(dataset.classes):
            if not counts[label]:
                missing.append(name)
        if missing:
            which = phrase_count(len(missing), "class has", "classes have")
            notes.append(
                f"{which} no image for validation, and no recall there ({_join_names(missing)})."
            )
        return tuple(notes)

    def make_overview(self, dataset: Dataset) -> Overview:
        """Return what a user may want to know of the split."""
        return Overview.of_split(dataset, self.split, self.grouping, self.list_notes(dataset))

    @classmethod
    def of_survey(
        cls,
        read: Survey,
        seed: int,
        alike: tuple[Pair, ...] | None = None,
        stratify: Stratify | None = None,
    ) -> Division:
        """Return the division of a data set; equal seeds and bytes give equal splits.

        The user's own split is kept, without copies that would judge what has learnt from them. If
        its validation part lacks a class, it is joined to the training part, and another one is
        drawn. Of a large set, fewer images are held out and compared, and more are learnt from:
        see :data:`MOST_HELD`.

        ``alike`` are the pairs of similar images; None: they are searched. ``stratify`` takes the
        number of the group of each image, and returns the images with the classes of which each
        part gets its share; None for their own classes. Raises UsageError as
        :func:`._split.draw_split` and :func:`find_groups`.
        """
        dataset = read.dataset
        pairs = Pair.find_alike(read.thumbnails) if alike is None else alike
        together = list_linked_groups(dataset, pairs)
        grouping = find_groups(read)
        groups = number_units(dataset, [*together, *grouping.members])
        # Images with boxes have no class of their own:
        # their stratum stands for it while parts are drawn.
        shared = stratify(groups) if stratify else dataset
        same = find_copies(dataset, pairs)
        given, rejoined = _complete_given_parts(shared, same)
        count = len(dataset.images)
        # Above that number, more images are of more use to learn from than to judge by.
        held = min(HOLDOUT_SHARE, MOST_HELD / count)
        compared = min(VALIDATION_SHARE, MOST_COMPARED / (count * (1 - held)))
        parts = draw_split(shared, seed, held, together, given, compared, grouping)
        judged, unjudged = _without_copies(dataset, parts, same)
        # Without pairs of similar images, only the groups of the manifest are left.
        leaks = find_leaks(dataset, list_linked_groups(dataset, ()))
        return cls(
            judged,
            grouping,
            groups,
            together,
            leaks,
            rejoined=rejoined,
            copies=unjudged,
            alike=sum(map(len, same)),
        )

    @staticmethod
    def of_boxes(
        read: BoxSurvey, seed: int, alike: tuple[Pair, ...] | None = None
    ) -> tuple[Division, Counts, tuple[str, ...]]:
        """Check and divide a set; return its division, the boxes in each part, and notes for a
        reader.

        Raises UsageError if the set cannot be used or divided, a part has no box,
        or the training part lacks a class.
        """
        require_usable_boxes(read)
        stratify = make_stratifier(read.images.dataset, read.contents)
        division = Division.of_survey(read.images, seed, alike, stratify)
        boxes = count_boxes_in_parts(read, division.split)
        notes = [*division.list_notes(read.images.dataset), *name_lacking_classes(boxes)]
        if read.turned:
            photos = phrase_count(read.turned, "photo is", "photos are")
            notes.append(f"{photos} stored rotated, and so were the boxes: they were turned.")
        return division, boxes, tuple(notes)


@dataclass(frozen=True)
class Overview:
    """Facts of a split that a user may want to know before anything is spent.

    Attributes:
        parts: for each part the images of each class.
        grouping: the groups that are kept whole.
        own_split: names of the parts in the user's own split.
        notes: a sentence about each thing that a reader may not expect.
        boxes: for each part the boxes of each class, empty if the images have no boxes.
    """

    parts: Mapping[str, Mapping[str, int]]
    grouping: Grouping
    own_split: tuple[str, ...]
    notes: tuple[str, ...]
    boxes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def of_split(
        cls,
        dataset: Dataset,
        parts: Split,
        grouping: Grouping,
        notes: tuple[str, ...],
    ) -> Overview:
        """Return the overview of a split."""
        by_name = {}
        for part, counts in _count_classes(parts, dataset).items():
            by_name[part] = {name: counts[label] for label, name in enumerate(dataset.classes)}
        return cls(by_name, grouping, parts.given, notes)

    @property
    def lines(self) -> tuple[str, ...]:
        """The overview as sentences."""
        train, validation, holdout = (f"{sum(self.parts[part].values()):,}" for part in PARTS)
        lines = [
            f"Split: {train} images for training, {validation} to compare candidates (validation),"
            f" {holdout} held out."
        ]
        if self.boxes:
            train, validation, holdout = (f"{sum(self.boxes[part].values()):,}" for part in PARTS)
            lines.append(
                f"Boxes: {train} for training, {validation} in validation, {holdout} held out."
            )
        count = self.grouping.count
        if count:
            largest = phrase_count(self.grouping.largest, "image")
            lines.append(f"Groups: {count:,}, the largest with {largest}.")
        else:
            lines.append("Groups: none found, so single images are drawn.")
        return (*lines, *self.notes)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object with groups, images or boxes by class and part, and sentences."""
        per_class = self.boxes or self.parts
        missing = {}
        for part, counts in per_class.items():
            missing[part] = [name for name, count in counts.items() if not count]
        return {
            "grouping": self.grouping.to_json(),
            "own_split": list(self.own_split),
            "images": {part: sum(counts.values()) for part, counts in self.parts.items()},
            "boxes_per_class" if self.boxes else "images_per_class": per_class,
            "missing": missing,
            "notes": list(self.notes),
        }


def number_linked_groups(dataset: Dataset, pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Return the number of the unit of each image: similar images, and groups of the user."""
    return number_units(dataset, list_linked_groups(dataset, pairs))


def _without_copies(
    dataset: Dataset, parts: Split, alike: Sequence[Sequence[int]]
) -> tuple[Split, Mapping[str, int]]:
    """Return the user's own split without images that copy learnt ones, and their number by part.

    A split that was drawn has all copies in one part. Raises UsageError if a class of the
    hold-out, or validation, has no other image.
    """
    # In a split that was drawn, copies are in one part already.
    if not parts.given:
        return parts, {}
    part_of = {}
    for name in PARTS:
        part_of.update(dict.fromkeys(getattr(parts, name), name))
    left_out = set(find_copies_of_learnt(alike, part_of))
    if not left_out:
        return parts, {}
    validation = tuple(index for index in parts.validation if index not in left_out)
    holdout = tuple(index for index in parts.holdout if index not in left_out)
    present = {dataset.images[index].label for index in holdout}
    missing = []
    for label, name in enumerate(dataset.classes):
        if label not in present:
            missing.append(f"'{name}'")
    if missing or not validation:
        where = "hold-out" if missing else SplitPart.VALIDATION
        what = f" of {listed(missing, NAMED)}" if missing else ""
        raise UsageError(
            f"--data: all images{what} in the {where} of your split are copies of images that are"
            " learnt from",
            "put other images there, or remove the split: one is drawn then",
        )
    judged = replace(parts, validation=validation, holdout=holdout)
    return judged, dict(Counter(part_of[index] for index in sorted(left_out)))


def _complete_given_parts(
    dataset: Dataset, alike: Sequence[Sequence[int]]
) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """Return the user's own parts, and the classes that their validation part lacks.

    Images that copy learnt ones do not count.
    """
    given = dataset.own_parts
    # Of two parts, the second is the hold-out.
    if SplitPart.HOLDOUT not in given or SplitPart.VALIDATION not in given:
        return given, ()
    part_of = {index: part for index, part in enumerate(given) if part in PARTS}
    left_out = set(find_copies_of_learnt(alike, part_of))
    present = set()
    for index, part in part_of.items():
        if part == SplitPart.VALIDATION and index not in left_out:
            present.add(dataset.images[index].label)
    lacking = tuple(name for label, name in enumerate(dataset.classes) if label not in present)
    if lacking:
        # What the user held out stays held out; only validation is drawn anew.
        given = tuple(SplitPart.TRAIN if part == SplitPart.VALIDATION else part for part in given)
    return given, lacking


def _count_classes(parts: Split, dataset: Dataset) -> dict[str, Counter[int]]:
    """Return how many images of each class each part has."""
    labels = dataset.labels
    counts = {}
    for name in PARTS:
        indices: tuple[int, ...] = getattr(parts, name)
        counts[name] = Counter(labels[index] for index in indices)
    return counts


def _find_contradicting_copies(dataset: Dataset) -> list[str]:
    """Return the files that equal an earlier one of another class, both with their classes."""
    first_of = dict[str, LabelledImage]()
    copies = []
    for image in dataset.images:
        first = first_of.setdefault(image.sha256, image)
        # A set of good and faulty images names the good ones alone, and has a note of its own.
        is_named = max(first.label, image.label) < len(dataset.classes)
        if is_named and first.label != image.label:
            names = []
            for one in (first, image):
                names.append(f"'{plain(one.path.name)}' ({plain(dataset.classes[one.label])})")
            copies.append(" and ".join(names))
    return copies


def _describe_groups(division: Division, dataset: Dataset) -> str:
    grouping = division.grouping
    given = division.split.given
    come = f"Images come in {phrase_count(grouping.count, 'group')} ({grouping.source.value})"
    if SplitPart.HOLDOUT in given:
        if SplitPart.VALIDATION in given:
            return f"{come}: your own split is kept, and ranges count groups."
        return f"{come}: validation has whole groups, and ranges count them."
    part_of = dict.fromkeys(division.split.validation, SplitPart.VALIDATION) | dict.fromkeys(
        division.split.holdout, SplitPart.HOLDOUT
    )
    # A group with images of several classes may be divided for one of them alone.
    parts_of: dict[tuple[int, int], set[str]] = defaultdict(set)
    for index, number in enumerate(grouping.of):
        label = dataset.images[index].label
        parts_of[label, number].add(part_of.get(index, SplitPart.TRAIN))
    divided_classes = {label for (label, _), parts in parts_of.items() if len(parts) > 1}
    divided = len(divided_classes)
    if not divided:
        return f"{come}: whole groups are held out, and ranges count them."
    which = phrase_count(divided, "class", "classes")
    return (
        f"{come}: whole groups are held out, and ranges count them."
        f" In {which} with too few groups, one is divided between two parts: figures there may be"
        " too high."
    )


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
