"""The exit codes of the commands are those of the contract."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import advisor.cli
from advisor.core.errors import StageError, UsageError, WeightsError
from advisor.core.exits import ExitCode

COMMANDS = sorted(Path(advisor.cli.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_a_command_ends_with_a_code_of_the_contract(command: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(command.read_text())) if isinstance(node, ast.Call)]
    ends = [call.args[0] for call in calls if ast.unparse(call.func) in ("typer.Exit", "sys.exit") and call.args]
    numbers = [node.value for end in ends for node in ast.walk(end) if isinstance(node, ast.Constant)]
    named = [ast.unparse(node) for end in ends for node in ast.walk(end) if isinstance(node, ast.Attribute)]
    assert numbers == []
    assert all(name == "error.exit_code" or name.removeprefix("ExitCode.") in ExitCode.__members__ for name in named)
    assert len(named) >= len(ends)


def test_the_numbers_are_those_of_the_documentation() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0, "INTERNAL_ERROR": 1, "WRONG": 2, "UNSATISFIED": 3, "CHANGED": 4, "INTERRUPTED": 130,
    }  # fmt: skip
    assert [error.exit_code for error in (UsageError, WeightsError, StageError)] == [2, 2, 1]
