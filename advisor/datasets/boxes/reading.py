"""Open the images of a set with boxes, and put each box into the pixels of its upright image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.datasets.boxes import HINT, list_boxes
from advisor.datasets.boxes.turning import Frame, Size, drawn_as_stored
from advisor.datasets.boxes.values import Box, BoxEntry, BoxFault, BoxListing
from advisor.datasets.dataset import Rejected
from advisor.datasets.survey import Progress, Survey, canonical, survey, variants
from advisor.store.files import sha256_json

SLACK = 1.0
"""Pixels that a box may reach over the edge of its image without a word: some formats count from 1."""


@dataclass(frozen=True, eq=False)
class BoxSurvey:
    """A set of images with boxes.

    Attributes:
        images: the images and their measures; all have one class.
        classes: names of the classes that have a box, sorted.
        boxes: for each image its boxes inside it.
        outside: for each image those that reached over its edge, as written.
        sizes: width and height of each upright image.
        faults: boxes that were left out.
        unused: classes that the files name but that have no box.
        spellings: the spellings of each class that is written in several ways (case, blanks).
        turned: images whose boxes were turned from the stored orientation.
    """

    images: Survey
    classes: tuple[str, ...]
    boxes: tuple[tuple[Box, ...], ...]
    outside: tuple[tuple[Box, ...], ...]
    sizes: tuple[Size, ...]
    faults: tuple[BoxFault, ...] = ()
    unused: tuple[str, ...] = ()
    spellings: tuple[tuple[str, ...], ...] = ()
    turned: int = 0

    @property
    def count(self) -> int:
        """Number of boxes."""
        return sum(map(len, self.boxes))

    @property
    def contents(self) -> tuple[Counter[str], ...]:
        """Number of boxes of each class, for each image."""
        return tuple(Counter(box.label for box in boxes) for boxes in self.boxes)

    @property
    def boxes_per_class(self) -> Counter[str]:
        """Number of boxes of each class."""
        return Counter(box.label for boxes in self.boxes for box in boxes)

    @property
    def images_per_class(self) -> Counter[str]:
        """Number of images with a box of each class."""
        return Counter(label for content in self.contents for label in content)

    @property
    def objects(self) -> tuple[tuple[tuple[int, float, float, float, float], ...], ...]:
        """Boxes of each image: index of the class, then top, left, bottom and right in shares of the image."""
        place = {name: label for label, name in enumerate(self.classes)}
        return tuple(
            tuple((place[box.label], box.top / h, box.left / w, box.bottom / h, box.right / w) for box in boxes)
            for boxes, (w, h) in zip(self.boxes, self.sizes, strict=True)
        )

    @property
    def index(self) -> Mapping[Path, int]:
        """The place of each image in the tuples."""
        return {image.path: place for place, image in enumerate(self.images.dataset.images)}


def survey_boxes(path: Path, progress: Progress | None = None) -> BoxSurvey:
    """Read a set of images with boxes in any format; faults of single files or boxes are recorded, not raised.

    Args:
        path: a folder or a file, see :func:`advisor.datasets.boxes.list_boxes`.
        progress: called with (files done, files listed).

    Raises:
        UsageError: the path does not exist, no format fits, or no box can be used.
    """
    listing = list_boxes(path)
    relative = bool(listing.relative)
    by_path = {entry.path: entry for entry in listing.entries}
    images = survey(listing.images, progress)
    images = images.without(list(_mismatched(by_path, images, relative)))
    entries, frames = [by_path[image.path] for image in images.dataset.images], _frames(images)
    as_stored = drawn_as_stored(entries, frames, relative)
    placed = [_place(listing, *one) for one in zip(entries, frames, as_stored, strict=True)]
    read = BoxSurvey(
        images,
        classes=(),
        boxes=tuple(boxes for boxes, _, _ in placed),
        outside=tuple(outside for _, outside, _ in placed),
        sizes=tuple(frame.upright for frame in frames),
        faults=(*listing.faults, *(fault for _, _, faults in placed for fault in faults)),
        turned=sum(turn and frame.orientation > 1 for turn, frame in zip(as_stored, frames, strict=True)),
    )
    if not read.count:
        raise UsageError(f"--data: '{path}' has no box that can be used{_example(read)}", HINT)
    return _fingerprinted(_labelled(read, listing.classes))


def _frames(images: Survey) -> list[Frame]:
    sizes = zip(images.stats["width"].tolist(), images.stats["height"].tolist(), strict=True)
    return [Frame(size, shot.orientation) for size, shot in zip(sizes, images.shots, strict=True)]


def _mismatched(entries: Mapping[Path, BoxEntry], images: Survey, relative: bool) -> Iterator[Rejected]:
    """Yield the images of another size than their file states: they were resized, and their boxes were not."""
    for image, frame in zip(images.dataset.images, _frames(images), strict=True):
        size = entries[image.path].size
        if not relative and size not in (None, frame.stored, frame.upright):
            source, (width, height) = entries[image.path].source.name, frame.upright
            said = f"'{source}' is for {size[0]}x{size[1]} pixels" if size else ""
            yield Rejected(image.path, f"{said}, the image has {width}x{height}")


def _place(
    listing: BoxListing, entry: BoxEntry, frame: Frame, as_stored: bool
) -> tuple[tuple[Box, ...], tuple[Box, ...], list[BoxFault]]:
    """Return the boxes of an image inside it, those that reached over its edge, and those that are left out."""
    drawn_on = frame.stored if as_stored else frame.upright
    boxes = [box.scaled(*drawn_on) for box in entry.boxes] if listing.relative else entry.boxes
    inside, outside, faults = [], [], []
    for box in map(frame.turned, boxes) if as_stored else boxes:
        part = box.clipped(*frame.upright)
        if part.width <= 0 or part.height <= 0:
            faults.append(listing.fault(entry, box, "it is outside its image"))
            continue
        inside.append(part)
        if max(abs(edge - kept) for edge, kept in zip(box.edges, part.edges, strict=True)) > SLACK:
            outside.append(box)
    return tuple(inside), tuple(outside), faults


def _labelled(read: BoxSurvey, declared: Sequence[str]) -> BoxSurvey:
    """Give each class one name, the most frequent of its spellings."""
    labels = [box.label for boxes in read.boxes for box in boxes]
    names = canonical(labels, declared)
    classes = {names[label] for label in labels}

    def named(all_boxes: tuple[tuple[Box, ...], ...]) -> tuple[tuple[Box, ...], ...]:
        return tuple(tuple(replace(box, label=names[box.label]) for box in boxes) for boxes in all_boxes)

    return replace(
        read,
        classes=tuple(sorted(classes)),
        boxes=named(read.boxes),
        outside=named(read.outside),
        unused=tuple(sorted(set(names.values()) - classes)),
        spellings=variants({label: names[label] for label in set(labels)}),
    )


def _fingerprinted(read: BoxSurvey) -> BoxSurvey:
    """Put the boxes into the fingerprint of the images, in hundredths of a pixel."""
    dataset = read.images.dataset
    rows = sorted(
        (image.sha256, sorted((box.label, *(round(100 * edge) for edge in box.edges)) for box in boxes))
        for image, boxes in zip(dataset.images, read.boxes, strict=True)
    )
    return replace(read, images=replace(read.images, dataset=replace(dataset, fingerprint=sha256_json(rows))))


def _example(read: BoxSurvey) -> str:
    """Return the first reason why something was left out."""
    reasons = [f"{fault.place}: {fault.reason}" for fault in read.faults[:1]]
    reasons += [f"'{read.images.dataset.shown(row.path)}': {row.reason}" for row in read.images.dataset.rejected[:1]]
    return f"; {reasons[0]}" if reasons else ""
