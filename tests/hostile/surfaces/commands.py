"""Every option of every command with values that no user means."""

import os
from collections.abc import Iterator, Sequence
from functools import partial

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
ENDLESS = {"serve", "mcp", "serve-hub"}
STARTS = ("--port", "--host")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each value of :data:`VALUES` for each option of each command that ends by itself."""
    for path, command in _commands(typer.main.get_command(app), ()):
        for parameter in command.params:
            flag = parameter.opts[0] if parameter.opts else ""
            if isinstance(parameter, click.Option) and parameter.is_flag:
                continue
            for number, value in enumerate(VALUES):
                given = (flag, value) if flag.startswith("-") else (value,)
                yield f"{' '.join(path)} {flag} {number}", partial(_tried, ground, (*path, *given))


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            if name not in ENDLESS:
                yield from _commands(each, (*path, name))
    else:
        yield path, command


def _tried(ground: Ground, arguments: tuple[str, ...]) -> Sequence[str]:
    place = ground.fresh()
    os.mkfifo(place / "FIFO")
    return ground.command_in(place, *arguments)
