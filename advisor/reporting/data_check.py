"""The findings of a data check: on the terminal, and as a contact sheet of the images, which loads nothing."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from advisor.core.units import plural
from advisor.datasets.boxes.values import Box
from advisor.datasets.checks.boxes import SMALL_SIDE
from advisor.datasets.checks.findings import Finding, Kind
from advisor.engine.data_check import DataCheck
from advisor.reporting import blocks, text
from advisor.reporting.console import show
from advisor.reporting.outlines import COLOURS, data_uri, outlines
from advisor.reporting.selection import Rows
from advisor.reporting.templating import render_page

FAULTS: Rows[Finding] = Rows(
    ("found", "what", "images"),
    lambda finding: {"found": finding.kind.value, "what": finding.message, "images": len(finding.images)},
)
"""Possible faults in a set of images."""

GROUPS, MEMBERS = 60, 6
"""Groups shown of each finding, and images shown of each group; the rest is counted."""

CLASSES = 20
"""Classes whose images are counted one by one on the terminal, at most."""

FEWEST = 5
"""Classes with the fewest images that are named instead, at most."""

SIDE = 132
"""Longer side of a thumbnail, in pixels."""

BOXED_SIDE = 240
"""The same for images with boxes."""

SAMPLES = 12
"""Images with boxes that are shown whether or not there are findings, to see that the boxes are in place."""

NAMED = 3
"""Examples of each finding on the terminal; the page shows more."""

FINDINGS = (
    blocks.TableColumn("found", left=True),
    blocks.TableColumn("what", left=True),
    blocks.TableColumn("for example", left=True, width=100),
)
SIZES = blocks.columns("input", "object side px: 5 %", "median", "95 %", f"under {SMALL_SIDE:.0f} px %")
CONDITIONS = (
    *blocks.columns("image quality", "5 %", "median", "95 %", "poor %", left=("image quality",)),
    blocks.TableColumn("meaning", left=True, width=blocks.PAGES),
)
_GRAVE = frozenset(
    {Kind.UNREADABLE, Kind.SPELLING, Kind.SAME_IMAGE_TWO_CLASSES, Kind.LEAK, Kind.SPLIT, Kind.WRONG_LABEL}
)


def print_checked(
    checked: DataCheck,
    sheet: Path,
    manifest: Path | None = None,
    console: Console | None = None,
    shown: Sequence[Finding] | None = None,
) -> None:
    """Write the tables to ``console``, or to standard output.

    Args:
        checked: what was found.
        sheet: the page that was written.
        manifest: the manifest that was written, or None.
        console: where to.
        shown: the findings of the table, in their order; all of them if None.
    """
    findings = checked.findings if shown is None else shown
    parts: list[blocks.Block] = [
        blocks.Paragraph(f"{checked.content.summary}: {_counts(checked.content.counts)}"),
        *map(blocks.Paragraph, _split(checked)),
    ]
    if checked.findings:
        parts.append(blocks.DataTable(FINDINGS, [_row(checked, finding) for finding in findings]))
    else:
        parts.append(blocks.Paragraph(blocks.Span("No problems found.", "strong good")))
    parts += [*_sizes(checked), _conditions(checked)]
    show([*parts, *_advice(checked), *_next(checked, sheet, manifest)], console)


def _split(checked: DataCheck) -> tuple[str, ...]:
    return checked.split.lines if checked.split else (f"A search would refuse these images: {checked.not_split}",)


def _counts(counts: Mapping[str, int]) -> str:
    """Return the count of each class; of many classes, the range and the smallest ones."""
    ascending = sorted(counts, key=lambda name: counts[name])
    if len(counts) <= CLASSES:
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())
    fewest, most = counts[ascending[0]], counts[ascending[-1]]
    if fewest == most:
        return f"{fewest:,} in each"
    smallest = ", ".join(f"{name} {counts[name]:,}" for name in ascending[:FEWEST])
    return f"{fewest:,} to {most:,} in each, the fewest in {smallest}"


def _row(checked: DataCheck, finding: Finding) -> list[blocks.Words]:
    shown = checked.survey.dataset.shown
    examples = [" = ".join(map(shown, group[:NAMED])) for group in finding.groups[:NAMED]]
    if finding.notes:
        examples = [f"{path}: {note}" for path, note in zip(examples, finding.notes, strict=False)]
    kind = blocks.Span(finding.kind.value, "bad" if finding.kind in _GRAVE else "warn")
    return [kind, finding.message, " ".join(examples) or text.MISSING]


def _conditions(checked: DataCheck) -> blocks.DataTable:
    rows = [
        (
            one.name,
            *(f"{value:.3g}" for value in (one.low, one.median, one.high)),
            f"{100 * one.outside:.1f}",
            one.words,
        )
        for one in checked.conditions
    ]
    return blocks.DataTable(CONDITIONS, rows)


def _sizes(checked: DataCheck) -> list[blocks.DataTable]:
    rows = [
        (str(one.input), *(f"{value:.0f}" for value in (one.low, one.median, one.high)), f"{100 * one.small:.1f}")
        for one in checked.content.sizes
    ]
    return [blocks.DataTable(SIZES, rows)] if rows else []


def _judged(checked: DataCheck) -> str:
    if checked.not_judged:
        return f"wrong labels and crops were not checked: {checked.not_judged}"
    return f"labels and crops judged with the features of {checked.judged_by}" if checked.judged_by else ""


def _advice(checked: DataCheck) -> Iterator[blocks.Block]:
    for advice in dict.fromkeys(f"{finding.kind.value}: {finding.advice}" for finding in checked.findings):
        yield blocks.Labelled("Advice", advice, "good")
    if judged := _judged(checked):
        yield blocks.Labelled("Note", judged, "warn" if checked.not_judged else "")


def _next(checked: DataCheck, sheet: Path, manifest: Path | None) -> Iterator[blocks.Block]:
    yield blocks.Labelled("Written", f"{sheet} (the suspicious images)")
    if manifest:
        images = checked.survey.dataset.images
        left = sum(image.path in checked.left_out for image in images)
        kept = plural(len(images) - left, "image")
        yield blocks.Labelled("Written", f"{manifest} ({kept}, {left} excluded{_boxes_out(checked)})")
        if checked.content.next_command:
            yield blocks.next_command(checked.content.next_command.format(manifest=manifest))
    elif checked.left_out or _boxes_out(checked):
        yield blocks.next_command("the same command with --fix cleaned.csv excludes the suspicious images")


def _boxes_out(checked: DataCheck) -> str:
    """Return how many boxes ``--fix`` leaves out, empty for none."""
    out = sum(len(boxes) for finding in checked.findings if finding.leave_out_marked for boxes in finding.marked)
    return f"; {plural(out, 'box', 'boxes')} excluded" if out else ""


def render(checked: DataCheck) -> str:
    """Return the whole page; names and labels are escaped."""
    dataset = checked.survey.dataset
    return render_page(
        "sheet",
        styles=["report.css", "sheet.css"],
        scripts=[],
        checked=checked,
        dataset=dataset,
        counts=list(checked.content.counts.items()),
        colours=_colours(checked) if checked.content.sizes else {},
        samples=[_Figures(checked).show(path) for path in samples(checked)],
        sizes=_sizes(checked),
        conditions=[_conditions(checked)],
        sections=sections(checked),
        split=_split(checked),
    )


def samples(checked: DataCheck) -> list[Path]:
    """Return images with boxes from the whole set, photos that are stored rotated first; none if there are no boxes."""
    images, shots = checked.survey.dataset.images, checked.survey.shots
    drawn = [(shot.orientation == 1, image.path) for image, shot in zip(images, shots, strict=True)]
    drawn = [(straight, path) for straight, path in drawn if (found := checked.content.drawing(path)) and found.boxes]
    rotated = [path for straight, path in drawn if not straight][: SAMPLES // 2]
    others = [path for straight, path in drawn if straight]
    return [*rotated, *others[:: max(1, len(others) // (SAMPLES - len(rotated)))]][:SAMPLES]


def _colours(checked: DataCheck) -> dict[str, int]:
    return {name: number % COLOURS for number, name in enumerate(checked.content.counts)}


def sections(checked: DataCheck) -> list[dict[str, Any]]:
    """Return the findings with their images, as the template shows them; each image is read once."""
    figures = _Figures(checked)

    def section(finding: Finding) -> dict[str, Any]:
        notes = (*finding.notes, *[""] * len(finding.groups))
        marked = (*finding.marked, *[()] * len(finding.groups))
        groups = [
            {
                "images": [figures.show(path, boxes) for path in paths[:MEMBERS]],
                "more": max(0, len(paths) - MEMBERS),
                "note": note,
            }
            for paths, note, boxes in zip(finding.groups[:GROUPS], notes, marked, strict=False)
        ]
        return {"finding": finding, "groups": groups, "more": max(0, len(finding.groups) - GROUPS)}

    return list(map(section, checked.findings))


class _Figures:
    """Makes the figures of a page; each image is read once."""

    def __init__(self, checked: DataCheck) -> None:
        self._checked = checked
        self._excluded = checked.left_out
        self._colours = _colours(checked)
        self._image = cache(partial(data_uri, side=BOXED_SIDE if checked.content.sizes else SIDE))

    def show(self, path: Path, marked: Sequence[Box] = ()) -> dict[str, object]:
        """Return an image as the template shows it, with its boxes and those that a finding is about."""
        content, label = self._checked.content, self._checked.content.label(path)
        drawing = content.drawing(path)
        return {
            "name": self._checked.survey.dataset.shown(path),
            "label": label,
            "out": path in self._excluded,
            "image": self._image(path) if label else "",
            "size": drawing.size if drawing else (0, 0),
            "outlines": outlines(drawing.boxes, marked, self._colours) if drawing else (),
        }
