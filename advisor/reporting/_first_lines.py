"""The lines above the table of an answer on a terminal: the file, its figures, the main risk,
and the next step.

``_answer.py`` prints them. They are shortened until they take few enough rows; what a shorter form
leaves out follows the table.
"""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console

from advisor.reporting import _blocks as blocks, _text as text
from advisor.reporting._blocks import Block, Labelled, Paragraph
from advisor.reporting._explanation import opening_lines
from advisor.reporting._risk import Level
from advisor.reporting._risks import NOT_YOUR_DEVICE, list_risks
from advisor.reporting._steps import is_int8_next, next_step
from advisor.reporting._view import RunView

ROWS = 14
"""Rows of the terminal that the first lines take at most: a reader takes them in at once."""

SHORTER = ((2, True), (1, True), (1, False))
"""Shorter forms of the lines, which only name a high risk:
the number of phones, and whether they have reasons.
"""


@dataclass(frozen=True)
class FirstLines:
    """The first lines in one of their forms; all are empty without a pick that has its figures."""

    opening: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  #: lines of the full form, which follow the table in this one
    risk: Labelled | None = None
    step: Labelled | None = None

    def list_blocks(self) -> Iterator[Block]:
        """Yield the lines in their order."""
        for number, line in enumerate(self.opening):
            # A path that is broken cannot be copied.
            yield Paragraph(line, "" if number else "strong whole")
        yield from filter(None, (self.risk, self.step))


def fit_first_lines(view: RunView, console: Console) -> FirstLines:
    """Return the first lines in the fullest form of at most :data:`ROWS` rows;
    the shortest one if none fits.

    Long names and busy machines make sentences longer. What a shorter form leaves out is in the
    report, and warnings and what was not made of the file follow the table.
    """
    lines = opening_lines(view, step_follows=is_int8_next(view))
    if not lines:
        return FirstLines()
    step = next_step(view)
    form = FirstLines(lines, risk=_state_risk(view, lines), step=step)
    left_out = tuple(line for line in lines if line not in opening_lines(view, step_follows=True))
    for phones, reasons in SHORTER:
        if _count_rows(form, console.width) <= ROWS:
            break
        lines = opening_lines(view, True, phones, reasons)
        form = FirstLines(lines, left_out, _state_risk(view, lines, named=True), step)
    return form


def _count_rows(lines: FirstLines, width: int) -> int:
    """Return how many rows of a terminal the lines take;
    the terminal breaks a line that is printed whole.
    """
    stream = io.StringIO()
    blocks.show(lines.list_blocks(), Console(file=stream, width=width, highlight=False))
    rows = 0
    for line in stream.getvalue().splitlines():
        rows += math.ceil(cell_len(line.rstrip()) / width)
    return rows


def _state_risk(view: RunView, lines: tuple[str, ...], named: bool = False) -> Labelled | None:
    """Return the first sentence of the highest risk that ``lines`` do not state;
    None if all are low.

    The sentence is left out if the risk is only ``named``:
    that of a high risk stands below the table.
    """
    pick_risks = list_risks(view, view.decision.pick) if view.decision.pick else ()
    stated = " ".join(lines)
    high = []
    moderate = []
    for risk in pick_risks:
        # The lines above name the device and other risks already.
        if risk.name == NOT_YOUR_DEVICE or risk.text in stated:
            continue
        if risk.warns:
            high.append(risk)
        elif risk.level is Level.SOME:
            moderate.append(risk)
    risks = high or moderate
    if not risks:
        return None
    main = risks[0]
    if named and high:
        more = f", and {len(high) - 1} more" if len(high) > 1 else ""
        return Labelled("Warning", f"{main.name.lower()}{more}, see below")
    more = f" ({len(high) - 1} more below)" if len(high) > 1 else ""
    label = "Warning" if high else "Risk"
    return Labelled(f"{label}, {main.name.lower()}", f"{text.first_sentence(main.text)}{more}")
