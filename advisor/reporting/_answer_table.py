"""The short table of an answer: as wide as the terminal allows, with the meaning of its marks.

``_answer.py`` shows it on the terminal (:func:`fit_table`) and in documents
(:func:`make_written_table`). Which rows it has is decided in ``_phrases.py`` (``shortlist``).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.core import Evaluation, Provenance, Quantity, listed, show_probability
from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._answer_layout import AnswerLayout
from advisor.reporting._blocks import Block, Span, TableColumn, Words
from advisor.reporting._device_results import foreign_runtimes
from advisor.reporting._foundations import NAMED, find_holdout_rival, name_judged
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
    " which is measured once, for picks and for finalists as far as the time allows. Robust: the"
    " hold-out under capture conditions."
)

LONG_NAME = 24  # Characters; nearly all cards have shorter names

SHORTEST = "shortest wall time"
"""The clock of a latency with several threads on a busy machine, see :func:`._text.name_clock`."""

BUSY_MARKS = {
    "*": "other programs used the machine: this is the CPU time, which they hardly change",
    "†": (
        "other programs used the machine: this is the shortest time, and the p90 includes waits."
        " The budget counts that p90, so the file may be faster"
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
        block = _lay_out(view, rows, layout)
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
    return [_lay_out(view, rows, _WRITTEN)] if rows else []


def _lay_out(view: RunView, rows: Sequence[Evaluation], layout: AnswerLayout) -> blocks.DataTable:
    """Return the rows as a table of some columns,
    with what their signs mean and where the figures come from.
    """
    cells_by_title = [_list_cells(view, row, rows, layout) for row in rows]
    columns: list[TableColumn[Evaluation]] = []
    for title in cells_by_title[0]:
        columns.append(TableColumn(title, left=title in _NAMES))
    cells = [list(by_title.values()) for by_title in cells_by_title]
    sources = []
    for figure, origins in _list_origins(view, rows).items():
        # Where all rows have the same origin, the legend says it once.
        if layout.origins and len(set(origins)) > 1:
            columns.append(TableColumn(f"{figure} is", left=True))
            for cells_of_row, origin in zip(cells, origins, strict=True):
                cells_of_row.append(origin)
        else:
            sources.append(f"{figure}: {_describe_origins(rows, origins)}")
    notes = ["; ".join(sources)] if sources else []
    if not layout.written:
        notes += _explain_table(view, rows, layout.robust)
    else:
        notes += _explain_marks(rows)
        if _are_judged(rows):
            notes.append(JUDGED)
    looks = [_choose_look(view, row) for row in rows]
    return blocks.DataTable(columns, cells, looks=looks, notes=notes)


def _list_origins(view: RunView, rows: Sequence[Evaluation]) -> dict[str, list[str]]:
    """Return where the accuracy and the latency of each row come from:
    ``measured on this machine``.
    """
    accuracies = []
    latencies = []
    for row in rows:
        device = row.configuration.target.device
        accuracies.append(text.provenance(row.accuracy) or text.MISSING)
        latencies.append(text.provenance(row.latency, device) or text.MISSING)
    return {view.metric: accuracies, "latency": latencies}


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
    parts = [usual]
    for origin in others:
        parts.append(f"{origin}: {listed([*files[origin]], NAMED)}")
    return "; ".join(parts)


def _list_cells(
    view: RunView, row: Evaluation, rows: Sequence[Evaluation], layout: AnswerLayout
) -> dict[str, Words]:
    """Return the cells of a row by the titles of their columns,
    which are the same for all ``rows``.
    """
    cells = _list_names(view, row, layout)
    devices = {other.configuration.target.device for other in rows}
    target = row.configuration.target
    if layout.written or len(devices) > 1:
        cells["device"] = target.device
    cells["threads" if layout.intervals else "thr."] = str(target.threads)
    cells |= _list_accuracies(view, row, rows, layout)
    size = text.megabytes(row.size)
    memory = text.megabytes(row.memory)
    if layout.written:
        cells["median ms"] = text.milliseconds(row.latency) + _mark_busy(row)
        cells["p90 ms"] = text.milliseconds(row.latency_p90)
        cells["size MB"] = size
        cells["memory MB"] = memory
        cells["deflated MB"] = _show_download(row.file_facts.download_bytes)
        cells["zstd MB"] = _show_download(row.file_facts.download_zstd_bytes)
        return cells
    p90 = f" ({text.milliseconds(row.latency_p90)})" if row.latency_p90 else ""
    title = "ms (p90)"
    if layout.intervals:
        title = "ms, median (p90)" if _are_judged(rows) else "latency ms, median (p90)"
    cells[title] = text.milliseconds(row.latency) + p90 + _mark_busy(row)
    cells["size MB" if layout.memory else "MB"] = size
    if layout.memory:
        cells["memory MB"] = memory
    return cells


def _list_names(view: RunView, row: Evaluation, layout: AnswerLayout) -> dict[str, Words]:
    """Return the cells that say which file a row is of."""
    card = row.configuration.card
    recipes = row.configuration.variant_name
    training, _, compression = recipes.partition(" ")
    folded: Words = recipes
    if layout.folded and compression:
        folded = (training, Span(compression, "line"))
    return {
        "": verdict(view, row) if layout.written else _mark_row(view, row.configuration.key),
        "model": _fold_name(card) if layout.folded else card,
        "compression": folded,
    }


def _list_accuracies(
    view: RunView, row: Evaluation, rows: Sequence[Evaluation], layout: AnswerLayout
) -> dict[str, Words]:
    """Return the cells of the accuracy: of one part of the images, or of both if any row was
    judged on the hold-out, and under capture conditions.
    """
    cells = dict[str, Words]()
    with_ends = " (95 %)" if layout.intervals else ""
    is_judged = _are_judged(rows)
    last = row.holdout_accuracy if is_judged else row.accuracy
    if is_judged and layout.intervals:
        cells["validation % (95 %)"] = text.with_interval(row.accuracy)
    elif is_judged:
        cells["valid."] = text.percent(row.accuracy)
    part = "hold-out" if is_judged else view.metric
    cells[f"{part} %{with_ends}"] = (
        text.with_interval(last) if layout.intervals else _with_rounded_ends(last, layout.folded)
    )
    is_robust = any(other.capture.holdout for other in rows)
    if layout.robust and (is_robust or (layout.written and is_judged)):
        cells["robust %"] = text.percent(row.capture.holdout)
    return cells


def _show_download(size_bytes: float | None) -> str:
    """Format the size of a download in MB; a dash if it is not known."""
    return text.MISSING if size_bytes is None else f"{size_bytes / 1e6:.2f}"


def _fold_name(card: str) -> Words:
    """Return a long name on two lines, cut before its last part, where a reader expects it."""
    first, separator, last = card.rpartition("_")
    if len(card) <= LONG_NAME or not separator:
        return card
    return f"{first}{separator}", Span(last, "line")


def _mark_row(view: RunView, key: str) -> str:
    """Return the mark of a row: of the pick, of what ships today, or of a tie.

    One mark a row: that it is the pick says more than that it ships today,
    and that more than a tie.
    """
    if key == view.pick_key:
        return "▶"
    for incumbent in view.insights.incumbents:
        if key == incumbent.evaluation.configuration.key:
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
    if folded:
        return text.percent(quantity), Span(ends, "line")
    return f"{text.percent(quantity)} ({ends})"


def _explain_marks(rows: Sequence[Evaluation]) -> list[str]:
    """Return what the marks beside the latencies mean, and which times compare only roughly."""
    marks = {_mark_busy(row) for row in rows if row.latency is not None}
    lines = [f"{mark} {meaning}" for mark, meaning in BUSY_MARKS.items() if mark in marks]
    times = [time for mark, time in TIMES.items() if mark in marks]
    if len(times) > 1:
        first = ", ".join(times[:-1])
        lines.append(f"{first} and {times[-1]} compare only roughly")
    return lines


def _explain_shortened(rows: Sequence[Evaluation]) -> list[str]:
    """Return which networks a time limit gave fewer epochs than their recipe has."""
    cards = set()
    for row in rows:
        if row.tuning is not None and row.tuning.shortened:
            cards.add(row.configuration.card)
    if not cards:
        return []
    names = ", ".join(sorted(cards))
    return [f"fine-tuned for fewer epochs than usual, because of the time limit: {names}"]


def _share_timings(rows: Sequence[Evaluation], others: Sequence[Evaluation]) -> bool:
    """Return whether one of the rows has the latency of another file, which may have no row,
    because their graph is the same (:func:`advisor.core.pool_timings`).
    """
    files = dict[tuple[object, float], set[str]]()
    for other in others:
        if other.latency is not None and other.latency.provenance is Provenance.MEASURED:
            timing = (other.configuration.target, other.latency.value)
            files.setdefault(timing, set()).add(other.artefact_sha256)
    for row in rows:
        if row.latency is not None:
            timing = (row.configuration.target, row.latency.value)
            if len(files.get(timing, ())) > 1:
                return True
    return False


def _explain_table(view: RunView, rows: Sequence[Evaluation], robust: bool) -> list[str]:
    """Return what explains the columns and marks of a table; ``robust`` if it has that column."""
    lines = []
    if _are_judged(rows):
        lines += _explain_holdout(view, rows)
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
        lines.append(f"≈ the most accurate, or statistically tied with it{elsewhere}")
    lines += _explain_shortened(rows)
    lines += _explain_marks(rows)
    if _share_timings(rows, (*rows, *view.ok)):
        shortest = ""
        if any(_mark_busy(row) == "†" for row in rows):
            shortest = " (of their shortest times, where † stands)"
        lines.append(f"files of one graph have one latency: the median of their timings{shortest}")
    if any(row.latency_p90 and row.latency_p90.provenance is Provenance.PREDICTED for row in rows):
        confidence = show_probability(view.limits.confidence)
        lines.append(
            f"(p90) of a prediction: the latency is at most this with {confidence} confidence"
        )
    on_front = sum(row.configuration.key in view.front_keys for row in rows)
    hidden = len(view.decision.front) - on_front
    if hidden > 0:
        lines.append(f"{hidden} more on the front: see the report")
    return lines


def _explain_holdout(view: RunView, rows: Sequence[Evaluation]) -> list[str]:
    """Return what the two accuracies are, and why rows have none on the hold-out."""
    part = "validation"
    if view.request.question.robust:
        part = "validation under capture conditions"
    order = ""
    if len(rows) > 1:
        order = f"the rows below the pick are ranked by {view.metric} on {part}; "
    lines = [
        f"{order}finalists ran once on the hold-out: expect that figure on images like these",
        *_list_parts(rows),
    ]
    missing = [row.configuration.key for row in rows if not row.holdout_accuracy]
    if not missing:
        return lines
    if view.pick_key in missing or view.decision.unjudged is not None:
        why = "the search ended before that, or picked another file"
    elif view.decision.feasible:
        why = f"only {name_judged(view)} ran there"
    else:
        why = "other files are closer to the limits"
    lines.append(f"hold-out {text.MISSING}: not run there, because {why}")
    return lines


def _list_parts(rows: Sequence[Evaluation]) -> list[str]:
    """Return which files ran on a part of the hold-out only;
    none are named where all of them ran on the same part.
    """
    files = dict[str, dict[str, None]]()
    for row in rows:
        if row.holdout_accuracy is None:
            continue
        part = row.holdout_part
        judged_on = f"{part.shown}; {part.reason}" if part else ""
        # The rows of one file differ in their threads only: it is named once.
        names = files.setdefault(judged_on, {})
        names[text.file(row)] = None
    lines = []
    for judged_on, names in files.items():
        if not judged_on:
            continue
        whose = ""
        if len(files) > 1:
            whose = f" of {listed([*names], NAMED)}"
        lines.append(f"hold-out{whose}: judged on {judged_on}")
    return lines


def _choose_look(view: RunView, row: Evaluation) -> str:
    key = row.configuration.key
    if key == view.pick_key:
        return "strong good" if view.decision.feasible else "strong warn"
    if key in view.tie_keys or key in view.front_keys:
        return ""
    return "dim"
