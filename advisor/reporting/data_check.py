"""The findings of a data check: on the terminal, and as a contact sheet of the images, which loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.core.errors import StageError
from advisor.core.units import plural
from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.checks.image_quality import Condition
from advisor.datasets.dataset import Dataset
from advisor.datasets.decode import READ_ERRORS, open_image, quiet
from advisor.engine.data_check import DataCheck
from advisor.reporting import text
from advisor.reporting.console import Column, columns, default_console, line, next_command, table, write
from advisor.reporting.templating import render_page

GROUPS, MEMBERS = 60, 6
"""Groups shown of each finding, and images shown of each group; the rest is counted."""

CLASSES = 20
"""Classes whose images are counted one by one on the terminal, at most."""

FEWEST = 5
"""Classes with the fewest images that are named instead, at most."""

SIDE = 132
"""Longer side of a thumbnail, in pixels."""

QUALITY = 72

NAMED = 3
"""Examples of each finding on the terminal; the page shows more."""

FINDINGS = (Column("found", left=True), Column("what", left=True), Column("for example", left=True, width=100))
CONDITIONS = columns("image quality", "5 %", "median", "95 %", "poor %", left=("image quality",))
_GRAVE = frozenset(
    {Kind.UNREADABLE, Kind.SPELLING, Kind.SAME_IMAGE_TWO_CLASSES, Kind.LEAK, Kind.SPLIT, Kind.WRONG_LABEL}
)


def print_checked(
    checked: DataCheck, sheet: Path, manifest: Path | None = None, console: Console | None = None
) -> None:
    """Write the tables to ``console``, or to standard output.

    Args:
        checked: what was found.
        sheet: the page that was written.
        manifest: the manifest that was written, or None.
        console: where to.
    """
    console = console or default_console()
    dataset = checked.survey.dataset
    shown: list[RenderableType] = [
        Text(
            text.plain(f"{plural(len(dataset.images), 'image')} in {len(dataset.classes)} classes: {_counts(dataset)}")
        ),
        *(Text(text.plain(row)) for row in _split(checked)),
        Text(),
    ]
    if checked.findings:
        shown += [table(FINDINGS, (_row(checked, finding) for finding in checked.findings), console), Text()]
    else:
        shown += [Text("No problems found.", style="bold green"), Text()]
    shown += [table(CONDITIONS, map(_condition, checked.conditions), console), Text()]
    write([*shown, *_advice(checked), *_next(checked, sheet, manifest)], console)


def _split(checked: DataCheck) -> tuple[str, ...]:
    return checked.split.lines if checked.split else (f"A search would refuse these images: {checked.not_split}",)


def _counts(dataset: Dataset) -> str:
    """Return the number of images of each class; of many classes, the range and those with the fewest images."""
    rows = [f"{name} {count}" for name, count in zip(dataset.classes, dataset.counts, strict=True)]
    if len(rows) <= CLASSES:
        return ", ".join(rows)
    fewest, most = min(dataset.counts), max(dataset.counts)
    if fewest == most:
        return f"{fewest} in each"
    ascending = sorted(range(len(rows)), key=lambda label: dataset.counts[label])[:FEWEST]
    return f"{fewest} to {most} in each, the fewest in {', '.join(rows[label] for label in ascending)}"


def _row(checked: DataCheck, finding: Finding) -> list[str | Text]:
    shown = checked.survey.dataset.shown
    examples = [" = ".join(map(shown, group[:NAMED])) for group in finding.groups[:NAMED]]
    if finding.notes:
        examples = [f"{name}: {note}" for name, note in zip(examples, finding.notes, strict=False)]
    style = "red" if finding.kind in _GRAVE else "yellow"
    return [Text(finding.kind.value, style=style), finding.message, "\n".join(examples) or text.MISSING]


def _condition(one: Condition) -> list[str | Text]:
    return [one.name, *(f"{value:.3g}" for value in (one.low, one.median, one.high)), f"{100 * one.outside:.1f}"]


def _advice(checked: DataCheck) -> Iterator[Text]:
    for advice in dict.fromkeys(f"{finding.kind.value}: {finding.advice}" for finding in checked.findings):
        yield line("Advice", advice, "green")
    if checked.not_judged:
        yield line("Note", f"wrong labels and crops were not checked: {checked.not_judged}", "yellow")
    elif checked.judged_by:
        yield line("Note", f"labels and crops judged with the features of {checked.judged_by}")


def _next(checked: DataCheck, sheet: Path, manifest: Path | None) -> Iterator[Text]:
    yield line("Written", f"{sheet} (the suspicious images)")
    if manifest:
        images = checked.survey.dataset.images
        left = sum(image.path in checked.left_out for image in images)
        yield line("Written", f"{manifest} ({plural(len(images) - left, 'image')}, {left} excluded)")
        yield next_command(f"advisor search --data {manifest} --budget 50ms")
    elif checked.left_out:
        yield next_command("the same command with --fix cleaned.csv excludes the suspicious images")


def render(checked: DataCheck) -> str:
    """Return the whole page; names and labels are escaped."""
    dataset = checked.survey.dataset
    return render_page(
        "sheet",
        styles=["report.css", "sheet.css"],
        scripts=[],
        checked=checked,
        dataset=dataset,
        counts=list(zip(dataset.classes, dataset.counts, strict=True)),
        sections=sections(checked),
        split=_split(checked),
    )


def sections(checked: DataCheck) -> list[dict[str, Any]]:
    """Return the findings with their images, as the template shows them; each image is read once."""
    dataset = checked.survey.dataset
    labels = {photo.path: dataset.classes[photo.label] for photo in dataset.images}
    image, excluded = cache(data_uri), checked.left_out

    def show(path: Path) -> dict[str, object]:
        pixels = image(path) if path in labels else ""
        return {"name": dataset.shown(path), "label": labels.get(path, ""), "out": path in excluded, "image": pixels}

    def section(finding: Finding) -> dict[str, Any]:
        notes = (*finding.notes, *[""] * len(finding.groups))
        groups = [
            {"images": list(map(show, paths[:MEMBERS])), "more": max(0, len(paths) - MEMBERS), "note": note}
            for paths, note in zip(finding.groups[:GROUPS], notes, strict=False)
        ]
        return {"finding": finding, "groups": groups, "more": max(0, len(finding.groups) - GROUPS)}

    return list(map(section, checked.findings))


def data_uri(path: Path) -> str:
    """Return an image as a JPEG inside a ``data:`` address, its longer side ``SIDE`` pixels; empty if it is unreadable.

    The file is decoded and encoded again, so only its pixels reach the page.
    """
    from PIL import Image, ImageOps

    try:
        with quiet(), open_image(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            small = ImageOps.exif_transpose(image.convert("RGBA" if image.mode in {"P", "LA", "PA"} else "RGB"))
            small.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
            stored = BytesIO()
            small.convert("RGB").save(stored, "JPEG", quality=QUALITY)
    except (*READ_ERRORS, StageError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(stored.getvalue()).decode()}"
