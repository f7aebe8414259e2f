"""Draw blocks as Markdown, for ``report.md`` and for comments on pull requests.

``_files.py`` calls :func:`draw_markdown`. Every text of a user is escaped, because a name could
hold signs of Markdown or HTML. The terminal is in ``_blocks.py``, pages are in
``templates/blocks.html.j2``.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.core import markdown as escaped
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
            return f"{'##' if block.id else '###'} {_words(block.words)}"
        case Paragraph():
            return f"{'> ' if block.look == 'unfinished' else ''}{_words(block.words)}"
        case Labelled():
            start = {"lead": "", "warning": "> "}.get(block.look, "- ")
            return (
                f"{start}**{escaped(block.label)}**{':' if block.colon else ''}"
                f" {_words(block.words)}"
            )
        case Items():
            return "\n".join(f"- {_words(row)}" for row in block.rows)
        case Code():
            command = text.plain(block.text)
            # A fence is longer than any run of backticks in the command.
            fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
            return f"{fence}\n{command}\n{fence}"
        case Group():
            summary = f"<summary>{escaped(block.summary)}</summary>"
            return f"<details>{summary}\n\n{draw_markdown(block.blocks)}\n\n</details>"
        case Figures():
            titles = columns("figure", "value", "remark", left=("figure", "remark"))
            return _rows(
                titles, [(figure.label, figure.value, figure.remark) for figure in block.rows]
            )
        case DataTable():
            return "\n\n".join([_rows(block.columns, block.rows), *map(escaped, block.notes)])
        case Chart():
            return ""


def _rows(columns: Sequence[TableColumn[Any]], rows: Iterable[Sequence[Words]]) -> str:
    sides = ["---" if column.left else "---:" for column in columns]
    shown = [[column.title for column in columns], *rows]
    head, *others = (f"| {' | '.join(map(_words, cells))} |" for cells in shown)
    return "\n".join([head, f"| {' | '.join(sides)} |", *others])


def _words(said: Words) -> str:
    """Return text with its looks, escaped, on one line."""
    shown = []
    for part in list_spans(said):
        # A backtick inside would end the code.
        if part.look in ("code", "command") and "`" not in part.text:
            shown.append(f"`{text.plain(part.text)}`")
        else:
            shown.append(
                f"**{escaped(part.text)}**"
                if part.look == "strong"
                else text.inner(part.text, escaped)
            )
    return "".join(shown)
