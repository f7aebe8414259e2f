"""The findings of ``advisor data check``: on the terminal, and as a contact sheet of the images.

The sheet is one page that loads nothing. Names and labels in it come from the user's files, so the
template escapes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from advisor.core import plural
from advisor.datasets import Box, Finding, Kind, MeasureDistribution, ObjectSizes
from advisor.engine import DataCheck
from advisor.reporting import _blocks as blocks
from advisor.reporting._blocks import Labelled, Paragraph, Span, TableColumn, table_of
from advisor.reporting._pages import COLOURS, data_uri, outlines, render_page

GROUPS = 60
MEMBERS = 6
"""Groups shown of each finding, and images shown of each group; the rest is counted."""

CLASSES = 20
"""Classes whose images are counted one by one on the terminal, at most."""

FEWEST = 5
"""Classes with the fewest images that are named instead, at most."""

SIDE = 132
BOXED_SIDE = 240
"""Longer side of a thumbnail in pixels, and that of images with boxes."""

SAMPLES = 12
"""Images with boxes that are shown whether or not there are findings,
to see that the boxes are in place.
"""

NAMED = 3
"""Examples of each finding on the terminal; the page shows more."""

_GRAVE = frozenset(
    {
        Kind.UNREADABLE,
        Kind.SPELLING,
        Kind.SAME_IMAGE_TWO_CLASSES,
        Kind.LEAK,
        Kind.SPLIT,
        Kind.WRONG_LABEL,
    }
)
_SIZES: tuple[TableColumn[ObjectSizes], ...] = (
    TableColumn("input", lambda sizes: str(sizes.input)),
    TableColumn("object side px: 5 %", lambda sizes: f"{sizes.low:.0f}"),
    TableColumn("median", lambda sizes: f"{sizes.median:.0f}"),
    TableColumn("95 %", lambda sizes: f"{sizes.high:.0f}"),
    TableColumn(
        f"under {ObjectSizes.SMALL_SIDE:.0f} px %", lambda sizes: f"{100 * sizes.small:.1f}"
    ),
)
_CONDITIONS: tuple[TableColumn[MeasureDistribution], ...] = (
    TableColumn("image quality", lambda measure: measure.name, left=True),
    TableColumn("5 %", lambda measure: f"{measure.low:.3g}"),
    TableColumn("median", lambda measure: f"{measure.median:.3g}"),
    TableColumn("95 %", lambda measure: f"{measure.high:.3g}"),
    TableColumn("poor %", lambda measure: f"{100 * measure.outside:.1f}"),
    TableColumn("meaning", lambda measure: measure.words, left=True, width=blocks.PAGES),
)


def print_data_check(
    checked: DataCheck,
    sheet: Path,
    manifest: Path | None = None,
    console: Console | None = None,
    shown: Sequence[Finding] | None = None,
) -> None:
    """Write the tables to the console, with the findings ``shown`` in their order,
    and the files that were written.
    """
    columns: tuple[TableColumn[Finding], ...] = (
        TableColumn(
            "found",
            lambda finding: Span(finding.kind.value, "bad" if finding.kind in _GRAVE else "warn"),
            left=True,
        ),
        TableColumn("what", lambda finding: finding.message, left=True),
        TableColumn(
            "for example",
            lambda finding: _show_examples(checked, finding) or None,
            left=True,
            width=100,
        ),
    )
    counts = f"{checked.content.summary}: {_show_counts(checked.content.counts)}"
    findings: blocks.Block = Paragraph(Span("No problems found.", "strong good"))
    if checked.findings:
        findings = table_of(columns, checked.findings if shown is None else shown)
    parts = [
        *map(Paragraph, (counts, *_describe_split(checked))),
        findings,
        *_list_size_tables(checked),
    ]
    parts.append(table_of(_CONDITIONS, checked.conditions))
    blocks.show([*parts, *_list_next(checked, sheet, manifest)], console)


def _describe_split(checked: DataCheck) -> tuple[str, ...]:
    """Return how a search would split the images, or why it would refuse them, line by line."""
    if checked.split:
        return checked.split.lines
    return (
        f"A search would refuse these images: {checked.not_split}",
        *checked.survey.dataset.notes,
    )


def _show_counts(counts: Mapping[str, int]) -> str:
    """Return the count of each class; of many classes, the range and the smallest ones."""
    ascending = sorted(counts, key=lambda name: counts[name])
    if len(counts) <= CLASSES:
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())
    fewest = counts[ascending[0]]
    most = counts[ascending[-1]]
    if fewest == most:
        return f"{fewest:,} in each"
    smallest = ", ".join(f"{name} {counts[name]:,}" for name in ascending[:FEWEST])
    return f"{fewest:,} to {most:,} in each, the fewest in {smallest}"


def _show_examples(checked: DataCheck, finding: Finding) -> str:
    examples = []
    for group in finding.groups[:NAMED]:
        examples.append(" = ".join(map(checked.survey.dataset.show_path, group[:NAMED])))
    if finding.notes:
        examples = [f"{path}: {note}" for path, note in zip(examples, finding.notes, strict=False)]
    return " ".join(examples)


def _list_size_tables(checked: DataCheck) -> list[blocks.DataTable]:
    if checked.content.sizes:
        return [table_of(_SIZES, checked.content.sizes)]
    return []


def _list_next(checked: DataCheck, sheet: Path, manifest: Path | None) -> Iterator[blocks.Block]:
    """Yield advice, the files that were written, and the next command;
    ``--fix`` leaves out images and boxes.
    """
    # Several findings of a kind have the same advice.
    advices = dict.fromkeys((finding.kind.value, finding.advice) for finding in checked.findings)
    for kind, advice in advices:
        yield Labelled("Advice", f"{kind}: {advice}", "good")
    if checked.not_judged:
        yield Labelled(
            "Note", f"wrong labels and crops were not checked: {checked.not_judged}", "warn"
        )
    elif checked.judged_by:
        yield Labelled("Note", f"labels and crops judged with the features of {checked.judged_by}")
    yield Labelled("Written", f"{sheet} (the suspicious images)")
    marked = 0
    for finding in checked.findings:
        if finding.leave_out_marked:
            marked += sum(map(len, finding.marked))
    boxes = ""
    if marked:
        boxes = f"; {plural(marked, 'box', 'boxes')} excluded"
    if manifest:
        images = checked.survey.dataset.images
        excluded = checked.left_out
        left = sum(image.path in excluded for image in images)
        yield Labelled(
            "Written",
            f"{manifest} ({plural(len(images) - left, 'image')}, {left} excluded{boxes})",
        )
        if checked.content.next_command:
            yield blocks.next_command(checked.content.next_command.format(manifest=manifest))
    elif checked.left_out or boxes:
        yield blocks.next_command(
            "the same command with --fix cleaned.csv excludes the suspicious images"
        )


def render(checked: DataCheck) -> str:
    """Return the whole page; names and labels are escaped."""
    figures = _Figures(checked)
    shown = choose_samples(checked)
    return render_page(
        "sheet",
        styles=["report.css", "sheet.css"],
        scripts=[],
        checked=checked,
        dataset=checked.survey.dataset,
        counts=list(checked.content.counts.items()),
        colours=figures.colours if shown else {},
        samples=list(map(figures.show, shown)),
        sizes=_list_size_tables(checked),
        conditions=[table_of(_CONDITIONS, checked.conditions)],
        sections=make_sections(checked),
        split=_describe_split(checked),
    )


def choose_samples(checked: DataCheck) -> list[Path]:
    """Return images with boxes from the whole set, photos that are stored rotated first;
    none if there are no boxes.
    """
    images = checked.survey.dataset.images
    shots = checked.survey.shots
    rotated: list[Path] = []
    others: list[Path] = []
    for image, shot in zip(images, shots, strict=True):
        drawing = checked.content.drawing(image.path)
        if drawing is None or not (drawing.boxes or drawing.layer):
            continue
        if shot.orientation == 1:
            others.append(image.path)
        else:
            rotated.append(image.path)
    # Boxes of a rotated photo are wrong where a tool drew them on the stored pixels.
    rotated = rotated[: SAMPLES // 2]
    step = max(1, len(others) // (SAMPLES - len(rotated)))
    return [*rotated, *others[::step]][:SAMPLES]


def make_sections(checked: DataCheck) -> list[dict[str, Any]]:
    """Return the findings with their images, as the template shows them."""
    figures = _Figures(checked)
    entries = []
    for finding in checked.findings:
        groups = []
        for place, paths in enumerate(finding.groups[:GROUPS]):
            # Findings of some kinds have notes or boxes for none of their groups.
            note = finding.notes[place] if place < len(finding.notes) else ""
            boxes = finding.marked[place] if place < len(finding.marked) else ()
            images = [figures.show(path, boxes) for path in paths[:MEMBERS]]
            groups.append({"images": images, "more": max(0, len(paths) - MEMBERS), "note": note})
        entries.append(
            {"finding": finding, "groups": groups, "more": max(0, len(finding.groups) - GROUPS)}
        )
    return entries


class _Figures:
    """Makes the figures of a page; each image is read once."""

    def __init__(self, checked: DataCheck) -> None:
        self._checked = checked
        self._excluded = checked.left_out
        self.colours = {
            name: number % COLOURS for number, name in enumerate(checked.content.counts)
        }
        # An image can be in several findings, and a child process reads it.
        self._image = cache(partial(data_uri, side=BOXED_SIDE if checked.content.sizes else SIDE))

    def show(self, path: Path, marked: Sequence[Box] = ()) -> dict[str, object]:
        """Return an image as the template shows it,
        with its boxes and those that a finding is about.
        """
        content = self._checked.content
        label = self._checked.content.label(path)
        drawing = content.drawing(path)
        return {
            "name": self._checked.survey.dataset.show_path(path),
            "label": label,
            "out": path in self._excluded,
            "image": self._image(path) if label else "",
            "size": drawing.size if drawing else (0, 0),
            "layer": drawing.layer if drawing else "",
            "outlines": outlines(drawing.boxes, marked, self.colours) if drawing else (),
        }
