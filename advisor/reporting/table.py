"""The answer on the terminal: a table, the reason, the runner-up and the next command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from advisor.core.evaluation import Evaluation
from advisor.core.figures import HOST
from advisor.core.names import ROBUST
from advisor.core.quantity import Quantity
from advisor.core.units import plural
from advisor.reporting import text
from advisor.reporting.console import default_console, next_command, write
from advisor.reporting.device_results import (
    device_decisions,
    device_results,
    foreign_runtimes,
    runtimes_sentence,
    sentence,
)
from advisor.reporting.figures import certainty, expectations
from advisor.reporting.frames import AnswerRows, chosen
from advisor.reporting.incumbents import TITLE, sentences
from advisor.reporting.phrases import counts
from advisor.reporting.ranking import shortlist
from advisor.reporting.risks import risks, warnings
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
    """

    roomy: bool = False
    origins: bool = False
    robust: bool = False
    intervals: bool = False
    memory: bool = True
    folded: bool = False


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

MAX_FLIPS = 3

_NAMES = ("", "model", "compression", "device")
"""Titles of the columns that hold names, aligned to the left."""


def print_answer(view: RunView, console: Console | None = None, rows: AnswerRows | None = None) -> None:
    """Write the answer to ``console``, or to standard output (plain if NO_COLOR is set or it is not a terminal).

    Args:
        view: the run.
        console: where to.
        rows: which rows of the table, and their order.
    """
    console = console or default_console()
    state = [Text(text.plain(view.unfinished_sentence), style="yellow"), Text()] if view.unfinished else []
    shown = chosen(view, shortlist(view), rows)
    nothing = Text("No row passes the filter.", style="yellow")
    table = [_table(view, console, shown) if shown else nothing, Text()] if view.decision.pick else []
    write([*state, *table, *_sentences(view)], console)


def _table(view: RunView, console: Console, rows: Sequence[Evaluation]) -> Table:
    """Return the fullest table that fits the terminal; if none does, the last one, with names on several lines."""
    for layout in (each for each in _LAYOUTS if each.memory or console.width < MEMORY_WIDTH):
        table = _laid_out(view, rows, layout)
        needed = console.measure(table, options=console.options.update(max_width=_UNLIMITED))
        if needed.maximum <= console.width:
            break
    return table


def _laid_out(view: RunView, rows: Sequence[Evaluation], layout: _Layout) -> Table:
    cells = [_cells(view, row, rows, layout) for row in rows]
    notes = [text.provenance_note(row) for row in rows]
    per_row = layout.origins and len(set(notes)) > 1
    padding = (0, 1 if layout.roomy else 0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, header_style="bold", show_edge=False)
    for title in cells[0]:
        if title in _NAMES:
            table.add_column(title, overflow="fold")
        else:
            table.add_column(title, justify="right")
    if per_row:
        table.add_column(f"from ({view.metric}, latency)")
    for row, by_title, note in zip(rows, cells, notes, strict=True):
        shown = [*by_title.values(), *([note] if per_row else [])]
        table.add_row(*map(Text, shown), style=_style(view, row))
    table.caption = Text("\n".join(_legend(view, rows, () if per_row else notes)), style="dim")
    table.caption_justify = "left"
    return table


def _cells(view: RunView, row: Evaluation, rows: Sequence[Evaluation], layout: _Layout) -> dict[str, str]:
    """Return the cells of a row by the titles of their columns, which are the same for all ``rows``."""
    configuration, whole, judged = row.configuration, layout.intervals, _are_judged(rows)
    shipped = {each.evaluation.configuration.key for each in view.incumbents}
    key, recipes = configuration.key, text.plain(configuration.variant_name)
    cells = {
        "": "▶" if key == view.pick_key else "○" if key in shipped else "≈" if key in view.tie_keys else "",
        "model": text.plain(configuration.card),
        "compression": recipes.replace(" ", "\n") if layout.folded else recipes,
    }
    if any(other.configuration.target.device != HOST for other in rows):
        cells["device"] = text.plain(configuration.target.device)
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
    if layout.robust and any(other.capture.holdout for other in rows):
        cells["robust %"] = text.percent(row.capture.holdout)
    p90 = f" ({text.milliseconds(row.latency_p90)})" if row.latency_p90 else ""
    latency = text.milliseconds(row.latency) + p90 + ("*" if row.contended else "")
    title = "ms, median (p90)" if judged else "latency ms, median (p90)"
    cells[title if whole else "ms (p90)"] = latency
    cells["size MB" if layout.memory else "MB"] = text.megabytes(row.size)
    if layout.memory:
        cells["memory MB"] = text.megabytes(row.memory)
    return cells


def _are_judged(rows: Sequence[Evaluation]) -> bool:
    """Return whether there are two accuracies, on validation and on the hold-out."""
    return any(row.holdout_accuracy for row in rows)


def _share(quantity: Quantity | None) -> str:
    """Format a share with the larger side of its interval, for a narrow table."""
    return f"{text.percent(quantity)} {text.half_width(quantity)}".rstrip()


def _legend(view: RunView, rows: Sequence[Evaluation], notes: Sequence[str]) -> list[str]:
    lines = [f"from ({view.metric}, latency): {'; '.join(dict.fromkeys(notes))}"] if notes else []
    if _are_judged(rows):
        chooses = "validation" if view.request.get("objective") != ROBUST else "validation under capture conditions"
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


def _style(view: RunView, row: Evaluation) -> str:
    key = row.configuration.key
    if key == view.pick_key:
        return "bold green" if view.decision.feasible else "bold yellow"
    return "" if key in view.tie_keys or key in view.front_keys else "dim"


def _sentences(view: RunView) -> list[Text]:
    decision = view.decision
    pick = "Pick for all devices" if view.by_device else "Pick"
    label, style = (pick, "bold green") if decision.feasible else ("Nothing meets the budget", "bold yellow")
    reason = text.plain(decision.reason).removeprefix(f"{label}; ")
    lines = [Text.assemble((f"{label}: ", style), reason)]
    if decision.pick is not None:
        lines += [_line(f"{name}: ", figure) for name, figure in expectations(decision.pick, view.other_metric)]
    if sure := certainty(view):
        lines.append(_line("How sure: ", sure))
    if decision.why_not_faster:
        lines.append(_line("Why not the faster tie: ", decision.why_not_faster))
    if decision.pick is not None:
        found = warnings(risks(view, decision.pick))
        lines += [_line(f"Warning, {risk.name.lower()}: ", risk.text, "yellow") for risk in found]
        lines += [_line("  ", sentence(result)) for result in device_results(view, decision.pick)]
    if compared := runtimes_sentence(view):
        lines.append(_line("Runtimes: ", compared))
    for own in device_decisions(view):
        lines.append(_line(f"On {text.plain(own.device)}: ", "the same pick" if own.same else own.decision.reason))
    lines += [_line(f"{TITLE}: ", each) for each in sentences(view)]
    if decision.runner_up is not None:
        lines.append(_line("Runner-up: ", decision.runner_up_reason or text.name(decision.runner_up)))
    lines += [_line("The pick changes if ", flip.text) for flip in decision.flips[:MAX_FLIPS]]
    lines += [_line("A looser limit: ", loosening.text) for loosening in decision.loosenings]
    lines += [_line("To meet the budget: ", relaxation.text) for relaxation in decision.relaxations]
    if not decision.feasible and not decision.relaxations and decision.pick is not None:
        lines.append(_line("To meet the budget: ", "no change of the limits admits a candidate"))
    if view.tuning is not None:
        lines.append(Text(text.plain(view.tuning_sentence)))
    lines.append(Text(counts(view), style="dim"))
    if view.dataset and view.dataset.rejected:
        rejected = plural(len(view.dataset.rejected), "image")
        lines.append(Text(f"{rejected} could not be used: see the report.", style="dim"))
    lines += [Text(text.plain(note), style="dim") for note in (view.dataset.notes if view.dataset else ())]
    if view.dataset and view.dataset.leaking:
        lines.append(Text(view.dataset.leaking, style="yellow"))
    if view.next_command:
        lines.append(next_command(view.next_command))
    return lines


def _line(label: str, sentence: str, colour: str = "") -> Text:
    return Text.assemble((label, f"bold {colour}".strip()), text.plain(sentence))
