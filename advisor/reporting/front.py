"""The short table of an answer: the pick, its ties and the front, for terminals of any width and for documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from advisor.core.evaluation import Evaluation
from advisor.core.figures import HOST
from advisor.core.quantity import Quantity
from advisor.reporting import console as terminal
from advisor.reporting import text
from advisor.reporting.blocks import Block, Span, Table, TableColumn, Words
from advisor.reporting.device_results import foreign_runtimes
from advisor.reporting.phrases import shortlist, verdict
from advisor.reporting.view import RunView


@dataclass(frozen=True)
class _Layout:
    """Columns and spacing of the table.

    Attributes:
        roomy: two spaces between columns; otherwise one.
        origins: each row says where its figures are from, if the rows differ; otherwise the legend does.
        robust: the accuracy under capture conditions.
        intervals: whole titles, and intervals with both ends; otherwise their larger side.
        memory: the peak memory.
        folded: a training recipe is on a line above the compression.
        written: for a document: verdicts in words, both latencies, and download sizes.
    """

    roomy: bool = False
    origins: bool = False
    robust: bool = False
    intervals: bool = False
    memory: bool = True
    folded: bool = False
    written: bool = False


_WRITTEN = _Layout(origins=True, robust=True, intervals=True, written=True)

_LAYOUTS = (
    _Layout(roomy=True, origins=True, robust=True, intervals=True),
    _Layout(origins=True, robust=True, intervals=True),
    _Layout(robust=True, intervals=True),
    _Layout(robust=True),
    _Layout(),
    _Layout(folded=True),
    _Layout(memory=False),
    _Layout(memory=False, folded=True),
)
"""The table has the first of these layouts that the terminal is wide enough for."""

MEMORY_WIDTH = 100
"""Terminal width from which the memory is always shown, even if long names take several lines."""

_UNLIMITED = 10_000
"""Columns of a terminal that every table fits."""

_NAMES = ("", "model", "compression", "device")
"""Titles of the columns that hold names, aligned to the left."""

JUDGED = (
    "Candidates are ranked by their accuracy on validation. Expect the accuracy on the hold-out, which is measured "
    "once, for finalists. Robust: the hold-out under capture conditions."
)


def fitted_table(view: RunView, console: Console, rows: Sequence[Evaluation]) -> Grid:
    """Return the fullest table that fits the terminal; if none does, the last one, with names on several lines."""
    for layout in (each for each in _LAYOUTS if each.memory or console.width < MEMORY_WIDTH):
        block = _laid_out(view, rows, layout)
        table = terminal.table(block.columns, block.rows, console, int(layout.roomy))
        for row, look in zip(table.rows, block.looks, strict=True):
            row.style = terminal.style(look)
        table.caption = Text("\n".join(map(text.plain, block.notes)), style="dim")
        table.caption_justify = "left"
        needed = console.measure(table, options=console.options.update(max_width=_UNLIMITED))
        if needed.maximum <= console.width:
            break
    return table


def written_table(view: RunView) -> list[Block]:
    """Return the short table for a document; nothing without a result."""
    rows = shortlist(view)
    return [_laid_out(view, rows, _WRITTEN)] if rows else []


def _laid_out(view: RunView, rows: Sequence[Evaluation], layout: _Layout) -> Table:
    cells = [_cells(view, row, rows, layout) for row in rows]
    notes = [text.provenance_note(row) for row in rows]
    columns = [TableColumn(title, left=title in _NAMES) for title in cells[0]]
    shown = [list(by_title.values()) for by_title in cells]
    per_row = layout.written or (layout.origins and len(set(notes)) > 1)
    if per_row:
        columns.append(TableColumn(f"from ({view.metric}, latency)", left=True))
        shown = [[*row, note] for row, note in zip(shown, notes, strict=True)]
    looks = [_look(view, row) for row in rows]
    if layout.written:
        return Table(columns, shown, looks=looks, notes=[JUDGED] if _are_judged(rows) else [])
    return Table(columns, shown, looks=looks, notes=_legend(view, rows, () if per_row else notes))


def _cells(view: RunView, row: Evaluation, rows: Sequence[Evaluation], layout: _Layout) -> dict[str, Words]:
    """Return the cells of a row by the titles of their columns, which are the same for all ``rows``."""
    configuration, whole, judged = row.configuration, layout.intervals, _are_judged(rows)
    recipes = configuration.variant_name
    first, _, second = recipes.partition(" ")
    cells: dict[str, Words] = {
        "": verdict(view, row) if layout.written else _mark(view, row),
        "model": configuration.card,
        "compression": (first, Span(second, "line")) if layout.folded and second else recipes,
    }
    if layout.written or any(other.configuration.target.device != HOST for other in rows):
        cells["device"] = configuration.target.device
    cells["threads" if whole else "thr."] = str(configuration.target.threads)
    if judged and whole:
        cells["validation % (95 %)"] = text.with_interval(row.accuracy)
        cells["hold-out % (95 %)"] = text.with_interval(row.holdout_accuracy)
    elif judged:
        cells["valid."] = text.percent(row.accuracy)
        cells["hold-out %"] = _share(row.holdout_accuracy)
    elif whole:
        cells[f"{view.metric} % (95 %)"] = text.with_interval(row.accuracy)
    else:
        cells[f"{view.metric} %"] = _share(row.accuracy)
    if layout.robust and (any(other.capture.holdout for other in rows) or (layout.written and judged)):
        cells["robust %"] = text.percent(row.capture.holdout)
    if layout.written:
        return cells | _written_cells(row)
    p90 = f" ({text.milliseconds(row.latency_p90)})" if row.latency_p90 else ""
    latency = text.milliseconds(row.latency) + p90 + ("*" if row.contended else "")
    title = "ms, median (p90)" if judged else "latency ms, median (p90)"
    cells[title if whole else "ms (p90)"] = latency
    cells["size MB" if layout.memory else "MB"] = text.megabytes(row.size)
    if layout.memory:
        cells["memory MB"] = text.megabytes(row.memory)
    return cells


def _written_cells(row: Evaluation) -> dict[str, Words]:
    """Return the figures that a document shows besides."""
    sizes = (row.file_facts.download_bytes, row.file_facts.download_zstd_bytes)
    deflated, zstd = (text.MISSING if size is None else f"{size / 1e6:.2f}" for size in sizes)
    return {
        "median ms": text.milliseconds(row.latency),
        "p90 ms": text.milliseconds(row.latency_p90),
        "size MB": text.megabytes(row.size),
        "memory MB": text.megabytes(row.memory),
        "deflated MB": deflated,
        "zstd MB": zstd,
    }


def _mark(view: RunView, row: Evaluation) -> str:
    key = row.configuration.key
    if key == view.pick_key:
        return "▶"
    if key in {each.evaluation.configuration.key for each in view.incumbents}:
        return "○"
    return "≈" if key in view.tie_keys else ""


def _are_judged(rows: Sequence[Evaluation]) -> bool:
    """Return whether there are two accuracies, on validation and on the hold-out."""
    return any(row.holdout_accuracy for row in rows)


def _share(quantity: Quantity | None) -> str:
    """Format a share with the larger side of its interval, for a narrow table."""
    return f"{text.percent(quantity)} {text.half_width(quantity)}".rstrip()


def _legend(view: RunView, rows: Sequence[Evaluation], notes: Sequence[str]) -> list[str]:
    lines = [f"from ({view.metric}, latency): {'; '.join(dict.fromkeys(notes))}"] if notes else []
    if _are_judged(rows):
        chooses = "validation under capture conditions" if view.request.question.robust else "validation"
        lines.append(f"ranked by {view.metric} on {chooses}")
        lines[-1] += "; finalists ran once on the hold-out: expect that on images like these"
        if not all(row.holdout_accuracy for row in rows):
            lines.append(f"hold-out {text.MISSING}: not run there, because the file can hardly become the pick")
        if any(row.capture.holdout for row in rows):
            lines.append("robust: hold-out under capture conditions (poor light, motion blur, ...), at two strengths")
    if view.by_device:
        lines.append("each file with its figures on its slowest device; the other devices are listed below")
    lines += foreign_runtimes(view, rows)
    if any(row.card_facts.as_it_is for row in rows):
        lines.append("○ what you ship today")
    if any(row.configuration.key in view.tie_keys for row in rows):
        lines.append("≈ statistically tied with the most accurate")
    if any(row.contended for row in rows):
        lines.append("* timed while other programs used the machine")
    hidden = len(view.decision.front) - sum(row.configuration.key in view.front_keys for row in rows)
    return [*lines, f"{hidden} more on the front: see the report"] if hidden > 0 else lines


def _look(view: RunView, row: Evaluation) -> str:
    key = row.configuration.key
    if key == view.pick_key:
        return "strong good" if view.decision.feasible else "strong warn"
    return "" if key in view.tie_keys or key in view.front_keys else "dim"
