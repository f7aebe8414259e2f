"""Check a set of images with boxes: the findings, and the minimum for a search.

Object detection calls :func:`check_boxes` for ``advisor data check``, and :func:`write_boxes` for
``--fix``; ``_division.py`` calls :func:`require_usable_boxes` before it draws a split.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from advisor.core import UsageError, listed
from advisor.datasets._boxes.entries import Box
from advisor.datasets._boxes.reading import BoxSurvey
from advisor.datasets._boxes.table_forms import EDGES
from advisor.datasets._checks import (
    GOOD_CLASS,
    MAX_UNREADABLE_SHARE,
    MIN_IMAGES_PER_CLASS,
    report_repeats,
    report_spellings,
    report_unreadable,
    require_readable,
)
from advisor.datasets._checks.findings import (
    Finding,
    Kind,
    list_extra_columns,
    make_row,
    phrase_count,
    quote_small_classes,
    write_rows,
)
from advisor.datasets._checks.image_quality import (
    MEASURES_OF_ANY_PLACE,
    MODEL_SIDE,
    check_captures,
    report_sizes,
    round_values,
)
from advisor.datasets._duplicates import Pair
from advisor.datasets._parts import PARTS
from advisor.datasets._split import Split
from advisor.datasets._split_part import SplitPart

INPUTS = (128, 192, 224, 320)  # Sides of a model's square input in pixels
MAX_SMALL_SHARE = 0.1

# Pixels of the image itself: an annotator's slip of the mouse rather than an object.
TINY_SIDE = 3.0
SAME_IOU = 0.9  # Intersection over union from which two boxes are one
NAMED = 5  # Classes or reasons that a message names, at most
_BLOCK = 256


@dataclass(frozen=True)
class ObjectSizes:
    """Sides of the objects at one input. The side is the root of the area, as COCO measures sizes.

    Attributes:
        input: side of the input in pixels; the image fills it, as a classifier's does.
        low: 5 % quantile of the sides in pixels of the input.
        median: the median.
        high: 95 % quantile.
        small: share (0-1) of objects under :attr:`SMALL_SIDE`.
    """

    input: int
    low: float
    median: float
    high: float
    small: float

    # Pixels. The first map of a single-shot detector has one place for 8 to 16 pixels of its
    # input.
    SMALL_SIDE = 8.0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, with four decimals."""
        return round_values(asdict(self))

    @classmethod
    def measure_objects(cls, read: BoxSurvey) -> tuple[ObjectSizes, ...]:
        """Return the sizes of the objects at each of :data:`INPUTS`."""
        areas = []
        for (width, height), boxes in zip(read.sizes, read.boxes, strict=True):
            areas += [box.width * box.height / (width * height) for box in boxes]
        # As shares of the side of the image, which a model's input fills.
        sides = np.sqrt(np.array(areas))
        low, median, high = np.quantile(sides, (0.05, 0.5, 0.95)).tolist()
        sizes_at_inputs = []
        for side in INPUTS:
            is_small = side * sides < ObjectSizes.SMALL_SIDE
            sizes_at_inputs.append(
                cls(side, side * low, side * median, side * high, float(is_small.mean()))
            )
        return tuple(sizes_at_inputs)


def find_small_objects(sizes: Sequence[ObjectSizes]) -> Iterator[Finding]:
    """Yield a finding if many objects are small at the input that most models take."""
    usual = next(size for size in sizes if size.input == MODEL_SIDE)
    if usual.small <= MAX_SMALL_SHARE:
        return
    # The advice is a larger input, so the sentence says how much one would help.
    larger = [size for size in sizes if size.input > MODEL_SIDE]
    others = ", ".join(f"{100 * size.small:.0f} % at {size.input}" for size in larger)
    yield Finding(
        Kind.OBJECT_SIZE,
        f"{100 * usual.small:.0f} % of your objects are under {usual.SMALL_SIDE:.0f} pixels at"
        f" {MODEL_SIDE} ({others})",
        "choose a larger input, or cut the images into tiles",
    )


_Marked = dict[Path, tuple[Box, ...]]  # Images with the boxes concerned


def check_boxes(read: BoxSurvey, alike: Sequence[Pair]) -> tuple[Finding, ...]:
    """Return the findings about images with boxes; ``alike`` are pairs of similar images."""
    images = read.images
    return (
        *report_unreadable(images.dataset),
        *_report_unusable(read),
        *report_spellings(read.spellings),
        *_report_parts(read),
        *report_repeats(images.dataset, alike),
        *_check_marks(read),
        *_report_empty(read),
        *_report_classes(read),
        *find_small_objects(ObjectSizes.measure_objects(read)),
        *report_sizes(images),
        *check_captures(images, MEASURES_OF_ANY_PLACE),
    )


def _report_unusable(read: BoxSurvey) -> Iterator[Finding]:
    if read.faults:
        reasons = Counter(fault.reason for fault in read.faults).most_common(NAMED)
        counts = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
        yield Finding(
            Kind.UNUSABLE_BOXES,
            f"{phrase_count(len(read.faults), 'box was', 'boxes were')} left out: {counts}",
            "correct them where they are written; --fix writes the set without them",
            tuple((fault.path,) for fault in read.faults),
            tuple(f"{fault.place}: {fault.reason}" for fault in read.faults),
        )


def _check_marks(read: BoxSurvey) -> Iterator[Finding]:
    """Yield findings on boxes at the place of another one, beyond the edge, or tiny."""
    twice = _Marked()
    labels = _Marked()
    tiny = _Marked()
    for path, boxes in _list_boxes_by_image(read):
        repeats: set[int] = set()
        contradicting: set[int] = set()
        for first, second in find_same_places(boxes):
            # Of a repeated box the first is kept; of two labels, nobody knows which one is right.
            if boxes[first].label == boxes[second].label:
                repeats.add(second)
            else:
                contradicting |= {first, second}
        twice[path] = tuple(boxes[index] for index in sorted(repeats))
        labels[path] = tuple(boxes[index] for index in sorted(contradicting))
        tiny[path] = tuple(box for box in boxes if min(box.width, box.height) < TINY_SIDE)
    outside = {path: read.outside[index] for path, index in read.index.items()}
    small = f"under {TINY_SIDE:.0f} pixels a side"
    yield from _report_boxes(
        Kind.TWO_LABELS,
        labels,
        "has the place of a box of another class",
        "have the place of a box of another class",
        "keep the right label; only you know which",
    )
    yield from _report_boxes(
        Kind.REPEATED_BOXES,
        twice,
        "repeats another one",
        "repeat another one",
        "keep one of each",
        out=True,
    )
    yield from _report_boxes(
        Kind.OUTSIDE,
        outside,
        "reaches over the edge of its image",
        "reach over the edge of their image",
        "check these boxes, and that each file belongs to its image; the parts inside are used",
    )
    yield from _report_boxes(
        Kind.TINY, tiny, f"is {small}", f"are {small}", "draw them again or remove them", out=True
    )


def find_same_places(boxes: Sequence[Box]) -> list[tuple[int, int]]:
    """Return the pairs of boxes (first < second) that overlap by :data:`SAME_IOU` or more."""
    edges = np.array([box.edges for box in boxes]).reshape(-1, 4)
    areas = (edges[:, 2:] - edges[:, :2]).prod(axis=1)
    pairs = []
    # In blocks: an image may have 10,000 boxes, and all pairs at once would take gigabytes.
    for start in range(0, len(edges), _BLOCK):
        block = edges[start : start + _BLOCK, None]
        near_corner = np.maximum(block[..., :2], edges[None, :, :2])
        far_corner = np.minimum(block[..., 2:], edges[None, :, 2:])
        # Boxes that do not touch have a negative side, and two such sides would give an area.
        common = np.maximum(far_corner - near_corner, 0).prod(axis=-1)
        union = areas[start : start + _BLOCK, None] + areas[None] - common
        for row, second in np.argwhere(common >= SAME_IOU * union).tolist():
            first = start + row
            if first < second:
                pairs.append((first, second))
    return pairs


def _report_empty(read: BoxSurvey) -> Iterator[Finding]:
    paths = [path for path, boxes in _list_boxes_by_image(read) if not boxes]
    if paths:
        yield Finding(
            Kind.NO_BOXES,
            f"{phrase_count(len(paths), 'image has', 'images have')} no box",
            "keep them if they show no object: a model learns from them where nothing is;"
            " otherwise annotate them",
            tuple((path,) for path in paths),
        )


def _report_classes(read: BoxSurvey) -> Iterator[Finding]:
    boxes = read.boxes_per_class
    images = read.images_per_class
    few = [name for name in read.classes if boxes[name] < GOOD_CLASS]
    if few:
        counts = []
        for name in few:
            counts.append(f"'{name}' ({boxes[name]} in {phrase_count(images[name], 'image')})")
        yield Finding(
            Kind.SMALL_CLASS,
            f"fewer than {GOOD_CLASS} boxes of {listed(counts)}",
            f"annotate more of them; a search refuses classes in fewer than {MIN_IMAGES_PER_CLASS}"
            " images",
        )
    if read.unused:
        named = listed([f"'{name}'" for name in read.unused])
        yield Finding(
            Kind.SMALL_CLASS,
            f"no box of {named}, which the files name as a class",
            "a model does not learn it; annotate it, or remove its name",
        )


def _report_parts(read: BoxSurvey) -> Iterator[Finding]:
    """Yield findings on classes without a box in a part, and on images in no part of the split."""
    parts = read.images.dataset.own_parts
    for part in dict.fromkeys(filter(None, parts)):
        present: set[str] = set()
        for content, part_of_image in zip(read.contents, parts, strict=True):
            if part_of_image == part:
                present.update(content)
        missing = [f"'{name}'" for name in read.classes if name not in present]
        if missing:
            yield Finding(
                Kind.SPLIT,
                f"the {part} part has no box of {listed(missing)}",
                "put images of these classes into the part, or remove the split: one is drawn"
                " then",
            )
    loose = []
    for (path, _), stated in zip(_list_boxes_by_image(read), parts, strict=False):
        if stated is None:
            loose.append((path,))
    if loose:
        yield Finding(
            Kind.SPLIT,
            f"{phrase_count(len(loose), 'image is', 'images are')} in no part of your split",
            "they are divided between the parts; put each of them into one if that is wrong",
            tuple(loose),
        )


def _list_boxes_by_image(read: BoxSurvey) -> Iterator[tuple[Path, tuple[Box, ...]]]:
    for image, boxes in zip(read.images.dataset.images, read.boxes, strict=True):
        yield image.path, boxes


def _report_boxes(
    kind: Kind,
    by_path: _Marked,
    one: str,
    many: str,
    advice: str,
    out: bool = False,
) -> Iterator[Finding]:
    """Yield a finding on boxes, if there are any."""
    marked = {path: boxes for path, boxes in by_path.items() if boxes}
    total = sum(map(len, marked.values()))
    if total:
        notes = []
        for boxes in marked.values():
            places = []
            for box in boxes:
                places.append(
                    f"{box.label} {box.width:.0f}x{box.height:.0f} at {box.left:.0f},{box.top:.0f}"
                )
            notes.append(listed(places, most=2))
        yield Finding(
            kind,
            f"{phrase_count(total, f'box {one}', f'boxes {many}')}, in"
            f" {phrase_count(len(marked), 'image')}",
            advice,
            tuple((path,) for path in marked),
            tuple(notes),
            (),
            tuple(marked.values()),
            out,
        )


Counts = Mapping[str, Mapping[str, int]]  # Number of boxes of each class, by part of a split


def require_usable_boxes(read: BoxSurvey) -> None:
    """Check that a detector can be trained and scored on a set.

    Raises UsageError for labels that differ by case or blanks, a class in fewer than
    ``MIN_IMAGES_PER_CLASS`` images, or more than ``MAX_UNREADABLE_SHARE`` of the images or boxes
    left out.
    """
    require_readable(read.images.dataset, read.spellings)
    bad = len(read.faults)
    total = len(read.faults) + read.count
    if bad > MAX_UNREADABLE_SHARE * total:
        examples = "; ".join(f"{fault.place}: {fault.reason}" for fault in read.faults[:3])
        raise UsageError(
            f"--data: {bad:,} of {total:,} boxes cannot be used ({100 * bad / total:.0f} %, "
            f"the limit is {100 * MAX_UNREADABLE_SHARE:.0f} %): {examples}",
            "correct them; is the format what its rows say, in pixels or in shares of the image?",
        )
    images = read.images_per_class
    rare = quote_small_classes(
        [(name, images[name]) for name in read.classes], MIN_IMAGES_PER_CLASS
    )
    if rare:
        raise UsageError(
            f"--data: fewer than {MIN_IMAGES_PER_CLASS} images with a box of {listed(rare)}",
            f"annotate more (at least {MIN_IMAGES_PER_CLASS} images a class, better 50), or remove"
            " the class",
        )


def count_boxes_in_parts(read: BoxSurvey, split: Split) -> Counts:
    """Return the number of boxes of each class in each part.

    Raises UsageError if a part has no box, or the training part lacks a class.
    """
    counts = {}
    for part in PARTS:
        indices: tuple[int, ...] = getattr(split, part)
        boxes_of_part = chain.from_iterable(read.boxes[index] for index in indices)
        boxes_by_class = Counter(box.label for box in boxes_of_part)
        counts[part] = {name: boxes_by_class[name] for name in read.classes}
        if not boxes_by_class:
            raise UsageError(
                f"--data: the {part} part has {phrase_count(len(indices), 'image')}, but no box",
                "put annotated images into it",
            )
    missing = []
    for name, count in counts[SplitPart.TRAIN].items():
        if not count:
            missing.append(f"'{name}'")
    if missing:
        raise UsageError(
            f"--data: the training part has no box of {listed(missing)}",
            "put some of their images there; if there is only one group of them, name more groups",
        )
    return counts


def name_lacking_classes(counts: Counts) -> tuple[str, ...]:
    """Return a sentence about each part that lacks classes."""
    sentences = []
    for part, counts_of_part in counts.items():
        missing = [name for name, count in counts_of_part.items() if not count]
        if missing:
            sentences.append(
                f"The {part} part has no box of {listed(missing)}: no average precision there."
            )
    return tuple(sentences)


def write_boxes(path: Path, read: BoxSurvey, findings: Sequence[Finding]) -> int:
    """Write a row for each box that the findings do not leave out; an empty one for no box.

    Edges are in pixels of the upright image, with two decimals at most. Returns the number of
    images; errors as of :func:`.findings.write_rows`.
    """
    images_out = set(chain.from_iterable(finding.leave_out for finding in findings))
    out: dict[Path, Counter[Box]] = defaultdict(Counter)
    for finding in findings:
        if finding.leave_out_marked:
            for (place,), boxes in zip(finding.groups, finding.marked, strict=True):
                out[place] |= Counter(boxes)  # of equal boxes, as many as one finding names
    dataset = read.images.dataset
    rows: list[dict[str, str]] = []
    count = 0
    for image, boxes in zip(dataset.images, read.boxes, strict=True):
        if image.path in images_out:
            continue
        count += 1
        row = make_row(path, image)
        # A counter and not a set: of three equal boxes, two may be left out.
        remaining = list((Counter(boxes) - out[image.path]).elements())
        for box in remaining:
            edges = dict(zip(EDGES, map(_write_edge, box.edges), strict=True))
            rows.append(row | {"label": box.label} | edges)
        # An image without a box stays in the set, so it needs a row:
        # a model learns from it where nothing is.
        if not remaining:
            rows.append(row)
    write_rows(path, ["path", "label", *EDGES, *list_extra_columns(dataset)], rows)
    return count


def _write_edge(edge: float) -> str:
    return f"{edge:.2f}".rstrip("0").rstrip(".")
