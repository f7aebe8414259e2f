"""Tables and lines on the terminal, for any width and encoding."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from advisor.reporting import text

WIDE = 118
"""Terminal width from which the tables show every figure."""

PIPE_WIDTH = 160
"""Width assumed where the output is not a terminal, so that a log file is complete."""

NARROW = 72
"""Terminal width below which names are folded, to leave space for a figure."""

_ASCII = str.maketrans(
    {"\u2013": "-", "\u2212": "-", "\u202f": " ", "×": "x", "…": "~", "±": "+", "≈": "~", "─": "-", "▶": ">"}
)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        title: title with the unit.
        left: aligned to the left, for names.
        width: width that the terminal needs to show the column.
        short: shorter title for narrow terminals, or empty.
        whole: cells stay on one line, so that names can be copied.
    """

    title: str
    left: bool = False
    width: int = 0
    short: str = ""
    whole: bool = False


def columns(*titles: str, left: Collection[str] = ()) -> tuple[TableColumn, ...]:
    """Return columns that every terminal shows; those in ``left`` hold names."""
    return tuple(TableColumn(title, left=title in left) for title in titles)


def default_console() -> Console:
    """Return a console on standard output that is wide enough where nobody looks at a window."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(highlight=False, width=PIPE_WIDTH)


def table(header: Sequence[TableColumn], rows: Iterable[Sequence[str | Text]], console: Console) -> Table:
    """Return a table of the columns that fit the console; each row has a cell for every column."""
    roomy = console.width >= WIDE
    indices = [index for index, column in enumerate(header) if console.width >= column.width]
    made = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2 if roomy else 1, 0, 0), header_style="bold", show_edge=False
    )
    for column in (header[index] for index in indices):
        title = column.title if roomy else column.short or column.title
        whole = column.whole and console.width >= NARROW
        made.add_column(title, justify="left" if column.left else "right", overflow="fold", no_wrap=whole)
    for row in rows:
        cells = [row[index] for index in indices]
        made.add_row(*(cell if isinstance(cell, Text) else Text(text.plain(cell)) for cell in cells))
    return made


def line(label: str, sentence: str, style: str = "") -> Text:
    """Return ``label: sentence`` with the label in bold."""
    return Text.assemble((f"{label}: ", f"bold {style}".strip()), text.plain(sentence))


def next_command(command: str) -> Text:
    """Return the line that names the command to run next."""
    return Text.assemble(("Next: ", "bold"), (text.plain(command), "cyan"))


def write(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts; in ASCII where the output does not support Unicode."""
    group = Group(*parts)
    if console.encoding.lower().startswith("utf"):
        console.print(group, soft_wrap=False)
        return
    recorder = Console(width=console.width, no_color=True, force_terminal=False, highlight=False)
    with recorder.capture() as capture:
        recorder.print(group)
    console.print(Text(capture.get().rstrip("\n").translate(_ASCII).encode("ascii", "replace").decode("ascii")))
