"""Images that tell about the pick, as the page shows them: wrong answers, changed answers, boxes of a detector."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from advisor.core.box_facts import JudgedBox, JudgedImage
from advisor.core.confidence_facts import Mistake
from advisor.core.posterior import FLOAT
from advisor.core.units import plural
from advisor.datasets.decode import READ_ERRORS, read_bytes
from advisor.engine.history.disagreements import Disagreements
from advisor.reporting.outlines import DRAWN
from advisor.reporting.thumbnails import data_uri

SIDE = 320
"""Longer side of an image in pixels. Ten photographs then add about 200 kB to the page."""

SMALL_SIDE = 160
"""The same for the images with wrong or changed answers, of which there are more."""

CHANGED_SHOWN = 24
"""Images on which the pick and its float32 file disagree."""

RIGHT, WRONG = "\u2713", "\u2717"

MARK = 0.045
"""Side of the square that marks a centre, over the shorter side of the image."""

LOOKS = {
    "seen": "true box, found",
    "missed": "true box, missed",
    "right": "found, right",
    "wrong": "found, wrong",
}
"""Classes of the style sheet and their meanings."""


@dataclass(frozen=True)
class DrawnBox:
    """A rectangle in pixels of the image: its class of the style sheet, its edges, and its class and score in words."""

    look: str
    left: float
    top: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Photo:
    """One image as the template shows it.

    Attributes:
        name: path relative to the data set.
        image: its ``data:`` address; empty if the file is gone or has changed, or is left out.
        width: of the upright image, in pixels.
        height: in pixels.
        boxes: true and found ones.
        f1: its F1.
        result: how many true boxes were found, what was missed and what is wrong, in words.
    """

    name: str
    image: str
    width: int
    height: int
    boxes: tuple[DrawnBox, ...]
    f1: float
    result: str


def photos(images: Sequence[JudgedImage], root: Path | None, labels: Sequence[str]) -> list[Photo]:
    """Return images with their boxes.

    Args:
        images: the images.
        root: the folder that their paths count from; None to leave out their pixels.
        labels: names of the classes.
    """
    return [_photo(image, root, labels) for image in images]


@dataclass(frozen=True)
class AnsweredPhoto:
    """One image with answers as the template shows it.

    Attributes:
        name: path relative to the data set.
        image: its ``data:`` address as of :class:`Photo`.
        result: its class, and a wrong answer, in words.
        answers: of two files, in words.
    """

    name: str
    image: str
    result: str
    answers: tuple[str, ...] = ()


def wrong_photos(mistakes: Sequence[Mistake], root: Path | None, labels: Sequence[str]) -> list[AnsweredPhoto]:
    """Return images with wrong answers; arguments as of :func:`photos`."""
    return [
        AnsweredPhoto(
            one.path,
            _data_uri(root, one.path, one.sha256, SMALL_SIDE),
            f"{_label(one.label, labels)} taken for {_label(one.answer, labels)}, {_percent(one.probability)}",
        )
        for one in mistakes
    ]


def changed_photos(found: Disagreements, root: Path | None, labels: Sequence[str]) -> list[AnsweredPhoto]:
    """Return the first :data:`CHANGED_SHOWN` images with two answers; arguments as of :func:`photos`."""
    return [
        AnsweredPhoto(
            one.path,
            _data_uri(root, one.path, one.sha256, SMALL_SIDE),
            _label(one.label, labels),
            tuple(
                f"{file}: {_label(given.label, labels)}"
                f"{'' if given.probability is None else f', {_percent(given.probability)}'} {RIGHT if right else WRONG}"
                for file, given, right in zip((found.form, FLOAT), (one.own, one.floats), one.right, strict=True)
            ),
        )
        for one in found.rows[:CHANGED_SHOWN]
    ]


def _percent(probability: float) -> str:
    return f"{100 * probability:.0f} %"


def _photo(image: JudgedImage, root: Path | None, labels: Sequence[str]) -> Photo:
    missed, wrong = ([box for box in boxes if not box.matched] for boxes in (image.true, image.found))
    named = [f"{said}: {_counted(some, labels)}" for said, some in (("missed", missed), ("wrong", wrong)) if some]
    found = f"{len(image.true) - len(missed)} of {plural(len(image.true), 'true box', 'true boxes')} found"
    true = [_drawn(image, box, "seen" if box.matched else "missed", labels) for box in image.true[:DRAWN]]
    answered = [_drawn(image, box, "right" if box.matched else "wrong", labels) for box in image.found[:DRAWN]]
    return Photo(
        name=image.path,
        image=_data_uri(root, image.path, image.sha256),
        width=image.width,
        height=image.height,
        boxes=(*true, *answered),
        f1=image.f1,
        result="; ".join((found, *named)),
    )


def _counted(boxes: Sequence[JudgedBox], labels: Sequence[str]) -> str:
    found = Counter(_name(box, labels) for box in boxes)
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def _name(box: JudgedBox, labels: Sequence[str]) -> str:
    return _label(box.label, labels)


def _label(label: int, labels: Sequence[str]) -> str:
    return labels[label] if 0 <= label < len(labels) else f"class {label}"


def _drawn(image: JudgedImage, box: JudgedBox, look: str, labels: Sequence[str]) -> DrawnBox:
    left, top = box.left * image.width, box.top * image.height
    width, height = box.right * image.width - left, box.bottom * image.height - top
    if width <= 0 and height <= 0:
        width = height = MARK * min(image.width, image.height)
        left, top = left - width / 2, top - height / 2
    score = f", score {box.score:.2f}" if look in ("right", "wrong") else ""
    return DrawnBox(look, left, top, max(width, 0.0), max(height, 0.0), f"{_name(box, labels)}: {LOOKS[look]}{score}")


def _data_uri(root: Path | None, path: str, sha256: str, side: int = SIDE) -> str:
    """Return the image as a ``data:`` address; empty without a root, or if the file is gone or has changed."""
    if root is None:
        return ""
    try:
        data, _ = read_bytes(root / path)
    except READ_ERRORS:
        return ""
    return data_uri(BytesIO(data), side) if hashlib.sha256(data).hexdigest() == sha256 else ""
