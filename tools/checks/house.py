"""Compare the pages that explain the house with the code.

The ladder of rooms in CONTRIBUTING.md and the table of rooms in ``docs/design.md`` are the first
contract of pyproject.toml, and its exit codes are those of ``ExitCode``. The examples of
``docs/extend*.md`` import what the rooms have. The files that these pages and the READMEs of the
rooms name exist, and a file defines what they say is in it: "`NAME` of `file.py`", or "`NAME`
(`file.py`)".
"""

import ast
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
EXTEND = ("docs/extend.md", "docs/extend-stages.md", "docs/extend-runtimes.md")
LADDER = re.compile(r"^```\n([^`]*> core)\n```$", re.MULTILINE)
ROW = re.compile(r"^\| (`\w+/`(?:, `\w+/`)*) \|", re.MULTILINE)
CODE = re.compile(r"^\| (\d+) \|", re.MULTILINE)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:\w+/)+\w+\.(?:py|csv|yaml)|\w+\.py)`")
PAIR = re.compile(r"`(\w+)` (?:(?:of|in) |\()`((?:\w+/)*\w+\.py)`")
IMPORT = re.compile(r"^\s*from (advisor[\w.]*) import ([\w, ]+)$", re.MULTILINE)
DEFINITION = re.compile(r"^\s*(?:def|class) (\w+)", re.MULTILINE)
BASES = (
    "",
    "advisor",
    "advisor/datasets/_sources",
    "advisor/engine",
    "advisor/engine/_pipeline",
    "advisor/engine/_pipeline/stages",
)
"""Folders from which a page names files, below the project's;
a README names those of its own folder first.
"""

MADE = ("builtin.py", "rig.py", "_brightness.py")
"""Files that the examples tell the reader to write."""

Layers = list[list[str]]


def problems() -> Iterator[str]:
    """Yield one line for each statement of these pages that does not hold."""
    texts = {
        name: (PROJECT / name).read_text(encoding="utf-8") for name in (GUIDE, DESIGN, *EXTEND)
    }
    expected = contract_layers((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    shown = {GUIDE: ladder_layers(texts[GUIDE]), DESIGN: table_layers(texts[DESIGN])}
    for name, layers in shown.items():
        if layers != expected:
            yield f"{name}: the rooms are {_join(layers)}; pyproject.toml has {_join(expected)}"
    for name in (DESIGN, *EXTEND, *list_readmes()):
        text = (PROJECT / name).read_text(encoding="utf-8")
        yield from file_problems(name, text)
        yield from pair_problems(name, text)
    for name in EXTEND:
        yield from import_problems(name, texts[name])
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


def list_readmes() -> list[str]:
    """Return the paths of the READMEs of the rooms and of their folders."""
    return [
        path.relative_to(PROJECT).as_posix()
        for path in sorted((PROJECT / "advisor").rglob("README.md"))
    ]


def find_file(page: str, name: str) -> Path | None:
    """Return the file that a page names; None if there is none."""
    folders = (Path(page).parent, *BASES)
    for folder in folders:
        path = PROJECT / folder / name
        if path.is_file():
            return path
    # A README lists the modules of the folders inside its own, by their names alone.
    if Path(page).name == "README.md":
        return next((PROJECT / page).parent.rglob(f"*/{name}"), None)
    return None


def file_problems(page: str, text: str) -> Iterator[str]:
    """Yield one line for each file that a page names outside
    of its code blocks and that does not exist.
    """
    for name in FILE.findall(FENCE.sub("", text)):
        if not name.endswith(MADE) and find_file(page, name) is None:
            yield f"{page}: names {name}, which does not exist"


def pair_problems(page: str, text: str) -> Iterator[str]:
    """Yield one line for each name that a page says is in a file which does not define it."""
    for name, file in PAIR.findall(" ".join(FENCE.sub("", text).split())):
        path = find_file(page, file)
        if path is not None and name not in defined_names(path):
            yield f"{page}: names {name} of {file}, which defines no such name"


def defined_names(path: Path) -> set[str]:
    """Return the functions, classes and variables that a module defines,
    and the methods of its classes.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def import_problems(page: str, text: str) -> Iterator[str]:
    """Yield one line for each import of an example on a page that would fail."""
    examples = set(DEFINITION.findall(text))
    for module, names in IMPORT.findall(text):
        if f"{module.rpartition('.')[2]}.py" in MADE:
            continue
        if find_spec(module) is None:
            yield f"{page}: imports {module}, which does not exist"
            continue
        for name in names.split(", "):
            if name not in examples and not hasattr(import_module(module), name):
                yield f"{page}: imports {name} from {module}, which has no such name"


def exit_code_problems(text: str) -> Iterator[str]:
    """Yield a line if the exit codes that a page lists are not those of the code."""
    listed = {int(code) for code in CODE.findall(text)}
    codes = {code.value for code in ExitCode}
    if listed != codes:
        yield (
            f"{DESIGN}: the exit codes are {sorted(listed)}; advisor.core.ExitCode has"
            f" {sorted(codes)}"
        )


def _join(layers: Layers) -> str:
    return " > ".join(" | ".join(layer) for layer in layers)
