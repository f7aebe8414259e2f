"""Boxes as SVG paths that lie over a thumbnail: the picture element and the drawing are scaled alike."""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from advisor.core.box_facts import JudgedBox, JudgedImage
from advisor.core.confidence_facts import Mistake
from advisor.core.errors import StageError
from advisor.core.posterior import FLOAT
from advisor.core.units import plural
from advisor.datasets.boxes import Box
from advisor.datasets.images import READ_ERRORS, open_image, quiet, read_bytes
from advisor.engine.history.disagreements import Disagreements

QUALITIES = (72, 40, 20, 5)
"""JPEG qualities. A thumbnail has the first one that makes it small enough."""

BYTES_PER_PIXEL = 0.3
"""Largest size of a thumbnail in bytes, over the square of its longer side. Most photographs need half of it."""


def data_uri(source: Path | BytesIO, side: int) -> str:
    """Return an image as a JPEG inside a ``data:`` address, its longer side ``side`` pixels; empty if it is unreadable.

    The file is decoded and encoded again, so only its pixels reach the page.
    """
    from PIL import Image, ImageOps

    try:
        with quiet(), open_image(source) as image:
            image.draft("RGB", (2 * side, 2 * side))
            small = ImageOps.exif_transpose(image.convert("RGBA" if image.mode in {"P", "LA", "PA"} else "RGB"))
            small.thumbnail((side, side), Image.Resampling.BILINEAR)
            small = small.convert("RGB")
            for quality in QUALITIES:
                stored = BytesIO()
                small.save(stored, "JPEG", quality=quality)
                if stored.tell() <= BYTES_PER_PIXEL * side**2:
                    break
    except (*READ_ERRORS, StageError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(stored.getvalue()).decode()}"


DRAWN = 400
"""Boxes drawn in one image, at most."""

COLOURS = 8
"""Classes with a colour of their own; further ones share them."""


@dataclass(frozen=True)
class Outline:
    """Boxes of one look: the class of the style sheet, and the SVG path of their edges."""

    name: str
    path: str


def outlines(boxes: Sequence[Box], marked: Sequence[Box], colours: Mapping[str, int]) -> tuple[Outline, ...]:
    """Return the outlines of an image: one for each class by its number, and one for the boxes of a finding."""
    by_colour: dict[int, list[Box]] = {}
    for box in boxes[:DRAWN]:
        by_colour.setdefault(colours[box.label] % COLOURS, []).append(box)
    found = [Outline(f"c{number}", _path(some)) for number, some in sorted(by_colour.items())]
    return (*found, *([Outline("marked", _path(marked[:DRAWN]))] if marked else []))


def _path(boxes: Iterable[Box]) -> str:
    return "".join(f"M{box.left:.1f} {box.top:.1f}h{box.width:.1f}v{box.height:.1f}h{-box.width:.1f}z" for box in boxes)


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
    "seen": "true box, found", "missed": "true box, missed", "right": "found, right", "wrong": "found, wrong",
}  # fmt: skip
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
    """One image as the template shows it: its path relative to the data set, and its ``data:`` address.

    The latter is empty if the file is gone or has changed, or is left out. ``result`` is the class and a wrong answer,
    or how many boxes were found, missed and wrong, in words; ``answers`` are those of two files. Width and height are
    in pixels of the upright image, 1 if it has no boxes.
    """

    name: str
    image: str
    result: str
    answers: tuple[str, ...] = ()
    width: int = 1
    height: int = 1
    boxes: tuple[DrawnBox, ...] = ()
    f1: float | None = None


def photos(images: Sequence[JudgedImage], root: Path | None, labels: Sequence[str]) -> list[Photo]:
    """Return images with their boxes.

    Their paths count from ``root``, which is None to leave out their pixels; ``labels`` are the names of the classes.
    """
    return [_photo(image, root, labels) for image in images]


def wrong_photos(mistakes: Sequence[Mistake], root: Path | None, labels: Sequence[str]) -> list[Photo]:
    """Return images with wrong answers; arguments as of :func:`photos`."""
    return [
        Photo(
            one.path,
            _data_uri(root, one.path, one.sha256, SMALL_SIDE),
            f"{_label(one.label, labels)} taken for {_label(one.answer, labels)}, {100 * one.probability:.0f} %",
        )
        for one in mistakes
    ]


def changed_photos(found: Disagreements, root: Path | None, labels: Sequence[str]) -> list[Photo]:
    """Return the first :data:`CHANGED_SHOWN` images with two answers; arguments as of :func:`photos`."""
    shown = []
    for one in found.rows[:CHANGED_SHOWN]:
        answers = []
        for file, given, right in zip((found.form, FLOAT), (one.own, one.floats), one.right, strict=True):
            sure = "" if given.probability is None else f", {100 * given.probability:.0f} %"
            answers.append(f"{file}: {_label(given.label, labels)}{sure} {RIGHT if right else WRONG}")
        image = _data_uri(root, one.path, one.sha256, SMALL_SIDE)
        shown.append(Photo(one.path, image, _label(one.label, labels), tuple(answers)))
    return shown


def _photo(image: JudgedImage, root: Path | None, labels: Sequence[str]) -> Photo:
    missed, wrong = ([box for box in boxes if not box.matched] for boxes in (image.true, image.found))
    result = [f"{len(image.true) - len(missed)} of {plural(len(image.true), 'true box', 'true boxes')} found"]
    for said, some in (("missed", missed), ("wrong", wrong)):
        counts = Counter(_label(box.label, labels) for box in some)
        if some:
            result.append(f"{said}: {', '.join(f'{count} {name}' for name, count in counts.most_common())}")
    true = [_drawn(image, box, "seen" if box.matched else "missed", labels) for box in image.true[:DRAWN]]
    answered = [_drawn(image, box, "right" if box.matched else "wrong", labels) for box in image.found[:DRAWN]]
    return Photo(
        name=image.path,
        image=_data_uri(root, image.path, image.sha256),
        result="; ".join(result),
        width=image.width,
        height=image.height,
        boxes=(*true, *answered),
        f1=image.f1,
    )


def _label(label: int, labels: Sequence[str]) -> str:
    return labels[label] if 0 <= label < len(labels) else f"class {label}"


def _drawn(image: JudgedImage, box: JudgedBox, look: str, labels: Sequence[str]) -> DrawnBox:
    left, top = box.left * image.width, box.top * image.height
    width, height = box.right * image.width - left, box.bottom * image.height - top
    if width <= 0 and height <= 0:
        width = height = MARK * min(image.width, image.height)
        left, top = left - width / 2, top - height / 2
    score = f", score {box.score:.2f}" if look in ("right", "wrong") else ""
    title = f"{_label(box.label, labels)}: {LOOKS[look]}{score}"
    return DrawnBox(look, left, top, max(width, 0.0), max(height, 0.0), title)


def _data_uri(root: Path | None, path: str, sha256: str, side: int = SIDE) -> str:
    """Return the image as a ``data:`` address; empty without a root, or if the file is gone or has changed."""
    if root is None:
        return ""
    try:
        data, _ = read_bytes(root / path)
    except READ_ERRORS:
        return ""
    return data_uri(BytesIO(data), side) if hashlib.sha256(data).hexdigest() == sha256 else ""
