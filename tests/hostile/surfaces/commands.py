"""Every option of every command with values that no user means."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, cycle, islice
from typing import Any

import click
import typer.main

from advisor.cli.main import app
from tests.hostile.surfaces.ground import Case, Ground

VALUES = (
    "9" * 5000,
    "-1",
    "nan",
    "1e400",
    "",
    "\x1b[31mred",
    "a" * 5000,
    "../" * 500,
    "/dev/zero",
    "FIFO",
    "[[[[",
    "\udc80",
)
ENDLESS = {"serve", "mcp", "search"}
"""They run until they are stopped; the options of a search are those of ``plan``."""
EACH = len(VALUES)  # Values of :data:`VALUES` for an option


def cases(ground: Ground) -> Iterator[Case]:
    """Yield some values, in turn, for each option of each command that ends by itself."""
    turn = count()
    for path, command in _commands(typer.main.get_command(app), ()):
        for parameter in command.params:
            flag = parameter.opts[0] if parameter.opts else ""
            if getattr(parameter, "is_flag", False):
                continue
            for number, value in islice(
                cycle(enumerate(VALUES)), start := next(turn) * EACH % len(VALUES), start + EACH
            ):
                given = (flag, value) if flag.startswith("-") else (value,)
                yield f"{' '.join(path)} {flag} {number}", partial(_tried, ground, (*path, *given))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if name not in ENDLESS and (found := command.get_command(context, name)) is not None:
            yield from _commands(found, (*path, name))


def _tried(ground: Ground, arguments: tuple[str, ...]) -> Sequence[str]:
    place = ground.fresh()
    os.mkfifo(place / "FIFO")
    return ground.command_in(place, *arguments)
