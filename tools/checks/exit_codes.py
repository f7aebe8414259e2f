"""Check that each command ends with a member of ``ExitCode`` or with the code of an error.

A number in its place would be a code that docs/design.md does not list.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from advisor.core import ExitCode

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = PROJECT / "advisor" / "cli"
EXITS = ("typer.Exit", "sys.exit")


def problems() -> Iterator[str]:
    """Yield one line for each exit of a command that names no member of ``ExitCode``."""
    for path in sorted(COMMANDS.rglob("*.py")):
        for code in _codes(path.read_text(encoding="utf-8")):
            if not _is_of_the_contract(code):
                place = f"{path.relative_to(PROJECT)}:{code.lineno}"
                yield (
                    f"{place}: exit with {ast.unparse(code)!r}, expected a member of ExitCode or"
                    " error.exit_code"
                )


def _codes(source: str) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EXITS and node.args:
            yield node.args[0]


def _is_of_the_contract(code: ast.expr) -> bool:
    numbers = [node for node in ast.walk(code) if isinstance(node, ast.Constant)]
    names = [ast.unparse(node) for node in ast.walk(code) if isinstance(node, ast.Attribute)]
    return not numbers and bool(names) and all(_is_code(name) for name in names)


def _is_code(name: str) -> bool:
    return name == "error.exit_code" or name.removeprefix("ExitCode.") in ExitCode.__members__
