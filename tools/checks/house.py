"""Compare the pages that explain the house with the code.

The ladder of rooms in CONTRIBUTING.md and the table of rooms in ``docs/design.md`` are the first contract of
pyproject.toml, and its exit codes are those of ``ExitCode``. The examples of ``docs/extend.md`` import what the rooms
have, and the files that the pages name exist.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from advisor.core import ExitCode

PROJECT = Path(__file__).resolve().parents[2]
GUIDE = "CONTRIBUTING.md"
DESIGN = "docs/design.md"
EXTEND = "docs/extend.md"
LADDER = re.compile(r"^```\n([^`]*> core)\n```$", re.MULTILINE)
ROW = re.compile(r"^\| (`\w+/`(?:, `\w+/`)*) \|", re.MULTILINE)
CODE = re.compile(r"^\| (\d+) \|", re.MULTILINE)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|csv|yaml))`")
IMPORT = re.compile(r"^\s*from (advisor[\w.]*) import ([\w, ]+)$", re.MULTILINE)
BASES = ("", "advisor", "advisor/engine/_pipeline")
"""Folders from which a page names files, below the project's."""

MADE = ("builtin.py", "rig.py", "_brightness.py")
"""Files that the examples tell the reader to write."""

Layers = list[list[str]]


def problems() -> Iterator[str]:
    """Yield one line for each statement of these pages that does not hold."""
    texts = {name: (PROJECT / name).read_text(encoding="utf-8") for name in (GUIDE, DESIGN, EXTEND)}
    expected = contract_layers((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    shown = {GUIDE: ladder_layers(texts[GUIDE]), DESIGN: table_layers(texts[DESIGN])}
    for name, layers in shown.items():
        if layers != expected:
            yield f"{name}: the rooms are {_join(layers)}; pyproject.toml has {_join(expected)}"
    for name in (DESIGN, EXTEND):
        yield from file_problems(name, texts[name])
    yield from import_problems(texts[EXTEND])
    yield from exit_code_problems(texts[DESIGN])


def contract_layers(text: str) -> Layers:
    """Return the rooms of the first contract from the top down; those of one layer are sorted."""
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return [sorted(re.findall(r"advisor\.(\w+)", layer)) for layer in contracts[0]["layers"]]


def ladder_layers(text: str) -> Layers:
    """Return the rooms of the ladder ``a > b | c > core``; none if the page has no ladder."""
    ladder = LADDER.search(text)
    return [sorted(re.findall(r"\w+", layer)) for layer in ladder[1].split(">")] if ladder else []


def table_layers(text: str) -> Layers:
    """Return the rooms of the first section with a table of them, one layer a row."""
    section = text.partition("\n## Rooms\n")[2].partition("\n## ")[0]
    return [sorted(re.findall(r"\w+", row)) for row in ROW.findall(section)]


def file_problems(page: str, text: str) -> Iterator[str]:
    """Yield one line for each file that a page names outside of its code blocks and that does not exist."""
    for name in FILE.findall(FENCE.sub("", text)):
        if not name.endswith(MADE) and not any((PROJECT / base / name).is_file() for base in BASES):
            yield f"{page}: names {name}, which does not exist"


def import_problems(text: str) -> Iterator[str]:
    """Yield one line for each import of an example that would fail."""
    for module, names in IMPORT.findall(text):
        if f"{module.rpartition('.')[2]}.py" in MADE:
            continue
        if find_spec(module) is None:
            yield f"{EXTEND}: imports {module}, which does not exist"
            continue
        for name in names.split(", "):
            if not hasattr(import_module(module), name):
                yield f"{EXTEND}: imports {name} from {module}, which has no such name"


def exit_code_problems(text: str) -> Iterator[str]:
    """Yield a line if the exit codes that a page lists are not those of the code."""
    listed = {int(code) for code in CODE.findall(text)}
    codes = {code.value for code in ExitCode}
    if listed != codes:
        yield f"{DESIGN}: the exit codes are {sorted(listed)}; advisor.core.ExitCode has {sorted(codes)}"


def _join(layers: Layers) -> str:
    return " > ".join(" | ".join(layer) for layer in layers)
