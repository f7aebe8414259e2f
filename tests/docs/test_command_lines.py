"""Each command line that the documentation shows is one that the command takes."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from advisor.cli.main import app

PROJECT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *```(?:sh|console)?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Page and line of each command line in a block of shell commands."""
    pages = [
        PROJECT / "README.md",
        *sorted((PROJECT / "docs").glob("*.md")),
        *sorted((PROJECT / "docs").glob("tutorials/*")),
        *sorted((PROJECT / "docs").glob("reference/*")),
    ]
    found = []
    for page in pages:
        for block in FENCE.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
            lines = (line.strip().removeprefix("$ ") for line in block.splitlines())
            found += [(page.name, line) for line in lines if re.match(r"advisor [a-z]", line)]
    return found


@functools.cache
def root() -> Any:
    return get_command(app)


@pytest.mark.parametrize(("page", "line"), shown())
def test_the_command_takes_it(page: str, line: str) -> None:
    words = shlex.split(re.split(r"[|>&;]", line)[0], comments=True)[1:]
    command = root()
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)
