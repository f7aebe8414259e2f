"""A checked data set on the terminal: the findings, the quality of the images, the next command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from advisor.core.units import plural
from advisor.datasets.checks.findings import Finding, Kind
from advisor.datasets.checks.image_quality import Condition
from advisor.engine.data_check import DataCheck
from advisor.reporting import text
from advisor.reporting.console import Column, default_console, line, next_command, table, write

NAMED = 3
"""Examples of each finding on the terminal; the page shows more."""

FINDINGS = (Column("found", left=True), Column("what", left=True), Column("for example", left=True, width=100))
CONDITIONS = (
    Column("image quality", left=True),
    Column("5 %"),
    Column("median"),
    Column("95 %"),
    Column("poor %"),
)
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
    counts = ", ".join(f"{name} {count}" for name, count in zip(dataset.classes, dataset.counts, strict=True))
    shown: list[RenderableType] = [
        Text(text.plain(f"{plural(len(dataset.images), 'image')} in {len(dataset.classes)} classes: {counts}")),
        Text(),
    ]
    if checked.findings:
        shown += [table(FINDINGS, (_row(checked, finding) for finding in checked.findings), console), Text()]
    else:
        shown += [Text("No problems found.", style="bold green"), Text()]
    shown += [table(CONDITIONS, map(_condition, checked.conditions), console), Text()]
    write([*shown, *_advice(checked), *_next(checked, sheet, manifest)], console)


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
