"""A report as a value: blocks that the terminal, pages, Markdown and notebooks draw,
each in its own way.

Modules of this room make blocks. This module also draws them on a terminal, of any width and
encoding; ``_markdown.py`` draws Markdown, and ``templates/blocks.html.j2`` pages and notebooks. A
new kind of block needs all three.

A look is one or more words: ``strong``, ``dim``, ``good``, ``warn``, ``warning``, ``bad``,
``command``, ``code``, ``small``, ``tall``, ``lead``, or ``name`` (from a user's data, with its own
writing direction). A terminal draws those of :data:`STYLES`; a page has each as a class of CSS.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from advisor.reporting import _text as text

T = TypeVar("T")

PAGES = 100_000
"""Width of a column that only pages show."""

WIDE = 118
"""Terminal width from which the tables show every figure."""

PIPE_WIDTH = 160
"""Width assumed where the output is not a terminal, so that a log file is complete."""

NARROW = 72
"""Terminal width below which names are folded, to leave space for a figure."""

LEAST_SPAN_X = 0.2
LEAST_SPAN_Y = 0.02
"""Least span of the axes of a plot, as a share of the largest value:
2.85 and 2.86 ms are not at its two ends, and a lone 18.5 % is not at both of them.
"""

STYLES: Mapping[str, str] = {
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "warning": "yellow",
    "bad": "red",
    "command": "cyan",
}
"""Style of each look."""

BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:ms|kB|MB|GB)\b)")
"""The blank between a number and its unit."""

NO_BLANK = "\ue000"
"""A character without a meaning, as wide as a blank."""

_ASCII = str.maketrans(
    {
        "\u2013": "-",
        "\u2212": "-",
        "\u202f": " ",
        "×": "x",
        "…": "~",
        "±": "+",
        "≈": "~",
        "─": "-",
        "▶": ">",
        "†": "+",
    }
)


@dataclass(frozen=True)
class Span:
    """A piece of text with a look."""

    text: str
    look: str


Words = str | Span | tuple[str | Span, ...]
"""Text, some of which may have a look."""

Cell = Words | float | None
"""A cell of a table: a float is shown with three significant digits, None as a dash."""


@dataclass(frozen=True)
class Heading:
    """A heading; ``id`` names the section whose title it is, and is empty inside one."""

    words: Words
    id: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    words: Words
    look: str = ""


@dataclass(frozen=True)
class Labelled:
    """A sentence with a label; there is no ``colon`` between them
    where the sentence continues the label.
    """

    label: str
    words: Words
    look: str = ""
    colon: bool = True


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    rows: Sequence[Words]


@dataclass(frozen=True)
class Code:
    """A command to copy."""

    text: str


@dataclass(frozen=True)
class TableColumn(Generic[T]):
    """A column of a table of ``T``, whose ``title`` has the unit,
    and whose ``cell`` makes the content of a row.

    Names are aligned to the ``left``. Terminals show the column from a ``width`` on, narrow ones
    with a ``short`` title. The cells of a ``whole`` one stay on one line, so that names can be
    copied. Those of the ``head`` name the rows; the first column does if none is set.
    """

    title: str
    cell: Callable[[T], Cell] | None = None
    left: bool = False
    width: int = 0
    short: str = ""
    whole: bool = False
    head: bool = False


@dataclass(frozen=True)
class DataTable:
    """A table with its caption on a page, the look of each row (empty for none),
    and notes below it.
    """

    columns: Sequence[TableColumn[Any]]
    rows: Sequence[Sequence[Words]]
    caption: str = ""
    look: str = ""
    looks: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """A labelled figure with its unit; the remark is its limit, interval and provenance.

    ``share_of_limit`` is the figure divided by its limit (1 = just met),
    None without a limit of this kind.
    """

    label: str
    value: str
    remark: str = ""
    share_of_limit: float | None = None


@dataclass(frozen=True)
class Figures:
    """Key figures side by side."""

    rows: Sequence[Figure]


@dataclass(frozen=True)
class Group:
    """Blocks that belong together; with a ``summary``, a reader opens them."""

    blocks: "Sequence[Block]"
    summary: str = ""


@dataclass(frozen=True)
class Chart:
    """A plot with its caption and the titles of its axes;
    only pages draw it, so a table must say the same.

    A series is a name and the points (x, y) of its line; ``dots`` are points with a name. The axes
    span all points. The dot that is named ``marked`` is the largest, and the pick.
    """

    caption: str
    x: str
    y: str
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]]
    dots: Sequence[tuple[str, float, float]] = ()
    marked: str = ""
    wide: bool = False  #: x spans so much that it is drawn on a logarithmic scale

    WIDTH, HEIGHT, MARGIN = 640, 260, 44

    SIDE = 66  # at the left and the right: on a phone, the figures of the axis are nearly as wide

    @property
    def ends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Least and largest x, and least and largest y;
        values that are nearly equal stand near each other.
        """
        xs = [x for _, x, _ in self.dots]
        ys = [y for _, _, y in self.dots]
        for _, points in self.series:
            for x, y in points:
                xs.append(x)
                ys.append(y)
        return _widen_ends(xs, LEAST_SPAN_X), _widen_ends(ys, LEAST_SPAN_Y)

    def place(self, x: float, y: float) -> str:
        """Return where a point is drawn, as SVG writes it."""
        (left, right), (low, high) = self.ends
        if self.wide:
            x, left, right = map(math.log10, (x, left, right))
        across = self.SIDE + (x - left) / (right - left) * (self.WIDTH - 2 * self.SIDE)
        down = (
            self.HEIGHT - self.MARGIN - (y - low) / (high - low) * (self.HEIGHT - 2 * self.MARGIN)
        )
        return f"{across:.1f},{down:.1f}"

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        """Return the points of a line, as SVG writes them."""
        return " ".join(self.place(*point) for point in points)


def _widen_ends(values: Sequence[float], share: float) -> tuple[float, float]:
    """Return the ends of an axis, apart by a share of the largest value or more,
    with the values in the middle.
    """
    low = min(values)
    high = max(values)
    # Equal values would divide by zero, and an axis of zeros has no scale of its own.
    missing = (share * abs(high) or 1.0) - (high - low)
    if missing <= 0:
        return low, high
    # No share and no time is below 0.
    below = min(missing / 2, low) if low >= 0 else missing / 2
    return low - below, high + missing - below


Block = Heading | Paragraph | Labelled | Items | Code | DataTable | Figures | Chart | Group


def columns(*titles: str, left: Collection[str] = ()) -> tuple[TableColumn[Any], ...]:
    """Return columns that every form shows; those in ``left`` hold names."""
    return tuple(TableColumn(title, left=title in left) for title in titles)


def table_of(
    columns: Sequence[TableColumn[T]], items: Iterable[T], caption: str = "", look: str = ""
) -> DataTable:
    """Return the table of some items, each cell made by its column."""
    rows = []
    for item in items:
        rows.append([_make_cell(column, item) for column in columns])
    return DataTable(columns, rows, caption, look)


def _make_cell(column: TableColumn[T], item: T) -> Words:
    cell = column.cell(item) if column.cell else ""
    if cell is None or isinstance(cell, float):
        return text.figure(cell)
    # A cell may also return a whole number, or what has a text of its own.
    return cell if isinstance(cell, str | Span | tuple) else str(cell)


def next_command(command: str) -> Labelled:
    """Return the line that names the command to run next."""
    return Labelled("Next", Span(command, "command"))


def default_console() -> Console:
    """Return a console on standard output that is wide enough where nobody looks at a window."""
    # rich would otherwise colour numbers and paths in every sentence.
    console = Console(highlight=False)
    # The terminal, or the user, says how wide it is.
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(highlight=False, width=PIPE_WIDTH)


def show(report: Iterable[Block], console: Console | None = None) -> None:
    """Write blocks to ``console``, or
    to standard output (plain if NO_COLOR is set or it is not a terminal).
    """
    console = console or default_console()
    write(_list_lines(report, console), console)


def _list_lines(report: Iterable[Block], console: Console) -> Iterator[RenderableType]:
    """Yield what is printed, with an empty line around tables and groups, and before headings."""
    apart = False
    for number, block in enumerate(report):
        around = isinstance(block, DataTable | Group)
        if number and (apart or around or isinstance(block, Heading)):
            yield Text()
        apart = around
        match block:
            case DataTable():
                yield table(block.columns, block.rows, console)
            case Group():
                yield from _list_lines(block.blocks, console)
            case Heading():
                yield style_words(block.words, "bold")
            case Paragraph():
                line = style_words(block.words, style(block.look))
                line.no_wrap = "whole" in block.look
                line.overflow = "ignore" if line.no_wrap else None
                yield line
            case Labelled():
                yield from _break_command(block)


def _break_command(block: Labelled) -> Iterator[Text]:
    """Yield a sentence, and a command in it on a line of its own:
    one that is broken cannot be copied.
    """
    separator = ": " if block.colon else " "
    label = (f"{text.plain(block.label)}{separator}", f"bold {style(block.look)}".strip())
    *words, last = list_spans(block.words)
    if last.look != "command":
        yield Text.assemble(label, style_words(block.words))
    elif words:
        yield Text.assemble(label, style_words(tuple(words)))
        yield whole(f"  {text.plain(last.text)}", style("command"))
    else:
        line = whole("")
        line.append(*label)
        line.append_text(style_words(last))
        yield line


def whole(words: str, look: str = "") -> Text:
    """Return words that stay on one line, however narrow the terminal is."""
    return Text(words, style=look, no_wrap=True, overflow="ignore")


def style(look: str) -> str:
    """Return the style of a look."""
    return " ".join(STYLES[word] for word in look.split() if word in STYLES)


def style_words(words: Words, base: str = "") -> Text:
    """Return words with their styles, safe for a terminal;
    those with the look ``line`` begin a line.
    """
    styled = Text(style=base)
    for part in list_spans(words):
        line_break = "\n" if part.look == "line" else ""
        styled.append(line_break + text.inner(part.text), style(part.look) or None)
    return styled


def list_spans(words: Words) -> list[Span]:
    """Return the pieces of a text, each with its look; empty for none."""
    parts = words if isinstance(words, tuple) else (words,)
    return [Span(part, "") if isinstance(part, str) else part for part in parts]


def table(
    header: Sequence[TableColumn[Any]],
    rows: Iterable[Sequence[Words]],
    console: Console,
    gap: int | None = None,
) -> Table:
    """Return a table of the columns that fit the console; each row has a cell for every column.

    A cell has ``gap`` spaces at both sides; by default some at its right, as the console has room.
    """
    roomy = console.width >= WIDE
    indices = [index for index, column in enumerate(header) if console.width >= column.width]
    padding = (0, 2, 0, 0) if roomy else (0, 1, 0, 0)
    if gap is not None:
        # Above, right, below, left.
        padding = (0, gap, 0, gap)
    drawn = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, header_style="bold", show_edge=False
    )
    for column in (header[index] for index in indices):
        title = column.title if roomy else column.short or column.title
        whole = column.whole and console.width >= NARROW
        drawn.add_column(
            title, justify="left" if column.left else "right", overflow="fold", no_wrap=whole
        )
    for row in rows:
        drawn.add_row(*(style_words(row[index]) for index in indices))
    return drawn


def write(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts; in ASCII where the output does not support Unicode."""
    group = _WithUnits(list(parts))
    if console.encoding.lower().startswith("utf"):
        # A command can be wider than the terminal, and one that is cut off cannot be copied.
        console.print(group, crop=False)
        return
    # Rendered first, then made ASCII:
    # the widths of columns were computed with the real characters.
    recorder = Console(width=console.width, no_color=True, force_terminal=False, highlight=False)
    with recorder.capture() as capture:
        recorder.print(group)
    drawn = capture.get().rstrip("\n").translate(_ASCII)
    console.print(Text(drawn.encode("ascii", "replace").decode("ascii")))


class _WithUnits:
    """Prints parts; a line of words is not folded between a number and its unit."""

    def __init__(self, parts: Sequence[RenderableType]) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for part in self._parts:
            if isinstance(part, Text):
                part = part.copy()
                # Rich folds at any blank, also at those that Unicode calls unbreakable.
                part.plain = BEFORE_UNIT.sub(NO_BLANK, part.plain)
            for segment in console.render(part, options):
                yield Segment(segment.text.replace(NO_BLANK, " "), segment.style, segment.control)
