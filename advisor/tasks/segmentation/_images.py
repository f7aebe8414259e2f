"""Read images with masks for a search, and check them for ``advisor data check``.

``read`` returns the images of a question, divided into parts; ``choose_mixed`` those that a
network learns from. ``check_masks`` returns the findings of a check, whose content is
:class:`MaskContent`. The keys of ``MaskContent.to_json`` are those of the JSON document of a
check: they stay.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import listed, plural
from advisor.datasets import (
    BACKGROUND,
    Finding,
    Mask,
    MaskSurvey,
    Overview,
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
from advisor.tasks.segmentation._drawing import colour_mask

EMPTY_SHARE = 0.5  # Images of one class alone that are learnt from, over the others
FEW = 10  # Images of a class, below which it is hardly learnt


def read(question: Question, say: Say) -> Images:
    """Return images with masks; UsageError if they cannot be read or divided."""
    read = MaskSurvey.read_images(
        question.require_data(), report_progress(say), question.most_images
    )
    dataset = read.without_classes.dataset
    seed = question.seed
    if question.judged_whole:
        plain = Images.all_held_out(dataset, seed)
    else:
        division = read.divide_images(seed)
        plain = Images.of_division(dataset, division, division.list_notes(dataset), say)
    return replace(
        plain,
        objects=read.masks,
        keys=tuple(mask.key for mask in read.masks),
        outputs=read.classes,
    )


def choose_mixed(images: Sequence[tuple[Path, Mask]], seed: int) -> Sequence[tuple[Path, Mask]]:
    """Return the images with several classes, and half as many of the others.

    The others may be most of a set of faults.
    """
    mixed = list[int]()
    others = list[int]()
    for place, (_, mask) in enumerate(images):
        labels = {label for _, label in mask.classes}
        if len(labels) > 1 or mask.regions:
            mixed.append(place)
        else:
            others.append(place)
    most = round(EMPTY_SHARE * len(mixed)) if mixed else len(others)
    drawn = np.random.default_rng(seed).permutation(others)[:most]
    # In the order of the images, which their kept features have too.
    return [images[place] for place in sorted([*mixed, *drawn.tolist()])]


class MaskFault(StrEnum):
    """A kind of finding about masks."""

    NEVER = "classes that never occur"
    RARE = "rare classes"
    EMPTY = "masks without an object"
    OUTSIDE = "polygons outside the image"


@dataclass(frozen=True, eq=False)
class MaskContent:
    """The masks of images, as the content of a check."""

    read: MaskSurvey
    next_command: str = "advisor search --task segmentation --data {manifest}"
    sizes: tuple[Any, ...] = ()

    @cached_property
    def _places(self) -> Mapping[Path, int]:
        return {image.path: place for place, image in enumerate(self.read.images.dataset.images)}

    @property
    def counts(self) -> Mapping[str, int]:
        """Images with each class but the background."""
        numbers = (self.read.pixels > 0).sum(axis=0).tolist()
        counts = dict(zip(self.read.classes, numbers, strict=True))
        counts.pop(BACKGROUND, None)
        return counts

    @property
    def summary(self) -> str:
        """The number of images and of classes."""
        return (
            f"{plural(len(self.read.masks), 'image')} with masks, {len(self.read.classes)} classes"
        )

    def label(self, path: Path) -> str:
        """Return the classes in an image, the largest first; empty for one that was left out."""
        if path not in self._places:
            return ""
        pixels = self.read.pixels[self._places[path]]
        names = self.read.classes
        order = []
        for label in np.argsort(-pixels).tolist():
            if pixels[label] and names[label] != BACKGROUND:
                order.append(label)
        total = pixels.sum()
        shares = [f"{names[label]} {100 * pixels[label] / total:.1f} %" for label in order]
        return ", ".join(shares) or "nothing"

    def drawing(self, path: Path) -> Drawing | None:
        """Return the mask of an image; None for one that was left out."""
        if path not in self._places:
            return None
        mask = self.read.masks[self._places[path]]
        layer = base64.b64encode(colour_mask(mask.labels(), self.read.classes)).decode()
        shown = layer if self.label(path) != "nothing" else ""
        return Drawing(mask.size[::-1], (), shown)

    def to_json(self) -> Mapping[str, Any]:
        """Return the images and pixels of each class."""
        pixels = dict(zip(self.read.classes, self.read.pixels.sum(axis=0).tolist(), strict=True))
        return {
            "images": len(self.read.masks),
            "images_per_class": self.counts,
            "pixels_per_class": pixels,
        }

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a table of images and masks without those that the findings leave out;
        return its number of images.
        """
        return self.read.write_table(path, findings)


def check_masks(path: Path, say: Say) -> DataCheck:
    """Check a set of images with masks in any layout; it is not changed."""
    say(f"reading masks of {path}")
    read = MaskSurvey.read_images(path, report_progress(say))
    say("comparing images")
    pairs = Pair.find_alike(read.images.thumbnails)
    images = read.without_classes
    findings = check_images(images, pairs, _list_faults(read))

    def overview(seed: int) -> Overview:
        return read.divide_images(seed, pairs).make_overview(images.dataset)

    return DataCheck.of_survey(path, read.images, MaskContent(read), findings, overview)


def _list_faults(read: MaskSurvey) -> Iterator[Finding]:
    """Yield what is odd about the masks of a set."""
    paths = [image.path for image in read.images.dataset.images]
    if read.unused:
        what = phrase_count(len(read.unused), "class is", "classes are")
        yield Finding(
            MaskFault.NEVER,
            f"{what} named and in no mask: {listed(read.unused)}",
            "the network does not learn them",
        )
    rare = []
    for name, number in MaskContent(read).counts.items():
        if number < FEW:
            rare.append(f"{name} ({number})")
    if rare:
        what = phrase_count(len(rare), "class is", "classes are")
        message = f"{what} in fewer than {FEW} images: {listed(rare)}"
        yield Finding(MaskFault.RARE, message, "add images: from so few the network learns little")
    empty = []
    for path, pixels in zip(paths, read.pixels, strict=True):
        # The first class, where there is one of that name, is the background.
        if (pixels > 0).sum() == 1 and pixels[0]:
            empty.append(path)
    if empty and read.classes[0] == BACKGROUND:
        message = f"{phrase_count(len(empty), 'mask has', 'masks have')} no object"
        advice = (
            "check that nothing is missing; half as many as those with objects are learnt from"
        )
        yield Finding(MaskFault.EMPTY, message, advice, tuple((path,) for path in empty))
    if read.outside:
        what = phrase_count(len(read.outside), "image has a polygon", "images have polygons")
        images = tuple((path,) for path in read.outside)
        yield Finding(MaskFault.OUTSIDE, f"{what} outside", "they were cut at the edge", images)
