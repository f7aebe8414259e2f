"""The answer on the terminal: a table, the reason, the runner-up and the next command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from advisor.core.evaluation import Evaluation
from advisor.core.figures import HOST
from advisor.core.quantity import Quantity
from advisor.engine.question.names import ROBUST
from advisor.reporting import text
from advisor.reporting.console import default_console, write
from advisor.reporting.device_results import device_decisions, device_results, foreign_runtimes, sentence
from advisor.reporting.phrases import counts
from advisor.reporting.ranking import shortlist
from advisor.reporting.view import RunView

FULL_WIDTH = 122
"""Terminal width from which every row has its provenance; on narrower ones it is once under the table."""

ROBUST_WIDTH = 150
"""Terminal width from which the accuracy under capture conditions has a column."""

MAX_FLIPS = 3


def print_answer(view: RunView, console: Console | None = None) -> None:
    """Write the answer to ``console``, or to standard output (plain if NO_COLOR is set or it is not a terminal)."""
    console = console or default_console()
    write([answer(view, console)], console)


def answer(view: RunView, console: Console) -> RenderableType:
    """Return the answer of a run, for the width of ``console``."""
    lines: list[RenderableType] = [] if view.decision.pick is None else [_table(view, console), Text()]
    lines.extend(_sentences(view))
    return Group(*lines)


@dataclass(frozen=True)
class _Shape:
    """Which columns the table has.

    Attributes:
        wide: figures have intervals, and memory has a column.
        judged: there are two accuracies, on validation and on the hold-out.
        robust: the accuracy under capture conditions has a column.
        devices: the device has a column.
    """

    wide: bool
    judged: bool
    robust: bool
    devices: bool

    @classmethod
    def of(cls, rows: Sequence[Evaluation], width: int) -> _Shape:
        return cls(
            wide=width >= FULL_WIDTH,
            judged=any(row.holdout_accuracy for row in rows),
            robust=width >= ROBUST_WIDTH and any(row.capture.holdout for row in rows),
            devices=any(row.configuration.target.device != HOST for row in rows),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return ("", "model", "compression", *(["device"] if self.devices else []))

    @property
    def figures(self) -> tuple[str, ...]:
        if not self.wide:
            return ("thr.", *(("valid.", "hold-out %") if self.judged else ("top-1 %",)), "ms (p90)", "MB")
        top1 = ("validation % (95 %)", "hold-out % (95 %)") if self.judged else ("top-1 % (95 %)",)
        latency = "ms, median (p90)" if self.judged else "latency ms, median (p90)"
        return ("threads", *top1, *(["robust %"] if self.robust else []), latency, "size MB", "memory MB")


def _table(view: RunView, console: Console) -> Table:
    rows = shortlist(view)
    shape = _Shape.of(rows, console.width)
    notes = [text.provenance_note(row) for row in rows]
    per_row = shape.wide and len(set(notes)) > 1
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if shape.wide else 0), header_style="bold", show_edge=False
    )
    for header in shape.names:
        table.add_column(header, overflow="fold")
    for header in shape.figures:
        table.add_column(header, justify="right")
    if per_row:
        table.add_column("from (top-1, latency)")
    for row, note in zip(rows, notes, strict=True):
        cells = [*_cells(view, row, shape), *([note] if per_row else [])]
        table.add_row(*(Text(cell) for cell in cells), style=_style(view, row))
    table.caption = Text("\n".join(_legend(view, rows, () if per_row else notes)), style="dim")
    table.caption_justify = "left"
    return table


def _legend(view: RunView, rows: Sequence[Evaluation], notes: Sequence[str]) -> list[str]:
    lines = [f"from (top-1, latency): {'; '.join(dict.fromkeys(notes))}"] if notes else []
    if any(row.holdout_accuracy for row in rows):
        chooses = "validation" if view.request.get("objective") != ROBUST else "validation under capture conditions"
        lines.append(f"ranked by {chooses}; expect the accuracy on the hold-out, which is measured once, for finalists")
        if any(row.capture.holdout for row in rows):
            lines.append("robust: hold-out under capture conditions (poor light, motion blur, ...), at two strengths")
    if view.by_device:
        lines.append("each file with its figures on its slowest device; the other devices are listed below")
    lines += foreign_runtimes(view, rows)
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


def _cells(view: RunView, row: Evaluation, shape: _Shape) -> list[str]:
    configuration, wide = row.configuration, shape.wide
    key = configuration.key
    mark = "▶" if key == view.pick_key else "≈" if key in view.tie_keys else ""
    p90 = f" ({text.milliseconds(row.latency_p90)})" if row.latency_p90 else ""
    top1 = [_share(row.accuracy, wide)]
    if shape.judged:
        top1 = [top1[0] if wide else text.percent(row.accuracy), _share(row.holdout_accuracy, wide)]
    cells = [
        mark,
        text.plain(configuration.card),
        text.plain(configuration.variant_name),
        *([text.plain(configuration.target.device)] if shape.devices else []),
        str(configuration.target.threads),
        *top1,
        *([text.percent(row.capture.holdout)] if shape.robust else []),
        text.milliseconds(row.latency) + p90 + ("*" if row.contended else ""),
        text.megabytes(row.size),
    ]
    return [*cells, text.megabytes(row.memory)] if wide else cells


def _share(quantity: Quantity | None, wide: bool) -> str:
    """Format a share with its interval, in full if the table is wide."""
    ends = text.interval(quantity)
    if not ends:
        return text.percent(quantity)
    return text.percent(quantity) + (f" ({ends})" if wide else f" {text.half_width(quantity)}")


def _sentences(view: RunView) -> list[Text]:
    decision = view.decision
    pick = "Pick for all devices" if view.by_device else "Pick"
    lines = [_labelled(pick if decision.feasible else "Nothing meets the budget", decision.reason, view)]
    if decision.pick is not None:
        lines += [_line("  ", sentence(result)) for result in device_results(view, decision.pick)]
    for own in device_decisions(view):
        lines.append(_line(f"On {text.plain(own.device)}: ", "the same pick" if own.same else own.decision.reason))
    if decision.runner_up is not None:
        lines.append(_line("Runner-up: ", decision.runner_up_reason or text.name(decision.runner_up)))
    lines += [_line("The pick changes if ", flip.text) for flip in decision.flips[:MAX_FLIPS]]
    lines += [_line("To meet the budget: ", relaxation.text) for relaxation in decision.relaxations]
    if not decision.feasible and not decision.relaxations and decision.pick is not None:
        lines.append(_line("To meet the budget: ", "no change of the limits admits a candidate"))
    lines += _remarks(view)
    if view.next_command:
        lines.append(Text.assemble(("Next: ", "bold"), (text.plain(view.next_command), "cyan")))
    return lines


def _labelled(label: str, sentence: str, view: RunView) -> Text:
    style = "bold green" if view.decision.feasible else "bold yellow"
    rest = text.plain(sentence)
    rest = rest.removeprefix(f"{label}; ")
    return Text.assemble((f"{label}: ", style), rest)


def _line(label: str, sentence: str) -> Text:
    return Text.assemble((label, "bold"), text.plain(sentence))


def _remarks(view: RunView) -> list[Text]:
    lines = [Text(counts(view), style="dim")]
    if view.dataset and view.dataset.rejected:
        rejected = text.plural(len(view.dataset.rejected), "image")
        lines.append(Text(f"{rejected} could not be used: see the report.", style="dim"))
    if view.dataset and view.dataset.leaking:
        lines.append(Text(view.dataset.leaking, style="yellow"))
    return lines
