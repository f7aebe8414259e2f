"""Draw blocks on the terminal, for any width and encoding."""

import os
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from advisor.reporting import blocks, text

WIDE = 118
"""Terminal width from which the tables show every figure."""

PIPE_WIDTH = 160
"""Width assumed where the output is not a terminal, so that a log file is complete."""

NARROW = 72
"""Terminal width below which names are folded, to leave space for a figure."""

STYLES = {
    "strong": "bold", "dim": "dim", "good": "green", "warn": "yellow", "warning": "yellow", "bad": "red",
    "command": "cyan",
}  # fmt: skip
"""Style of each look."""

_ASCII = str.maketrans(
    {"\u2013": "-", "\u2212": "-", "\u202f": " ", "×": "x", "…": "~", "±": "+", "≈": "~", "─": "-", "▶": ">"}
)


def default_console() -> Console:
    """Return a console on standard output that is wide enough where nobody looks at a window."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(highlight=False, width=PIPE_WIDTH)


def show(report: Iterable[blocks.Block], console: Console | None = None) -> None:
    """Write blocks to ``console``, or to standard output (plain if NO_COLOR is set or it is not a terminal)."""
    console = console or default_console()
    write(_lines(report, console), console)


def _lines(report: Iterable[blocks.Block], console: Console) -> Iterator[RenderableType]:
    """Yield what is printed, with an empty line around tables and groups, and before headings."""
    apart = False
    for number, block in enumerate(report):
        around = isinstance(block, blocks.DataTable | blocks.Group)
        if number and (apart or around or isinstance(block, blocks.Heading)):
            yield Text()
        apart = around
        match block:
            case blocks.DataTable():
                yield table(block.columns, block.rows, console)
            case blocks.Group():
                yield from _lines(block.blocks, console)
            case blocks.Heading():
                yield styled(block.words, "bold")
            case blocks.Paragraph():
                yield styled(block.words, style(block.look))
            case blocks.Labelled():
                label = f"{text.plain(block.label)}{': ' if block.colon else ' '}"
                yield Text.assemble((label, f"bold {style(block.look)}".strip()), styled(block.words))


def style(look: str) -> str:
    """Return the style of a look."""
    return " ".join(STYLES[word] for word in look.split() if word in STYLES)


def styled(words: blocks.Words, base: str = "") -> Text:
    """Return words with their styles, safe for a terminal; those with the look ``line`` begin a line."""
    made = Text(style=base)
    for part in words if isinstance(words, tuple) else (words,):
        own = blocks.Span(part, "") if isinstance(part, str) else part
        made.append(("\n" if own.look == "line" else "") + text.inner(own.text), style(own.look) or None)
    return made


def table(
    header: Sequence[blocks.TableColumn],
    rows: Iterable[Sequence[blocks.Words]],
    console: Console,
    gap: int | None = None,
) -> Table:
    """Return a table of the columns that fit the console; each row has a cell for every column.

    A cell has ``gap`` spaces at both sides; by default some at its right, as the console has room.
    """
    roomy = console.width >= WIDE
    indices = [index for index, column in enumerate(header) if console.width >= column.width]
    padding = (0, 2 if roomy else 1, 0, 0) if gap is None else (0, gap)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, header_style="bold", show_edge=False)
    for column in (header[index] for index in indices):
        title = column.title if roomy else column.short or column.title
        whole = column.whole and console.width >= NARROW
        made.add_column(title, justify="left" if column.left else "right", overflow="fold", no_wrap=whole)
    for row in rows:
        cells = (row[index] for index in indices)
        made.add_row(*map(styled, cells))
    return made


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
