"""A report as a value: blocks that the terminal, pages, Markdown and notebooks draw, each in its own way.

A look is one or more words: ``strong``, ``dim``, ``good``, ``warn``, ``bad``, ``command``, ``code``, ``small``, or
``name`` (from a user's data, with its own writing direction). Each form draws those that it knows. On pages, the others
are classes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A piece of text with a look."""

    text: str
    look: str


Words = str | Span | tuple[str | Span, ...]
"""Text, some of which may have a look."""


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
    """A sentence with a label; there is no ``colon`` between them where the sentence continues the label."""

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
class TableColumn:
    """A column of a table.

    Attributes:
        title: title with the unit.
        left: aligned to the left, for names.
        width: width that the terminal needs to show the column.
        short: shorter title for narrow terminals, or empty.
        whole: cells stay on one line, so that names can be copied.
        head: its cells name the rows; the first column does if none is set.
    """

    title: str
    left: bool = False
    width: int = 0
    short: str = ""
    whole: bool = False
    head: bool = False


PAGES = 100_000
"""Width of a column that only pages show."""


@dataclass(frozen=True)
class DataTable:
    """A table with its caption on a page, the look of each row (empty for none), and notes below it."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Words]]
    caption: str = ""
    look: str = ""
    looks: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Figure:
    """A labelled figure with a remark.

    Attributes:
        label: what it is.
        value: the figure with its unit.
        remark: its limit, interval and provenance.
        share_of_limit: the figure divided by its limit (1 = just met), None without a limit of this kind.
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

    blocks: Sequence[Block]
    summary: str = ""


Block = Heading | Paragraph | Labelled | Items | Code | DataTable | Figures | Group


def columns(*titles: str, left: Collection[str] = ()) -> tuple[TableColumn, ...]:
    """Return columns that every form shows; those in ``left`` hold names."""
    return tuple(TableColumn(title, left=title in left) for title in titles)


def next_command(command: str) -> Labelled:
    """Return the line that names the command to run next."""
    return Labelled("Next", Span(command, "command"))
