"""Draw blocks as Markdown, for ``report.md`` and for comments on pull requests.

``_files.py`` calls :func:`draw_markdown`. Every text of a user is escaped, because a name could
hold signs of Markdown or HTML. The terminal is in ``_blocks.py``, pages are in
``templates/blocks.html.j2``.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.reporting import _text as text
from advisor.reporting._blocks import (
    Block,
    Chart,
    Code,
    DataTable,
    Figures,
    Group,
    Heading,
    Items,
    Labelled,
    Paragraph,
    TableColumn,
    Words,
    columns,
    list_spans,
)
from advisor.reporting._text import escape_markdown


def draw_markdown(report: Iterable[Block]) -> str:
    """Return blocks one after the other;
    the rows of lists follow each other without an empty line.
    """
    shown = "\n\n".join(filter(None, map(_draw_block, report)))
    return re.sub(r"(?m)^(- .*)\n\n(?=- )", r"\1\n", shown)


def _draw_block(block: Block) -> str:
    """Return a block as Markdown; a chart has none."""
    match block:
        case Heading():
            level = "##" if block.id else "###"
            return f"{level} {_draw_words(block.words)}"
        case Paragraph():
            start = "> " if block.look == "unfinished" else ""
            return f"{start}{_draw_words(block.words)}"
        case Labelled():
            start = {"lead": "", "warning": "> "}.get(block.look, "- ")
            colon = ":" if block.colon else ""
            return f"{start}**{escape_markdown(block.label)}**{colon} {_draw_words(block.words)}"
        case Items():
            return "\n".join(f"- {_draw_words(row)}" for row in block.rows)
        case Code():
            command = text.plain(block.text)
            # A fence is longer than any run of backticks in the command.
            fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
            return f"{fence}\n{command}\n{fence}"
        case Group():
            summary = f"<summary>{escape_markdown(block.summary)}</summary>"
            return f"<details>{summary}\n\n{draw_markdown(block.blocks)}\n\n</details>"
        case Figures():
            titles = columns("figure", "value", "remark", left=("figure", "remark"))
            rows = [(figure.label, figure.value, figure.remark) for figure in block.rows]
            return _draw_rows(titles, rows)
        case DataTable():
            table = _draw_rows(block.columns, block.rows)
            return "\n\n".join([table, *map(escape_markdown, block.notes)])
        case Chart():
            return ""


def _draw_rows(columns: Sequence[TableColumn[Any]], rows: Iterable[Sequence[Words]]) -> str:
    """Return the lines of a table: its titles, the sides of its columns, and its rows."""
    sides = ["---" if column.left else "---:" for column in columns]
    lines = [_draw_row([column.title for column in columns]), f"| {' | '.join(sides)} |"]
    lines += map(_draw_row, rows)
    return "\n".join(lines)


def _draw_row(cells: Sequence[Words]) -> str:
    return f"| {' | '.join(map(_draw_words, cells))} |"


def _draw_words(words: Words) -> str:
    """Return text with its looks, escaped, on one line."""
    drawn = []
    for part in list_spans(words):
        # A backtick inside would end the code.
        if part.look in ("code", "command") and "`" not in part.text:
            drawn.append(f"`{text.plain(part.text)}`")
        elif part.look == "strong":
            drawn.append(f"**{escape_markdown(part.text)}**")
        else:
            drawn.append(text.inner(part.text, escape_markdown))
    return "".join(drawn)
