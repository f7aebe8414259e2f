"""The answer as Markdown, short enough for a pull request: which blocks it has, and how they are drawn."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from advisor.core.escape import markdown as escaped
from advisor.core.evaluation import Status
from advisor.reporting import blocks, phrases, text
from advisor.reporting.answer import alternatives, headline, other_risks, written_table
from advisor.reporting.classes import class_blocks
from advisor.reporting.figures import foundations, key_figures
from advisor.reporting.metrics import metric_blocks
from advisor.reporting.unknown import unknown_blocks
from advisor.reporting.view import RunView

_log = logging.getLogger(__name__)

FAILURES_SHOWN = 20

CLASSES_NAMED = 20


def render_markdown(view: RunView) -> str:
    """Return the report. A part that fails becomes an error line; the other parts are not affected."""
    contents = (
        headline, _figures, _alternatives, written_table, class_blocks, _metrics, unknown_blocks, _losses, _funnel,
        _failures, _data, _method,
    )  # fmt: skip
    return "\n\n".join(filter(None, (_part(content, view) for content in contents))) + "\n"


def _part(content: Callable[[RunView], Iterable[blocks.Block]], view: RunView) -> str:
    try:
        return draw(content(view))
    except Exception as error:
        _log.exception("report.md: the part '%s' could not be made", content.__name__)
        return f"> This part could not be made: {escaped(f'{type(error).__name__}: {error}')}"


def _figures(view: RunView) -> Iterator[blocks.Block]:
    if pick := view.decision.pick:
        yield blocks.Figures(key_figures(view, pick))
        yield blocks.Items(foundations(view, pick))


def _alternatives(view: RunView) -> Iterator[blocks.Block]:
    yield from alternatives(view)
    if view.tuning is not None:
        yield blocks.Labelled("Fine-tuning", view.tuning_sentence)
    yield from (blocks.Labelled(f"Risk, {risk.level}", f"{risk.name}: {risk.text}") for risk in other_risks(view))


def _metrics(view: RunView) -> Iterable[blocks.Block]:
    return metric_blocks(view)[1:]


def _losses(view: RunView) -> Iterator[blocks.Block]:
    if view.disagreements is not None:
        yield blocks.Labelled("What compression changes", view.disagreements.sentence)
    for row, found in view.diagnosed:
        why = found.verdict[1] if len(found.verdict) > 1 else found.verdict[0]
        yield blocks.Labelled(f"Why {text.name(row)} loses {text.points(row.drop)} points", why)


def _funnel(view: RunView) -> Iterator[blocks.Block]:
    if view.evaluations:
        steps = " → ".join(f"{step.left} {step.name}" for step in phrases.funnel(view))
        yield blocks.Paragraph(f"Left: {steps}.")


def _failures(view: RunView) -> Iterator[blocks.Block]:
    if rows := (*view.with_status(Status.FAILED), *view.with_status(Status.SKIPPED)):
        more = len(rows) - FAILURES_SHOWN
        rest = [f"{more} more are in report.html."] if more > 0 else []
        yield blocks.Group([phrases.failures(rows[:FAILURES_SHOWN], rest)], f"{len(rows)} failed or skipped")


def _data(view: RunView) -> Iterator[blocks.Block]:
    if (dataset := view.dataset) is None:
        return
    rejected = f", {len(dataset.rejected)} files not used" if dataset.rejected else ""
    named = f"{', '.join(dataset.classes[:CLASSES_NAMED])}{', ...' if len(dataset.classes) > CLASSES_NAMED else ''}"
    counted = f"Images: {dataset.counted} in {len(dataset.classes)} classes ({named})"
    yield blocks.Paragraph(f"{counted}, {phrases.parts(dataset)}{rejected}.")
    yield from map(blocks.Paragraph, filter(None, (*dataset.notes, dataset.leaking)))


def _method(view: RunView) -> Iterator[blocks.Block]:
    if command := phrases.command_line(view):
        yield blocks.Code(command)
    yield blocks.Paragraph(f"Run {view.name}. {phrases.shown(view.manifest.get('versions') or {})}".rstrip())


def draw(report: Iterable[blocks.Block]) -> str:
    """Return blocks one after the other; the rows of lists follow each other without an empty line."""
    shown = "\n\n".join(map(_drawn, report))
    return re.sub(r"(?m)^(- .*)\n\n(?=- )", r"\1\n", shown)


def _drawn(block: blocks.Block) -> str:
    match block:
        case blocks.Heading():
            return f"{'##' if block.id else '###'} {words(block.words)}"
        case blocks.Paragraph():
            return f"{'> ' if block.look == 'unfinished' else ''}{words(block.words)}"
        case blocks.Labelled():
            start = {"lead": "", "warning": "> "}.get(block.look, "- ")
            return f"{start}**{escaped(block.label)}**{':' if block.colon else ''} {words(block.words)}"
        case blocks.Items():
            return "\n".join(f"- {words(row)}" for row in block.rows)
        case blocks.Code():
            command = text.plain(block.text)
            fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
            return f"{fence}\n{command}\n{fence}"
        case blocks.Group():
            return f"<details><summary>{escaped(block.summary)}</summary>\n\n{draw(block.blocks)}\n\n</details>"
        case blocks.Figures():
            titles = blocks.columns("figure", "value", "remark", left=("figure", "remark"))
            return _rows(titles, [(figure.label, figure.value, figure.remark) for figure in block.rows])
        case blocks.DataTable():
            return "\n\n".join([_rows(block.columns, block.rows), *map(escaped, block.notes)])


def _rows(columns: Sequence[blocks.TableColumn], rows: Iterable[Sequence[blocks.Words]]) -> str:
    sides = ["---" if column.left else "---:" for column in columns]
    shown = [[column.title for column in columns], *rows]
    head, *others = (f"| {' | '.join(map(words, cells))} |" for cells in shown)
    return "\n".join([head, f"| {' | '.join(sides)} |", *others])


def words(said: blocks.Words) -> str:
    """Return text with its looks, escaped, on one line."""
    return "".join(map(_span, said if isinstance(said, tuple) else (said,)))


def _span(part: str | blocks.Span) -> str:
    own = blocks.Span(part, "") if isinstance(part, str) else part
    if own.look == "code" and "`" not in own.text:
        return f"`{text.plain(own.text)}`"
    return f"**{escaped(own.text)}**" if own.look == "strong" else text.inner(own.text, escaped)
