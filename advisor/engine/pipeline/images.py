"""The user's images by role: to learn from, to compare candidates on, to judge finalists on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from advisor.datasets.dataset import Dataset, LabelledImage
from advisor.datasets.division import Overview
from advisor.datasets.split import HOLDOUT, TRAIN, UNGROUPED, VALIDATION, Grouping, Split
from advisor.store.files import sha256_json

Object = tuple[int, float, float, float, float]
"""The label of a box, and its top, left, bottom and right in shares of the upright image."""

LARGE = 5000
"""Sets with more images than this get a first look at some of the images."""

SUBSET_IMAGES = 2000
"""Images of the first look at a large set, at most."""

CAPTURED_IMAGES = 100
"""Images of the hold-out for the test under capture conditions, at most: every condition at both strengths costs as
much as scoring fourteen times as many images."""


class Role(StrEnum):
    """The purpose of some of the user's images."""

    TRAIN = "train"
    """The training part: fitted while candidates are compared."""
    VALIDATION = "validation"
    """The validation part: candidates are compared on it."""
    LEARNT = "learnt"
    """Everything but the hold-out: fitted by the model that ships."""
    SUBSET = "subset"
    """Some of the training part, for a first look at a large set."""
    HOLDOUT = "holdout"
    """The hold-out: only finalists are judged on it."""
    OTHERS = "others"
    """Images of other things than the classes, which the user gave: finalists are judged on them."""
    CAPTURED = "captured"
    """Some of the hold-out, judged under capture conditions."""


@dataclass(frozen=True)
class Part:
    """Some of the user's images.

    Attributes:
        indices: their places in the dataset, sorted.
        paths: their files.
        labels: their classes.
        fingerprint: hash of the images in their order and with their labels.
        stamps: size and modification time of each file when it was read.
        hashes: SHA-256 of each file, in hexadecimal.
        groups: number of the group of each image; images of one group belong together. Empty if each image is a group.
        objects: the objects in each image; empty where images have no boxes.
    """

    indices: tuple[int, ...]
    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    fingerprint: str
    stamps: tuple[tuple[int, int], ...] = ()
    hashes: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    objects: tuple[tuple[Object, ...], ...] = ()

    def between(self, start: int, end: int) -> Part:
        """Return the images from place ``start`` to before place ``end``."""
        return Part(
            indices=self.indices[start:end],
            paths=self.paths[start:end],
            labels=self.labels[start:end],
            fingerprint=f"{self.fingerprint}[{start}:{end}]",
            stamps=self.stamps[start:end],
            hashes=self.hashes[start:end],
            groups=self.groups[start:end],
            objects=self.objects[start:end],
        )

    def rows_of(self, part: Part) -> list[int]:
        """Return the places of another part's images among these."""
        row_of = {index: row for row, index in enumerate(self.indices)}
        return [row_of[index] for index in part.indices]


@dataclass(frozen=True)
class Boxes:
    """The boxes in a set of images.

    Attributes:
        classes: their classes, in label order.
        objects: the objects in each image of the dataset.
        sizes: width and height of each upright image in pixels.
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
        found = Counter(label for index in indices for label, *_ in self.objects[index])
        return {name: found[label] for label, name in enumerate(self.classes)}


@dataclass(frozen=True)
class Images:
    """The user's images and their split.

    Attributes:
        dataset: the images.
        split: its parts.
        leaks: groups of images that show the same or belong together, and that the user's own split puts into several
            parts.
        subset_images: images of a first look, at most.
        groups: number of the group of each image of the dataset: copies, near duplicates and ``grouping`` together.
            Empty if each image is a group.
        grouping: the groups that the split keeps whole, each taken on one occasion.
        notes: a sentence about each thing that a reader may not expect of the split.
        boxes: the boxes in the images, None where images themselves have classes.
        others: images of things that are none of the classes; nothing is fitted to them.
    """

    dataset: Dataset
    split: Split
    leaks: tuple[tuple[int, ...], ...] = ()
    subset_images: int = SUBSET_IMAGES
    groups: tuple[int, ...] = ()
    grouping: Grouping = UNGROUPED
    notes: tuple[str, ...] = ()
    boxes: Boxes | None = None
    others: tuple[LabelledImage, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in label order: those of the boxes, where there are boxes."""
        return self.boxes.classes if self.boxes else self.dataset.classes

    @property
    def overview(self) -> Overview:
        """The images, and the boxes if there are any, of each class in each part."""
        split = self.split
        found = Overview.of(self.dataset, split, self.grouping, self.notes)
        if self.boxes is None:
            return found
        parts = {TRAIN: split.train, VALIDATION: split.validation, HOLDOUT: split.holdout}
        return replace(found, boxes={part: self.boxes.among(indices) for part, indices in parts.items()})

    @property
    def own_holdout(self) -> bool:
        """True where the user's own split names the hold-out."""
        return HOLDOUT in self.split.given

    @property
    def large(self) -> bool:
        """True where a first look at some of the images saves more than it costs."""
        return len(self.split.learnt) > LARGE

    def part(self, role: Role) -> Part:
        """Return the images with a role."""
        return self._parts[role]

    def group_names(self, role: Role) -> tuple[str, ...]:
        """Return the name of the group of each image with a role; empty where the images do not come in groups."""
        images, numbers = self.dataset.images, self.grouping.of
        return tuple(images[i].group or f"no. {numbers[i] + 1}" for i in self.part(role).indices) if numbers else ()

    @property
    def counts(self) -> Mapping[Role, int]:
        """Number of images by role."""
        return {role: len(part.paths) for role, part in self._parts.items()}

    @cached_property
    def _parts(self) -> Mapping[Role, Part]:
        parts = {role: self._part(indices) for role, indices in self._indices.items()}
        return {**parts, Role.OTHERS: _part_of(self.others)}

    @cached_property
    def _indices(self) -> Mapping[Role, tuple[int, ...]]:
        split = self.split
        return {
            Role.TRAIN: split.train,
            Role.VALIDATION: split.validation,
            Role.LEARNT: split.learnt,
            Role.SUBSET: self._evenly(split.train, self.subset_images),
            Role.HOLDOUT: split.holdout,
            Role.CAPTURED: self._evenly(split.holdout, CAPTURED_IMAGES),
        }

    def _evenly(self, indices: tuple[int, ...], count: int) -> tuple[int, ...]:
        """Return ``count`` of the images at most, in proportion to the classes, drawn by the images' hashes."""
        images = self.dataset.images
        ordered = sorted(indices, key=lambda index: (images[index].label, images[index].sha256))
        wanted = min(len(ordered), count)
        first = {images[index].label: index for index in reversed(ordered)}  # every class has one, however small
        return tuple(sorted({*first.values(), *(ordered[step * len(ordered) // wanted] for step in range(wanted))}))

    def _part(self, indices: tuple[int, ...]) -> Part:
        objects = tuple(self.boxes.objects[index] for index in indices) if self.boxes else ()
        plain = _part_of([self.dataset.images[index] for index in indices], objects)
        groups = tuple(self.groups[index] for index in indices) if self.groups else ()
        return replace(plain, indices=indices, groups=groups)


def _part_of(images: Sequence[LabelledImage], objects: tuple[tuple[Object, ...], ...] = ()) -> Part:
    """Return images as a part; the places are those among the images themselves."""
    known: tuple[object, ...] = objects or tuple(image.label for image in images)
    return Part(
        indices=tuple(range(len(images))),
        paths=tuple(image.path for image in images),
        labels=tuple(image.label for image in images),
        fingerprint=sha256_json([(image.sha256, own) for image, own in zip(images, known, strict=True)]),
        stamps=tuple(image.stamp for image in images),
        hashes=tuple(image.sha256 for image in images),
        objects=objects,
    )
