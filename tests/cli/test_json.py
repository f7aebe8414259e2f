"""``--json``: every command has it, and prints one document with its version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from advisor.cli.main import app
from tests.cli.conftest import Advisor

PROTOCOL = "mcp"
"""The command whose standard output belongs to a protocol, which is JSON already."""


def commands(group: Any, *names: str) -> Iterator[Any]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield pytest.param(command, id=" ".join((*names, name)))


@pytest.mark.parametrize("command", commands(typer.main.get_command(app)))
def test_every_command_has_the_option(command: Any) -> None:
    assert any("--json" in part.opts for part in command.params) is (command.name != PROTOCOL)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("arguments", "entry"),
    [(("init", "--budget", "50ms"), "path"), (("explain", "p90"), "terms"), (("devices", "list"), "devices")],
)
def test_standard_output_is_one_document(advisor: Advisor, arguments: tuple[str, ...], entry: str) -> None:
    said = advisor(*arguments, "--json")
    document = json.loads(said.out)
    assert next(iter(document)) == "schema_version"
    assert document[entry]


@pytest.mark.integration
@pytest.mark.parametrize(
    "arguments",
    [("report", "nowhere"), ("plan", "--budget", "50"), ("explain", "pg90"), ("serve", "--runs", "nowhere")],
)
def test_standard_output_is_empty_after_an_error(advisor: Advisor, arguments: tuple[str, ...]) -> None:
    said = advisor(*arguments, "--json")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: ")
