"""The short table of an answer: as wide as the terminal allows, with the meaning of its marks.

``_answer.py`` shows it on the terminal (:func:`fit_table`) and in documents
(:func:`make_written_table`). Which rows it has is decided in ``_phrases.py`` (``shortlist``).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.core import Evaluation, Provenance, Quantity, listed
from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._answer_layout import AnswerLayout
from advisor.reporting._blocks import Block, Span, TableColumn, Words
from advisor.reporting._device_results import foreign_runtimes
from advisor.reporting._foundations import NAMED, find_holdout_rival
from advisor.reporting._phrases import shortlist, verdict
from advisor.reporting._view import RunView

MEMORY_WIDTH = 100
"""Terminal width from which the memory is always shown, even if long names take several lines."""

_UNLIMITED = 10_000
"""Columns of a terminal that every table fits."""

_NAMES = ("", "model", "compression", "device")
"""Titles of the columns that hold names, aligned to the left."""

JUDGED = (
    "Candidates are ranked by their accuracy on validation. Expect the accuracy on the hold-out,"
    " which is measured once, for finalists. Robust: the hold-out under capture conditions."
)

LONG_NAME = 24  # Characters; nearly all cards have shorter names

SHORTEST = "shortest wall time"
"""The clock of a latency with several threads on a busy machine, see :func:`._text.name_clock`."""

BUSY_MARKS = {
    "*": "other programs used the machine: the CPU time, which they hardly change",
    "†": (
        "other programs used the machine: the shortest time, and a p90 that includes waits. The"
        " budget counts that p90, so the file may be faster"
    ),
}
"""The meaning of the marks beside a latency. No clock tells the CPU time of several threads."""

TIMES = {"*": "CPU times (*)", "†": "shortest times (†)", "": "medians (no mark)"}
"""The kinds of latencies by their mark; those without one are medians."""

_WRITTEN = AnswerLayout(origins=True, robust=True, intervals=True, written=True)

_LAYOUTS = (
    AnswerLayout(roomy=True, origins=True, robust=True, intervals=True),
    AnswerLayout(origins=True, robust=True, intervals=True),
    AnswerLayout(robust=True, intervals=True),
    AnswerLayout(robust=True),
    AnswerLayout(),
    AnswerLayout(folded=True),
    AnswerLayout(memory=False),
    AnswerLayout(memory=False, folded=True),
)
"""The table has the first of these layouts that the terminal is wide enough for."""


def fit_table(view: RunView, console: Console, rows: Sequence[Evaluation]) -> Table:
    """Return the fullest table that fits the terminal;
    if none does, the last one, with names on several lines.
    """
    layouts = list(_LAYOUTS)
    # A wide terminal keeps the memory: it is asked for more often than short names.
    if console.width >= MEMORY_WIDTH:
        layouts = [layout for layout in _LAYOUTS if layout.memory]
    for layout in layouts:
        block = _laid_out(view, rows, layout)
        table = blocks.table(block.columns, block.rows, console, int(layout.roomy))
        for row, look in zip(table.rows, block.looks, strict=True):
            row.style = blocks.style(look)
        table.caption = Text("\n".join(map(text.plain, block.notes)), style="dim")
        table.caption_justify = "left"
        # Measured without a limit of width,
        # because a table that is too wide is folded until it fits.
        needed = console.measure(table, options=console.options.update(max_width=_UNLIMITED))
        if needed.maximum <= console.width:
            break
    return table


def make_written_table(view: RunView) -> list[Block]:
    """Return the short table for a document; nothing without a result."""
    rows = shortlist(view, find_holdout_rival(view))
    return [_laid_out(view, rows, _WRITTEN)] if rows else []


def _laid_out(view: RunView, rows: Sequence[Evaluation], layout: AnswerLayout) -> blocks.DataTable:
    """Return the rows as a table of some columns,
    with what their signs mean and where the figures come from.
    """
    cells = [_cells(view, row, rows, layout) for row in rows]
    columns: list[TableColumn[Evaluation]] = [
        TableColumn(title, left=title in _NAMES) for title in cells[0]
    ]
    shown = [list(by_title.values()) for by_title in cells]
    sources = []
    for figure, origins in _list_origins(view, rows).items():
        # Where all rows have the same origin, the legend says it once.
        if layout.origins and len(set(origins)) > 1:
            columns.append(TableColumn(f"{figure} is", left=True))
            shown = [[*row, origin] for row, origin in zip(shown, origins, strict=True)]
        else:
            sources.append(f"{figure}: {_describe_origins(rows, origins)}")
    legend = ["; ".join(sources)] if sources else []
    if not layout.written:
        legend += _legend(view, rows, layout.robust)
    else:
        legend += [*_explain_marks(rows), *([JUDGED] if _are_judged(rows) else [])]
    return blocks.DataTable(columns, shown, looks=[_look(view, row) for row in rows], notes=legend)


def _list_origins(view: RunView, rows: Sequence[Evaluation]) -> dict[str, list[str]]:
    """Return where the accuracy and the latency of each row come from:
    ``measured on this machine``.
    """
    places = [row.configuration.target.device for row in rows]
    latencies = [
        text.provenance(row.latency, place) or text.MISSING
        for row, place in zip(rows, places, strict=True)
    ]
    return {
        view.metric: [text.provenance(row.accuracy) or text.MISSING for row in rows],
        "latency": latencies,
    }


def _describe_origins(rows: Sequence[Evaluation], origins: Sequence[str]) -> str:
    """Return where a figure comes from in most rows,
    and the files of the others with their origins.
    """
    files = dict[str, dict[str, None]]()
    for row, origin in zip(rows, origins, strict=True):
        # The rows of one file differ in their threads only: it is named once.
        names = files.setdefault(origin, {})
        names[text.file(row)] = None
    usual, *others = sorted(files, key=origins.count, reverse=True)
    return "; ".join(
        [usual, *(f"{origin}: {listed([*files[origin]], NAMED)}" for origin in others)]
    )


def _cells(
    view: RunView, row: Evaluation, rows: Sequence[Evaluation], layout: AnswerLayout
) -> dict[str, Words]:
    """Return the cells of a row by the titles of their columns,
    which are the same for all ``rows``.
    """
    target = row.configuration.target
    whole = layout.intervals
    judged = _are_judged(rows)
    recipes = row.configuration.variant_name
    first, _, second = recipes.partition(" ")
    cells: dict[str, Words] = {
        "": verdict(view, row) if layout.written else _mark(view, row.configuration.key),
        "model": _fold_name(row.configuration.card) if layout.folded else row.configuration.card,
        "compression": (first, Span(second, "line")) if layout.folded and second else recipes,
    }
    if layout.written or len({other.configuration.target.device for other in rows}) > 1:
        cells["device"] = target.device
    cells["threads" if whole else "thr."] = str(target.threads)
    last = row.holdout_accuracy if judged else row.accuracy
    if judged:
        shown = text.with_interval(row.accuracy) if whole else text.percent(row.accuracy)
        cells["validation % (95 %)" if whole else "valid."] = shown
    title = f"{'hold-out' if judged else view.metric} %{' (95 %)' if whole else ''}"
    cells[title] = text.with_interval(last) if whole else _with_rounded_ends(last, layout.folded)
    if layout.robust and (
        any(other.capture.holdout for other in rows) or (layout.written and judged)
    ):
        cells["robust %"] = text.percent(row.capture.holdout)
    size = text.megabytes(row.size)
    memory = text.megabytes(row.memory)
    if layout.written:
        sizes = (row.file_facts.download_bytes, row.file_facts.download_zstd_bytes)
        deflated, zstd = (text.MISSING if size is None else f"{size / 1e6:.2f}" for size in sizes)
        median = text.milliseconds(row.latency) + _mark_busy(row)
        latencies = {"median ms": median, "p90 ms": text.milliseconds(row.latency_p90)}
        return {
            **cells,
            **latencies,
            "size MB": size,
            "memory MB": memory,
            "deflated MB": deflated,
            "zstd MB": zstd,
        }
    p90 = f" ({text.milliseconds(row.latency_p90)})" if row.latency_p90 else ""
    title = "ms, median (p90)" if judged else "latency ms, median (p90)"
    cells[title if whole else "ms (p90)"] = text.milliseconds(row.latency) + p90 + _mark_busy(row)
    cells["size MB" if layout.memory else "MB"] = size
    return {**cells, "memory MB": memory} if layout.memory else cells


def _fold_name(card: str) -> Words:
    """Return a long name on two lines, cut before its last part, where a reader expects it."""
    first, separator, last = card.rpartition("_")
    if len(card) <= LONG_NAME or not separator:
        return card
    return f"{first}{separator}", Span(last, "line")


def _mark(view: RunView, key: str) -> str:
    # One mark a row: that it is the pick says more than that it ships today,
    # and that more than a tie.
    if key == view.pick_key:
        return "▶"
    if any(
        key == incumbent.evaluation.configuration.key for incumbent in view.insights.incumbents
    ):
        return "○"
    return "≈" if key in view.tie_keys else ""


def _mark_busy(row: Evaluation) -> str:
    """Return the mark of :data:`BUSY_MARKS` for the latency of a row;
    empty for one of a quiet machine.
    """
    if not row.contended or row.latency is None:
        return ""
    return "†" if text.name_clock(row.latency) == SHORTEST else "*"


def _are_judged(rows: Sequence[Evaluation]) -> bool:
    """Return whether there are two accuracies, on validation and on the hold-out."""
    return any(row.holdout_accuracy for row in rows)


def _with_rounded_ends(quantity: Quantity | None, folded: bool) -> Words:
    """Format a share with its interval in whole percent, for a narrow table:
    ``91.1 (88-93)``, with an en dash.
    """
    ends = text.interval(quantity, 0)
    if not ends:
        return text.percent(quantity)
    return (
        (text.percent(quantity), Span(ends, "line"))
        if folded
        else f"{text.percent(quantity)} ({ends})"
    )


def _explain_marks(rows: Sequence[Evaluation]) -> list[str]:
    """Return what the marks beside the latencies mean, and which times compare only roughly."""
    marks = {_mark_busy(row) for row in rows if row.latency is not None}
    lines = [f"{mark} {meaning}" for mark, meaning in BUSY_MARKS.items() if mark in marks]
    times = [time for mark, time in TIMES.items() if mark in marks]
    if len(times) > 1:
        first = ", ".join(times[:-1])
        lines.append(f"{first} and {times[-1]} compare only roughly")
    return lines


def _legend(view: RunView, rows: Sequence[Evaluation], robust: bool) -> list[str]:
    """Return what explains the columns and marks of a table; ``robust`` if it has that column."""
    lines = []
    if _are_judged(rows):
        chooses = (
            "validation under capture conditions" if view.request.question.robust else "validation"
        )
        ranked = f"ranked by {view.metric} on {chooses}; finalists ran once on the hold-out"
        lines.append(f"{ranked}: expect that figure on images like these")
        lines += _list_parts(rows)
        missing = [row.configuration.key for row in rows if not row.holdout_accuracy]
        if missing:
            early = "the search ended before that, or picked another file"
            is_early = view.pick_key in missing or view.decision.unjudged is not None
            hopeless = "the file can hardly become the pick"
            if not view.decision.feasible:
                hopeless = "other files are closer to the limits"
            why = early if is_early else hopeless
            lines.append(f"hold-out {text.MISSING}: not run there, because {why}")
        if robust and any(row.capture.holdout for row in rows):
            lines.append(
                "robust: hold-out under capture conditions (poor light, motion blur, ...), at two"
                " strengths"
            )
    if view.by_device:
        lines.append(
            "each file with its figures on its slowest device; the other devices are listed below"
        )
    lines += foreign_runtimes(view, rows)
    if any(row.card_facts.as_it_is for row in rows):
        lines.append("○ what you ship today")
    if any(row.configuration.key in view.tie_keys for row in rows):
        tied = {row.variant for row in view.decision.ties}
        more = len(tied - {row.variant for row in rows})
        elsewhere = f"; {more} more in the report" if more else ""
        lines.append(f"≈ statistically tied with the most accurate{elsewhere}")
    lines += _explain_marks(rows)
    if any(row.latency_p90 and row.latency_p90.provenance is Provenance.PREDICTED for row in rows):
        lines.append("(p90) of a prediction: with 90 % confidence the latency is no longer")
    hidden = len(view.decision.front) - sum(
        row.configuration.key in view.front_keys for row in rows
    )
    return [*lines, f"{hidden} more on the front: see the report"] if hidden > 0 else lines


def _list_parts(rows: Sequence[Evaluation]) -> list[str]:
    """Return which files ran on a part of the hold-out only;
    none are named where all of them ran on the same part.
    """
    files = dict[str, dict[str, None]]()
    for row in rows:
        if row.holdout_accuracy is None:
            continue
        part = row.holdout_part.shown if row.holdout_part else ""
        # The rows of one file differ in their threads only: it is named once.
        names = files.setdefault(part, {})
        names[text.file(row)] = None
    lines = []
    for part, names in files.items():
        if not part:
            continue
        whose = ""
        if len(files) > 1:
            whose = f" of {listed([*names], NAMED)}"
        lines.append(f"hold-out{whose}: judged on {part}, as the time limit left no time for more")
    return lines


def _look(view: RunView, row: Evaluation) -> str:
    key = row.configuration.key
    if key == view.pick_key:
        return "strong good" if view.decision.feasible else "strong warn"
    if key in view.tie_keys or key in view.front_keys:
        return ""
    return "dim"
