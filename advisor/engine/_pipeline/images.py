"""Hold the user's images in a search, and choose those that each piece of work uses.

A task reads and splits them once (``SearchTask.read``). Stages ask :meth:`Images.part` for the
images with a role, and the fingerprint of a part is in their cache keys. So the choice of images
follows from their hashes alone: another choice gives new keys, and all work is done again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from advisor.core import HoldoutPart
from advisor.datasets import (
    Dataset,
    Division,
    Grouping,
    LabelledImage,
    Split,
    SplitPart,
    phrase_count,
)
from advisor.store import sha256_json

Value = TypeVar("Value")

Object = tuple[int, float, float, float, float]
"""The label of a box, and its top, left, bottom and right in shares of the upright image."""

LARGE = 5000  # Sets with more images than this get a quick head on some of the images

SUBSET_IMAGES = 2000  # Images of the quick head on a large set, at most

# Images of the training part that a fine-tuning learns from, at most (decision 0141).
TUNED_IMAGES = 16000

CAPTURED_IMAGES = 100
"""Images of the hold-out under capture conditions, at most:
they cost as much as scoring fourteen times as many.
"""


class Role(StrEnum):
    """The purpose of some of the user's images."""

    TRAIN = "train"  # The training part: fitted while candidates are compared
    VALIDATION = "validation"  # The validation part: candidates are compared on it
    LEARNT = "learnt"  # Everything but the hold-out: fitted by the model that ships
    # Every image, the hold-out too: fitted by a file of ``--ship-on all``, which nothing judges.
    ALL = "all"
    SUBSET = "subset"  # Some of the training part, for a quick head on a large set
    # The validation part and as much of the training part as fine-tuning learns from.
    TUNED = "tuned"
    HOLDOUT = "holdout"  # The hold-out: only finalists are judged on it
    # Images of other things than the classes, which the user gave: finalists are judged on them.
    OTHERS = "others"
    CAPTURED = "captured"  # Some of the hold-out, judged under capture conditions


@dataclass(frozen=True)
class Part:
    """Some of the user's images."""

    indices: tuple[int, ...]  # their places in the dataset, sorted
    paths: tuple[Path, ...]
    labels: tuple[int, ...]  # their classes
    fingerprint: str  # hash of the images in their order and with their labels
    # Size and modification time of each file when it was read.
    stamps: tuple[tuple[int, int], ...] = ()
    hashes: tuple[str, ...] = ()  # SHA-256 of each file, in hexadecimal
    groups: tuple[int, ...] = ()  # number of the group of each image; empty if each image is one
    # What a task knows of each image, such as the :data:`Object` of each box.
    objects: tuple[Any, ...] = ()

    def between(self, start: int, end: int) -> Part:
        """Return the images from place ``start`` to before place ``end``."""
        # Every field but the fingerprint has one value for each image, or none at all.
        values = {}
        for name, values_of in vars(self).items():
            if name != "fingerprint":
                values[name] = values_of[start:end]
        return Part(**values, fingerprint=f"{self.fingerprint}[{start}:{end}]")

    def rows_of(self, part: Part) -> list[int]:
        """Return the places of another part's images among these."""
        row_of = {index: row for row, index in enumerate(self.indices)}
        return [row_of[index] for index in part.indices]


@dataclass(frozen=True)
class Boxes:
    """The boxes in a set of images: classes in label order, and of each upright image its objects,
    and its sides in pixels.
    """

    classes: tuple[str, ...]
    objects: tuple[tuple[Object, ...], ...]
    sizes: tuple[tuple[int, int], ...]

    @property
    def counts(self) -> Mapping[str, int]:
        """Boxes of each class."""
        return self.among(range(len(self.objects)))

    def among(self, indices: Iterable[int]) -> Mapping[str, int]:
        """Return the boxes of each class in some images."""
        counts = Counter[int]()
        for index in indices:
            counts.update(label for label, *_ in self.objects[index])
        return {name: counts[label] for label, name in enumerate(self.classes)}


@dataclass(frozen=True)
class Images:
    """The user's images and their split."""

    dataset: Dataset
    split: Split
    # Groups of the manifest, in several parts of the user's own split.
    leaks: tuple[tuple[int, ...], ...] = ()
    subset_images: int = SUBSET_IMAGES
    # Number of each image's group: copies, near duplicates, ``grouping``; empty for none.
    groups: tuple[int, ...] = ()
    # The groups that the split keeps whole, each taken on one occasion.
    grouping: Grouping = field(default_factory=Grouping)
    # images by part that judge nothing, because a copy of them is learnt from
    copies: Mapping[str, int] = field(default_factory=dict)
    # A sentence about each thing that a reader may not expect of the split.
    notes: tuple[str, ...] = ()
    boxes: Boxes | None = None
    # Images of things that are none of the classes; nothing is fitted to them.
    others: tuple[LabelledImage, ...] = ()
    tuned_images: int = TUNED_IMAGES
    # What a task knows of each image, such as its mask; empty where boxes say it.
    objects: tuple[Any, ...] = ()
    # Of each image, values that also decide what is learnt from it; empty for none.
    keys: tuple[object, ...] = ()
    # The meaning of a network's outputs, if they are not the classes of the images.
    outputs: tuple[str, ...] = ()

    @classmethod
    def of_division(
        cls,
        dataset: Dataset,
        division: Division,
        notes: tuple[str, ...],
        say: Callable[[str], None],
    ) -> Images:
        """Return divided images, and say what is notable about the parts."""
        for note in notes:
            say(note)
        if division.leaks:
            what = phrase_count(
                len(division.leaks), "group of the manifest lies", "groups of the manifest lie"
            )
            say(f"{what} in several parts of the split")
        return cls(
            dataset,
            division.split,
            division.leaks,
            groups=division.groups,
            grouping=division.grouping,
            copies=division.copies,
            notes=notes,
        )

    @classmethod
    def all_held_out(cls, dataset: Dataset, seed: int) -> Images:
        """Return images that are all held out."""
        every_place = tuple(range(len(dataset.images)))
        return cls(dataset, Split((), (), every_place, seed))

    @property
    def classes(self) -> tuple[str, ...]:
        """The meaning of a network's outputs, by default the classes in label order:
        those of the boxes, if any.
        """
        if self.boxes:
            return self.boxes.classes
        return self.outputs or self.dataset.classes

    @property
    def own_holdout(self) -> bool:
        """True where the user's own split names the hold-out."""
        return SplitPart.HOLDOUT in self.split.given

    def held_out(self, count: int) -> Images:
        """Return the images with ``count`` of the hold-out alone, in proportion to the classes.

        The images of a larger count are those of a smaller one and further ones.
        """
        images = self.dataset.images
        members: dict[int, list[int]] = {}
        for index in sorted(self.split.holdout, key=lambda index: images[index].sha256):
            members.setdefault(images[index].label, []).append(index)
        sizes = {}
        for label in sorted(members):
            sizes[label] = len(members[label])
        part = HoldoutPart(count, len(self.split.holdout))
        chosen = []
        for label, most in part.count_by_class(sizes).items():
            chosen += members[label][:most]
        return replace(self, split=replace(self.split, holdout=tuple(sorted(chosen))))

    @property
    def large(self) -> bool:
        """True where a quick head on some of the images saves more than it costs."""
        return len(self.split.learnt) > LARGE

    def part(self, role: Role) -> Part:
        """Return the images with a role."""
        return self._parts[role]

    def group_names(self, role: Role) -> tuple[str, ...]:
        """Return the name of the group of each image with a role;
        empty where the images do not come in groups.
        """
        numbers = self.grouping.of
        if not numbers:
            return ()
        names = []
        for index in self.part(role).indices:
            names.append(self.dataset.images[index].group or f"no. {numbers[index] + 1}")
        return tuple(names)

    @property
    def counts(self) -> Mapping[Role, int]:
        """Number of images by role."""
        return {role: len(part.paths) for role, part in self._parts.items()}

    @cached_property
    def _parts(self) -> Mapping[Role, Part]:
        split = self.split
        tuned = self._draw_evenly(split.train, self.tuned_images)
        indices = {
            Role.TRAIN: split.train,
            Role.VALIDATION: split.validation,
            Role.LEARNT: split.learnt,
            Role.ALL: tuple(sorted((*split.learnt, *split.holdout))),
            Role.SUBSET: self._draw_evenly(split.train, self.subset_images),
            Role.TUNED: tuple(sorted((*tuned, *split.validation))),
            Role.HOLDOUT: split.holdout,
            Role.CAPTURED: self._draw_evenly(split.holdout, CAPTURED_IMAGES),
        }
        parts = {role: self._make_part(places) for role, places in indices.items()}
        # Images of other things are no part of the split.
        return {**parts, Role.OTHERS: _make_part_of(self.others)}

    def _draw_evenly(self, indices: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Return ``count`` of the images at most, in proportion to the classes,
        drawn by the images' hashes.
        """
        images = self.dataset.images
        ordered = sorted(indices, key=lambda index: (images[index].label, images[index].sha256))
        wanted = min(len(ordered), count)
        # Every class has one, however small.
        first_of_class = {images[index].label: index for index in reversed(ordered)}
        drawn = set(first_of_class.values())
        for step in range(wanted):
            drawn.add(ordered[step * len(ordered) // wanted])
        return tuple(sorted(drawn))

    def _make_part(self, indices: tuple[int, ...]) -> Part:
        """Return the images at some places of the dataset, with all that is known of them."""
        boxes = _take(self.boxes.objects, indices) if self.boxes else ()
        part = _make_part_of(_take(self.dataset.images, indices), boxes)
        fingerprint = part.fingerprint
        if self.keys:
            fingerprint = sha256_json([fingerprint, list(_take(self.keys, indices))])
        return replace(
            part,
            indices=indices,
            groups=_take(self.groups, indices),
            objects=boxes or _take(self.objects, indices),
            fingerprint=fingerprint,
        )


def _take(values: Sequence[Value], indices: Sequence[int]) -> tuple[Value, ...]:
    """Return the values at some places; nothing where there are none at all."""
    if values:
        return tuple(values[index] for index in indices)
    return ()


def _make_part_of(
    images: Sequence[LabelledImage], objects: tuple[tuple[Object, ...], ...] = ()
) -> Part:
    """Return images as a part; the places are those among the images themselves."""
    labels = tuple(image.label for image in images)
    truths = zip(images, objects or labels, strict=True)
    return Part(
        indices=tuple(range(len(images))),
        paths=tuple(image.path for image in images),
        labels=labels,
        fingerprint=sha256_json([(image.sha256, truth) for image, truth in truths]),
        stamps=tuple(image.stamp for image in images),
        hashes=tuple(image.sha256 for image in images),
        objects=objects,
    )
