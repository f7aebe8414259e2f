"""Tools for all pages: escaping templates, style sheets, scripts, a content policy, and images.

The report, the profile, the contact sheet and the pages of ``serve`` are made with them. Every
value in a template is escaped unless :func:`trust_content` says otherwise.

A page that is a file loads nothing. Its policy (:func:`content_policy`) allows only the scripts
whose hashes it names. Both must stay: such a page shows names and images that are not trusted.
The pages of ``serve`` load scripts and styles from their server, whose policy is ``POLICY`` of
``cli/_server.py``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from advisor.core import (
    FLOAT,
    JudgedBox,
    JudgedImage,
    Mistake,
    OverlaidImage,
    Quantity,
    require_extra,
)
from advisor.datasets import Box, read_thumbnail
from advisor.reporting import _text as text
from advisor.reporting._blocks import Block
from advisor.reporting._run_rows import figures

if TYPE_CHECKING:
    from advisor.engine import Disagreements


_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

DRAWN = 400
"""Boxes drawn in one image, at most."""

COLOURS = 8
"""Classes with a colour of their own; further ones share them."""

SIDE = 320
"""Longer side of an image in pixels. Ten photographs then add about 200 kB to the page."""

SMALL_SIDE = 160
"""The same for the images with wrong or changed answers, of which there are more."""

CHANGED_SHOWN = 24
"""Images on which the pick and its float32 file disagree."""

RIGHT = "\u2713"
WRONG = "\u2717"

NOTHING = "nothing"

MISSED = "missed: "
WRONG_ONES = "wrong: "
"""Marks before the names of classes in the result of an image."""

TRUE = "truth"

MARK = 0.045
"""Side of the square that marks a centre, over the shorter side of the image."""

PACKING = 6
"""Level of gzip of texts in a page: 0.2 % larger than at level 9, in three quarters of the
time.
"""

LOOKS = {
    "seen": "true box, found",
    "missed": "true box, missed",
    "right": "found, right",
    "wrong": "found, wrong",
}
"""Classes of the style sheet and their meanings."""


def render_page(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    packed_scripts: Sequence[str] = (),
    **values: object,
) -> str:
    """Return a page that loads nothing,
    from the names of its style sheets and the scripts that it contains.

    These may unpack and run the ``packed_scripts``. The ``values`` are variables of the template.
    """
    return render(
        template,
        style=trust_content("".join(map(asset, styles))),
        scripts=list(map(trust_content, scripts)),
        policy=content_policy((*scripts, *packed_scripts)),
        **values,
    )


def render(template: str, **values: object) -> Markup:
    """Return a template with its variables: values are escaped, a missing one is an error."""
    return trust_content(environment().get_template(f"{template}.html.j2").render(**values))


def draw(blocks: Iterable[Block]) -> Markup:
    """Return blocks as HTML."""
    return render("blocks", blocks=list(blocks))


@cache
def environment(package: str = "advisor.reporting") -> Environment:
    """Return the escaping environment for the templates of a package."""
    loader = PackageLoader(package)
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=text.keep_units,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "text": text,
        "colours": COLOURS,
        "drawn": DRAWN,
        "pick_figures": figures,
    }
    environment.filters |= {"cell": cell, "figure": text.figure, "keep_options": keep_options}
    # Other packages have templates of their own, and none of blocks.
    if package == __package__:
        macros = environment.get_template("blocks.html.j2").module
        environment.globals |= {
            name: getattr(macros, name) for name in ("draw", "photos", "picture", "table", "words")
        }
    return environment


def keep_options(value: object) -> object:
    """Return the text of an element in which no name of an option breaks at its hyphens.

    A hyphen that does not break would be copied into the shell, so the style keeps the name.
    """
    if type(value) is not str:
        return value
    escaped = str(escape(text.keep_units(value)))
    return trust_content(text.OPTION.sub(r'<span class="option">\g<0></span>', escaped))


def cell(quantity: Quantity | None, shown: str, ends: str = "") -> Markup:
    """Return a table cell with a figure,
    its interval and provenance (a function, because there are thousands).
    """
    if quantity is None:
        return Markup('<td class="n none">') + shown
    title = quantity.source
    if quantity.n:
        title += f", n = {quantity.n}"
    template = Markup('<td class="n" title="{}">{}<small>{} {}</small>')
    return template.format(title, shown, ends, quantity.provenance.value)


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return (files("advisor.reporting") / "assets" / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Return plotly.js: a wheel holds it (``tools/wheel_files.py``),
    a checkout has the package plotly.
    """
    shipped = files("advisor") / "_data" / "plotly.min.js"
    if shipped.is_file():
        return shipped.read_text(encoding="utf-8")
    require_extra(
        "plotly", "build", "a checkout takes plotly.js from plotly, which is not installed"
    )
    script = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
    return Path(str(script)).read_text(encoding="utf-8")


def trust_content(content: str) -> Markup:
    """Mark content that needs no escaping:
    our own files, plotly, rendered templates, JSON made for scripts.
    """
    return Markup(content)  # noqa: S704


def json_for_script(value: object) -> str:
    """Return JSON that cannot end its script element, whatever the strings contain."""
    return json.dumps(
        text.finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    ).translate(_SCRIPT)


@lru_cache(maxsize=2)  # the drawing library, and one report
def pack_text(content: str) -> Markup:
    """Return text as base64 of gzip, always the same for the same text;
    the page's script unpacks it.
    """
    return trust_content(
        base64.b64encode(gzip.compress(content.encode(), PACKING, mtime=0)).decode()
    )


def content_policy(
    scripts: Sequence[str], sources: Sequence[str] = (), directives: Sequence[str] = ()
) -> str:
    """Return a content security policy: only these scripts run, and nothing is loaded.

    ``sources`` are further places of scripts, and ``directives`` further rules.
    """
    hashes = [f"'sha256-{_hash_script(script)}'" for script in scripts]
    allowed = " ".join([*sources, *hashes]) or "'none'"
    rules = (
        "default-src 'none'",
        f"script-src {allowed}",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
    )
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'", *directives])


@lru_cache(maxsize=8)  # the scripts of a page, which are the same in every report
def _hash_script(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def data_uri(path: Path, side: int, sha256: str = "") -> str:
    """Return an image as a JPEG inside a ``data:`` address, its longer side ``side`` pixels;
    empty if it is unreadable.

    Empty, too, if the image has another hash than ``sha256``.
    """
    thumbnail = read_thumbnail(path, side, sha256)
    if thumbnail:
        return f"data:image/jpeg;base64,{base64.b64encode(thumbnail).decode()}"
    return ""


@dataclass(frozen=True)
class Outline:
    """Boxes of one look: the class of the style sheet, and the SVG path of their edges."""

    name: str
    path: str


def outlines(
    boxes: Sequence[Box], marked: Sequence[Box], colours: Mapping[str, int]
) -> tuple[Outline, ...]:
    """Return the outlines of an image:
    one for each class by its number, and one for the boxes of a finding.
    """
    by_colour: dict[int, list[Box]] = {}
    for box in boxes[:DRAWN]:
        by_colour.setdefault(colours[box.label] % COLOURS, []).append(box)
    drawn = []
    for number, some in sorted(by_colour.items()):
        drawn.append(Outline(f"c{number}", _draw_path(some)))
    # The last one lies above the others.
    if marked:
        drawn.append(Outline("marked", _draw_path(marked[:DRAWN])))
    return tuple(drawn)


def _draw_path(boxes: Iterable[Box]) -> str:
    """Return the outlines of boxes as the path of an SVG."""
    outlines = []
    for box in boxes:
        corner = f"M{box.left:.1f} {box.top:.1f}"
        outlines.append(f"{corner}h{box.width:.1f}v{box.height:.1f}h{-box.width:.1f}z")
    return "".join(outlines)


@dataclass(frozen=True)
class DrawnBox:
    """A rectangle in pixels of the image:
    its class of the style sheet, its edges, and its class and score in words.
    """

    look: str
    left: float
    top: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Photo:
    """One image as the template shows it:
    its path relative to the data set, and its ``data:`` address.

    The latter is empty if the file is gone or has changed, or is left out. ``result`` is the class
    and a wrong answer, or how many boxes were found, missed and wrong, in words; ``answers`` are
    those of two files. Width and height are in pixels of the upright image, 1 if it has no boxes.
    ``layers`` are addresses of images to lay over it. ``first`` begins a row. ``label`` and
    ``answer`` are the classes of a wrong answer alone, or the most frequent class of missed and of
    wrong boxes.
    """

    name: str
    image: str
    result: str
    answers: tuple[str, ...] = ()
    width: int = 1
    height: int = 1
    boxes: tuple[DrawnBox, ...] = ()
    f1: float | None = None
    layers: tuple[str, ...] = ()
    first: bool = False
    label: str = ""
    answer: str = ""

    @property
    def short(self) -> str:
        """The result in a few words, for a row of six images:
        what is found and the figure are left out.
        """
        if self.label or self.answer:
            return f"{self.label or NOTHING} → {self.answer or NOTHING}"
        missed = _first_of(self.result, MISSED)
        wrong = _first_of(self.result, WRONG_ONES)
        if missed or wrong:
            return f"{missed or NOTHING} → {wrong or NOTHING}"
        words = self.result.replace(" taken for ", " → ")
        for rest in ("; found: ", "; mean IoU ", ", score "):
            words = words.split(rest)[0]
        return words


def _first_of(result: str, mark: str) -> str:
    """Return the first name behind a mark in the result of an image; empty without the mark."""
    _, _, names = result.partition(mark)
    first, _, _ = names.partition("; ")[0].partition(", ")
    return text.shorten_name(first)


def photos(images: Sequence[JudgedImage], root: Path | None, labels: Sequence[str]) -> list[Photo]:
    """Return images with their boxes.

    Their paths count from ``root``, which is None to leave out their pixels;
    ``labels`` are the names of the classes.
    """
    return [_make_photo(image, root, labels) for image in images]


def wrong_photos(
    mistakes: Sequence[Mistake], root: Path | None, labels: Sequence[str]
) -> list[Photo]:
    """Return images with wrong answers; arguments as of :func:`photos`."""
    wrong = []
    for mistake in mistakes:
        label = _name_label(mistake.label, labels)
        answer = _name_label(mistake.answer, labels)
        image = _read_data_uri(root, mistake.path, mistake.sha256, SMALL_SIDE)
        words = f"{label} taken for {answer}, {100 * mistake.probability:.0f} %"
        wrong.append(Photo(mistake.path, image, words, label=label, answer=answer))
    return wrong


def overlaid_photos(images: Sequence[OverlaidImage], root: Path | None) -> list[Photo]:
    """Return images, each with the truth of its pixels, if it is known, and with what was found;
    see :func:`photos`.

    An image of which nothing is said by pixels is shown once.
    """
    shown = []
    for overlaid in images:
        image = _read_data_uri(root, overlaid.path, overlaid.sha256)
        if not overlaid.found:
            shown.append(
                Photo(overlaid.path, image, overlaid.result, (), overlaid.width, overlaid.height)
            )
        for words, layer in ((TRUE, overlaid.true), (overlaid.result, overlaid.found)):
            if layer:
                layers = (f"data:image/png;base64,{layer}",)
                first = words == TRUE
                shown.append(
                    Photo(
                        overlaid.path,
                        image,
                        words,
                        (),
                        overlaid.width,
                        overlaid.height,
                        layers=layers,
                        first=first,
                    )
                )
    return shown


def list_changed_photos(
    disagreements: Disagreements, root: Path | None, labels: Sequence[str]
) -> list[Photo]:
    """Return the first :data:`CHANGED_SHOWN` images with two answers;
    arguments as of :func:`photos`.
    """
    shown = []
    for disagreement in disagreements.rows[:CHANGED_SHOWN]:
        answers = []
        for file, answer, right in zip(
            (disagreements.form, FLOAT),
            (disagreement.compressed, disagreement.floats),
            disagreement.right,
            strict=True,
        ):
            sure = ""
            if answer.probability is not None:
                sure = f", {100 * answer.probability:.0f} %"
            mark = RIGHT if right else WRONG
            answers.append(f"{file}: {_name_label(answer.label, labels)}{sure} {mark}")
        image = _read_data_uri(root, disagreement.path, disagreement.sha256, SMALL_SIDE)
        shown.append(
            Photo(
                disagreement.path, image, _name_label(disagreement.label, labels), tuple(answers)
            )
        )
    return shown


def _make_photo(image: JudgedImage, root: Path | None, labels: Sequence[str]) -> Photo:
    """Return a photograph with its true and found boxes, and what was missed and wrong."""
    true = []
    for box in image.true[:DRAWN]:
        true.append(_draw_box(image, box, "seen" if box.matched else "missed", labels))
    answered = []
    for box in image.found[:DRAWN]:
        answered.append(_draw_box(image, box, "right" if box.matched else "wrong", labels))
    return Photo(
        name=image.path,
        image=_read_data_uri(root, image.path, image.sha256),
        result=image.describe(partial(_name_label, labels=labels)),
        width=image.width,
        height=image.height,
        boxes=(*true, *answered),
        f1=image.f1,
        label=_name_most(image.true, labels),
        answer=_name_most(image.found, labels),
    )


def _name_most(boxes: Sequence[JudgedBox], labels: Sequence[str]) -> str:
    """Return the most frequent class of boxes without a match; empty if all have one."""
    counts = Counter(box.label for box in boxes if not box.matched)
    return "".join(_name_label(label, labels) for label, _ in counts.most_common(1))


def _name_label(label: int, labels: Sequence[str]) -> str:
    # A damaged run can hold any number; a negative one would count from the last class.
    if 0 <= label < len(labels):
        return labels[label]
    return f"class {label}"


def _draw_box(image: JudgedImage, box: JudgedBox, look: str, labels: Sequence[str]) -> DrawnBox:
    """Return a box in pixels of its image; a point becomes a mark around it."""
    left = box.left * image.width
    top = box.top * image.height
    width = box.right * image.width - left
    height = box.bottom * image.height - top
    if width <= 0 and height <= 0:
        width = height = MARK * min(image.width, image.height)
        # A point, the centre of an object, has no edges to draw.
        left = left - width / 2
        top = top - height / 2
    score = ""
    if look in ("right", "wrong"):
        score = f", score {box.score:.2f}"
    title = f"{_name_label(box.label, labels)}: {LOOKS[look]}{score}"
    # SVG draws no rectangle with a negative side, which a damaged run can hold.
    return DrawnBox(look, left, top, max(width, 0.0), max(height, 0.0), title)


def _read_data_uri(root: Path | None, path: str, sha256: str, side: int = SIDE) -> str:
    """Return the image as a ``data:`` address;
    empty without a root, or if the file is gone or has changed.
    """
    # Without a hash, nobody knows whether the file is still the image that was judged.
    if root is None or not sha256:
        return ""
    return data_uri(root / path, side, sha256)
