"""Every option of every command with values that no user means, and model files that are none."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click
import typer.main

from advisor.cli._main import app
from benchmarks.hostile_surfaces.ground import Case, Ground

VALUES = ("9" * 5000, "-1", "nan", "1e400", "", "\x1b[31mred", "../" * 500, "/dev/zero", "FIFO", "[[[[", "\udc80")
ENDLESS = {"serve", "mcp", "search"}
"""They run until they are stopped; the options of a search are those of ``plan``."""
CONTENTS = (b"", b"\0" * 64, b"PK\x03\x04" + bytes(60), b"\x89HDF\r\n\x1a\n" + bytes(200), b"TFL3" * 50, b"{" * 10_000)
SUFFIXES = ("tflite", "onnx", "pth", "safetensors", "pb", "h5", "keras")
ADD = ("catalog", "add", "FILE", "--labels", "imagenet", "--mean", "127.5", "--std", "127.5")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the values for each option of each command that ends by itself, and the files."""
    for path, command in _commands(typer.main.get_command(app), ()):
        for parameter in command.params:
            flag = parameter.opts[0] if parameter.opts else ""
            if getattr(parameter, "is_flag", False):
                continue
            for number, value in enumerate(VALUES):
                given = (flag, value) if flag.startswith("-") else (value,)
                yield f"{' '.join(path)} {flag} {number}", partial(_tried, ground, (*path, *given))
    for suffix in SUFFIXES:
        for number, content in enumerate(CONTENTS):
            yield f"add a {suffix} file of content {number}", partial(_added, ground, f"a.{suffix}", content)


def _added(ground: Ground, name: str, content: bytes) -> Sequence[str]:
    arguments = (name if word == "FILE" else word for word in ADD)
    return ground.command(*arguments, files={name: content}, refused=True)


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
