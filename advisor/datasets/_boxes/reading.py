"""Open the images of a set with boxes, and put each box into the pixels of its upright image.

Other rooms read boxes by :meth:`BoxSurvey.read_images`; the boxes are a part of the data's
fingerprint.

Cameras store the pixels as the sensor has them, and say how to turn them. Models see the upright
image, and most annotation tools show it, so boxes are read as those of the upright image where
nothing tells otherwise. If a file states the size of the image, the size says what its tool worked
on: the stored width and height, or the upright ones. Some tools state the stored size and show the
upright image: then the edges of boxes contradict the size, as some are outside of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from advisor.core import UsageError
from advisor.datasets._boxes import HINT, list_boxes
from advisor.datasets._boxes.entries import Box, BoxEntry, BoxFault, BoxListing
from advisor.datasets._dataset import Rejected
from advisor.datasets._survey import Progress, Survey, choose_spellings, group_spellings
from advisor.store import sha256_json

Size = tuple[int, int]  # Width and height in pixels
# Pixels that a box may reach over the edge of its image without a word: some formats count from 1.
SLACK = 1.0
_TRANSPOSED = 5  # From this orientation on, width and height are exchanged

_MIRRORED = {
    2: (True, False),
    3: (True, True),
    4: (False, True),
    6: (True, False),
    7: (True, True),
    8: (False, True),
}
"""By orientation (EXIF 2.32, tag 0x0112):
True if the width, or height, runs against that of the stored image.
"""


@dataclass(frozen=True)
class Frame:
    """Size and orientation in which an image is stored."""

    stored: Size  # their width and height
    orientation: int = 1  # how they are turned upright, 1 (they are upright) to 8, as in EXIF

    @property
    def upright(self) -> Size:
        """Width and height of the upright image."""
        if self.orientation >= _TRANSPOSED:
            return (self.stored[1], self.stored[0])
        return self.stored

    def judge_by_size(self, entry: BoxEntry) -> bool | None:
        """Return whether the file states the stored size; False for the upright one, else None."""
        # A square image, or one that is not turned, has one size for both.
        if self.upright == self.stored or entry.size not in (self.stored, self.upright):
            return None
        return entry.size == self.stored

    def judge_by_edges(self, entry: BoxEntry) -> bool | None:
        """Return whether all boxes fit the stored image only; False for the upright one only.

        None if they fit both or neither.
        """
        fits_stored = _are_inside(entry.boxes, self.stored)
        fits_upright = _are_inside(entry.boxes, self.upright)
        return None if fits_stored == fits_upright else fits_stored

    def turn_upright(self, box: Box) -> Box:
        """Return a box of the stored image as a box of the upright one, in pixels."""
        width, height = self.upright
        left, top, right, bottom = box.edges
        # The axes are exchanged first, because the table
        # of what is mirrored has the axes of the upright image.
        if self.orientation >= _TRANSPOSED:
            left, top, right, bottom = top, left, bottom, right
        is_mirrored_across, is_mirrored_down = _MIRRORED.get(self.orientation, (False, False))
        # The far edge becomes the near one, so both change at once.
        if is_mirrored_across:
            left, right = width - right, width - left
        if is_mirrored_down:
            top, bottom = height - bottom, height - top
        return box.with_edges(left, top, right, bottom)


def _are_inside(boxes: Sequence[Box], size: Size) -> bool:
    """Return whether all boxes are inside an image, to one pixel."""
    width, height = size
    return all(box.right <= width + SLACK and box.bottom <= height + SLACK for box in boxes)


def are_drawn_as_stored(
    entries: Sequence[BoxEntry], frames: Sequence[Frame], relative: bool
) -> list[bool]:
    """Return for each image whether its boxes were drawn on the stored image, not the upright.

    Stated sizes tell it, unless the edges of more images contradict them than agree; then edges
    do. Images that do not tell follow the majority of those that do: one tool made the whole set.
    Edges that are shares (``relative``) do not tell.
    """
    answers_by_size = []
    answers_by_edges = []
    agree: Counter[bool] = Counter()
    for entry, frame in zip(entries, frames, strict=True):
        by_size = frame.judge_by_size(entry)
        by_edges = None if relative else frame.judge_by_edges(entry)
        answers_by_size.append(by_size)
        answers_by_edges.append(by_edges)
        if by_size is not None and by_edges is not None:
            agree[by_size == by_edges] += 1
    # A tool that states one size and draws on the other contradicts itself
    # in each image with a box near its edge.
    is_contradicted = agree[False] > agree[True]
    answers = []
    for by_size, by_edges in zip(answers_by_size, answers_by_edges, strict=True):
        verdict = by_edges if by_size is None or is_contradicted else by_size
        answers.append(verdict)
    votes = Counter(answers)
    majority = votes[True] > votes[False]
    return [majority if answer is None else answer for answer in answers]


@dataclass(frozen=True, eq=False)
class BoxSurvey:
    """A set of images with boxes."""

    images: Survey  # the images and their measures; all have one class
    classes: tuple[str, ...]  # names of the classes that have a box, sorted
    boxes: tuple[tuple[Box, ...], ...]  # for each image its boxes inside it
    # For each image those that reached over its edge, as written.
    outside: tuple[tuple[Box, ...], ...]
    sizes: tuple[Size, ...]  # width and height of each upright image
    faults: tuple[BoxFault, ...] = ()  # boxes that were left out
    unused: tuple[str, ...] = ()  # classes that the files name but that have no box
    # Of each class that is written in several ways (case, blanks).
    spellings: tuple[tuple[str, ...], ...] = ()
    turned: int = 0  # images whose boxes were turned from the stored orientation

    @classmethod
    def read_images(
        cls, path: Path, progress: Progress | None = None, most: int | None = None
    ) -> BoxSurvey:
        """Read a set of images with boxes in any format; faults of files or boxes are recorded.

        ``most`` as of :meth:`.Survey.read`. Raises UsageError if the path does not exist, no
        format fits, or no box can be used.
        """
        listing = list_boxes(path)
        relative = bool(listing.relative)
        by_path = {entry.path: entry for entry in listing.entries}
        images = Survey.read(listing.images, progress, most)
        # Before the boxes are placed: a resized image would have them at other things.
        images = images.without_images(list(_find_mismatched(by_path, images, relative)))
        entries = [by_path[image.path] for image in images.dataset.images]
        frames = _list_frames(images)
        as_stored = are_drawn_as_stored(entries, frames, relative)
        boxes = []
        outside = []
        faults = list(listing.faults)
        turned = 0
        for entry, frame, is_stored in zip(entries, frames, as_stored, strict=True):
            inside, over_edge, faults_of_image = _place_boxes(listing, entry, frame, is_stored)
            boxes.append(inside)
            outside.append(over_edge)
            faults += faults_of_image
            turned += is_stored and frame.orientation > 1
        read = cls(
            images,
            classes=(),
            boxes=tuple(boxes),
            outside=tuple(outside),
            sizes=tuple(frame.upright for frame in frames),
            faults=tuple(faults),
            turned=turned,
        )
        if not read.count:
            rejected = []
            for row in images.dataset.rejected:
                rejected.append(f"'{images.dataset.show_path(row.path)}': {row.reason}")
            reasons = [f"{fault.place}: {fault.reason}" for fault in faults] + rejected
            example = f"; {reasons[0]}" if reasons else ""
            raise UsageError(f"--data: '{path}' has no box that can be used{example}", HINT)
        return _name_classes(read, listing.classes)

    def keep_images(self, names: Collection[str]) -> BoxSurvey:
        """Return the survey with some images alone, by their paths within the data."""
        images, places = self.images.keep_images(names)
        boxes = tuple(self.boxes[place] for place in places)
        return replace(
            self,
            images=_mark_fingerprint(images, boxes),
            boxes=boxes,
            outside=tuple(self.outside[place] for place in places),
            sizes=tuple(self.sizes[place] for place in places),
        )

    @property
    def count(self) -> int:
        """Number of boxes."""
        return sum(map(len, self.boxes))

    @property
    def contents(self) -> tuple[Counter[str], ...]:
        """Number of boxes of each class, for each image."""
        return tuple(map(_count_labels, self.boxes))

    @property
    def boxes_per_class(self) -> Counter[str]:
        """Number of boxes of each class."""
        return _count_labels(chain.from_iterable(self.boxes))

    @property
    def images_per_class(self) -> Counter[str]:
        """Number of images with a box of each class."""
        # Iterating over the counter of an image gives each of its classes once.
        return Counter(chain.from_iterable(self.contents))

    @property
    def objects(self) -> tuple[tuple[tuple[int, float, float, float, float], ...], ...]:
        """Boxes of each image: index of the class, then top, left, bottom and right as shares."""
        place = {name: label for label, name in enumerate(self.classes)}
        rows = []
        for boxes, (width, height) in zip(self.boxes, self.sizes, strict=True):
            row = []
            for box in boxes:
                edges = box.top / height, box.left / width, box.bottom / height, box.right / width
                row.append((place[box.label], *edges))
            rows.append(tuple(row))
        return tuple(rows)

    @cached_property
    def index(self) -> Mapping[Path, int]:
        """The place of each image in the tuples."""
        return {image.path: place for place, image in enumerate(self.images.dataset.images)}


def _count_labels(boxes: Iterable[Box]) -> Counter[str]:
    return Counter(box.label for box in boxes)


def _list_frames(images: Survey) -> list[Frame]:
    sizes = zip(images.stats["width"].tolist(), images.stats["height"].tolist(), strict=True)
    return [Frame(size, shot.orientation) for size, shot in zip(sizes, images.shots, strict=True)]


def _find_mismatched(
    entries: Mapping[Path, BoxEntry], images: Survey, relative: bool
) -> Iterator[Rejected]:
    """Yield the images that were resized, and their boxes not: their file states another size."""
    for image, frame in zip(images.dataset.images, _list_frames(images), strict=True):
        size = entries[image.path].size
        if not relative and size not in (None, frame.stored, frame.upright):
            source = entries[image.path].source.name
            width, height = frame.upright
            stated = ""
            if size:
                stated = f"'{source}' is for {size[0]}x{size[1]} pixels"
            yield Rejected(image.path, f"{stated}, the image has {width}x{height}")


def _place_boxes(
    listing: BoxListing, entry: BoxEntry, frame: Frame, as_stored: bool
) -> tuple[tuple[Box, ...], tuple[Box, ...], list[BoxFault]]:
    """Return the boxes of an image inside it, those over its edge, and those left out."""
    drawn_on = frame.stored if as_stored else frame.upright
    inside = []
    outside = []
    faults = []
    for written in entry.boxes:
        # Shares count from the sides of the image that was drawn on,
        # so they become pixels before the box is turned.
        box = written.scale_to(*drawn_on) if listing.relative else written
        if as_stored:
            box = frame.turn_upright(box)
        part = box.clip_to(*frame.upright)
        if part.width <= 0 or part.height <= 0:
            faults.append(listing.make_fault(entry, box, "it is outside its image"))
            continue
        inside.append(part)
        if _measure_reach(box, part) > SLACK:
            outside.append(box)
    return tuple(inside), tuple(outside), faults


def _measure_reach(box: Box, part: Box) -> float:
    """Return how far a box reaches over the part of it that is inside its image, in pixels."""
    distances = np.abs(np.subtract(box.edges, part.edges))
    return float(distances.max())


def _name_classes(read: BoxSurvey, declared: Sequence[str]) -> BoxSurvey:
    """Give each class its most frequent spelling, and put the boxes into the fingerprint."""
    labels = [box.label for box in chain.from_iterable(read.boxes)]
    names = choose_spellings(labels, declared)
    classes = {names[label] for label in labels}

    def rename_boxes(boxes: tuple[Box, ...]) -> tuple[Box, ...]:
        return tuple(replace(box, label=names[box.label]) for box in boxes)

    boxes = tuple(map(rename_boxes, read.boxes))
    return replace(
        read,
        images=_mark_fingerprint(read.images, boxes),
        classes=tuple(sorted(classes)),
        boxes=boxes,
        outside=tuple(map(rename_boxes, read.outside)),
        unused=tuple(sorted(set(names.values()) - classes)),
        spellings=group_spellings({label: names[label] for label in set(labels)}),
    )


def _mark_fingerprint(images: Survey, boxes: Sequence[Sequence[Box]]) -> Survey:
    """Return images whose fingerprint has their boxes, with edges in hundredths of a pixel."""
    dataset = images.dataset
    # Two sets with the same images and other boxes are other data,
    # so the fingerprint has the boxes.
    rows = []
    for image, image_boxes in zip(dataset.images, boxes, strict=True):
        marks = []
        for box in image_boxes:
            hundredths = [round(100 * edge) for edge in box.edges]
            marks.append((box.label, *hundredths))
        rows.append((image.sha256, sorted(marks)))
    rows.sort()
    marked_dataset = replace(dataset, fingerprint=sha256_json(rows))
    return replace(images, dataset=marked_dataset)
