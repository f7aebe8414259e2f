"""The reference page of the commands, made from the command line itself.

``hooks.py`` adds it to the site: a help text is changed where its option is declared.
"""

from collections.abc import Iterator
from typing import Any

import typer

from advisor.cli._groups import GroupedCommand
from advisor.cli._main import app
from advisor.core import OptionGroup


def page() -> str:
    """Return the reference of every command, in the order of ``advisor --help``."""
    root: Any = typer.main.get_command(app)
    lines = ["# Commands", "", f"{root.help}", "", f"{root.epilog}", ""]
    for name, command in root.commands.items():
        lines += _command(f"advisor {name}", command)
        for inner, inner_command in getattr(command, "commands", {}).items():
            lines += _command(f"advisor {name} {inner}", inner_command)
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## {name}", "", "```", f"{name} {usage}", "```", "")
    for paragraph in _plain(command.help).split("\n\n"):
        text = " ".join(paragraph.split())
        yield from (f"`{text}`" if text.startswith("advisor ") else _example(text), "")
    parts = [
        parameter
        for parameter in command.get_params(context)
        if parameter.name not in ("help", "help_all")
    ]
    if not isinstance(command, GroupedCommand):
        yield from _table(parts, context)
        return
    for panel in OptionGroup:
        named = [
            parameter
            for parameter in parts
            if (getattr(parameter, "rich_help_panel", None) or OptionGroup.OUTPUT) == panel
        ]
        yield from _table(named, context, f"**{panel}**")


def _table(parts: list[Any], context: Any, *heading: str) -> Iterator[str]:
    rows = [row for parameter in parts if (row := _row(parameter, context))]
    if rows:
        yield from (*heading, "", "| option | meaning |", "| --- | --- |", *rows, "")


def _row(part: Any, context: Any) -> str:
    named, meaning = part.get_help_record(context) or ("", "")
    name = _cell(named)
    return (
        f"| `{name}` | {_cell(meaning).replace('*', chr(92) + '*').replace('<', '&lt;')} |"
        if name
        else ""
    )


def _example(text: str) -> str:
    head, separator, command = text.partition("Example: ")
    return f"{head}Example: `{command}`" if separator else text


def _plain(text: str | None) -> str:
    return (text or "").replace("\f", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
