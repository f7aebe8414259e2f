"""Print what must be known before a module is changed: room, callers, versions, tests.

    python -m tools.about advisor/compression/_quantization/correction.py
    python -m tools.about compression/_quantization     # each module of a folder

The callers come from the imports of the package and the entry points of ``pyproject.toml``, the
versions from the table in ``docs/extend-stages.md``.
"""

import argparse
import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.checks.structure.source import Module, read_package

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = "advisor"
TABLE = PROJECT / "docs" / "extend-stages.md"
HEADING = "## Which version to raise"
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
JOB = re.compile(rf'"({PACKAGE}(?:\.\w+)+):(\w+)"')
"""A function that a child process runs, or an entry point: ``"advisor.room._module:function"``."""

WIDTH = 100
INDENT = " " * 11
MOST_CALLERS = 12
MOST_TESTS = 6
ENTRY_POINTS = "pyproject.toml"


@dataclass(frozen=True)
class VersionRow:
    """A row of the table: what a change is in, and the version that it raises."""

    change: str
    version: str

    @property
    def paths(self) -> list[str]:
        """The files and folders (with a slash at the end) that its first cell names."""
        return [name for name in CODE.findall(self.change) if "/" in name]

    def covers(self, path: str) -> bool:
        """Return whether a path within the package is one of its files, or in a folder of it."""
        for place in self.paths:
            if path == place or (place.endswith("/") and path.startswith(place)):
                return True
        return False


@dataclass(frozen=True)
class Use:
    """The use of a name by a module that does not define it."""

    module: str
    name: str


class Tree:
    """The modules of the package, and which of them uses which."""

    def __init__(
        self, modules: Sequence[Module], rows: Sequence[VersionRow], entries: str
    ) -> None:
        self.modules = {module.name: module for module in modules}
        self.rows = rows
        self.entries = entries

    @cached_property
    def uses(self) -> Mapping[str, list[Use]]:
        """The uses of each module by others, by its name."""
        uses = defaultdict[str, list[Use]](list)
        for module in self.modules.values():
            for source, name in _list_imported(module):
                definer = self._find_definer(source, name)
                if definer and definer != module.name and not _is_face(module):
                    uses[definer].append(Use(module.name, name))
        for entry in JOB.finditer(self.entries):
            uses[self._find_definer(entry[1], entry[2])].append(Use(ENTRY_POINTS, entry[2]))
        return uses

    def _find_definer(self, source: str, name: str) -> str:
        """Return the module that defines an imported name; a face hands out names of others."""
        if f"{source}.{name}" in self.modules:
            return f"{source}.{name}"
        module = self.modules.get(source)
        if module is None:
            return ""
        if module.path.name == "__init__.py":
            for inner, offered in _list_imported(module):
                if offered == name and inner != source:
                    return self._find_definer(inner, name)
        return source

    def find_rows(self, name: str) -> list[VersionRow]:
        """Return the rows of the table that name a module or its folder."""
        path = self.modules[name].path.relative_to(PACKAGE).as_posix()
        return [row for row in self.rows if row.covers(path)]

    def find_rows_above(self, name: str) -> dict[str, list[VersionRow]]:
        """Return the rows of the nearest modules that use this one, by their names."""
        seen = {name, ENTRY_POINTS}
        level = [name]
        while level:
            users = {use.module for module in level for use in self.uses.get(module, ())}
            level = sorted(users - seen)
            seen.update(level)
            rows = {user: self.find_rows(user) for user in level}
            if any(rows.values()):
                return {user: listed for user, listed in rows.items() if listed}
        return {}


def main() -> None:
    """Print what is known of the modules that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", help="modules or folders of the package")
    arguments = parser.parse_args()
    tree = read_tree()
    paragraphs = []
    for path in arguments.paths:
        names = find_modules(path, tree.modules)
        if not names:
            parser.error(f"'{path}' is no module or folder of the package '{PACKAGE}'")
        paragraphs.extend("\n".join(describe_module(name, tree)) for name in names)
    print("\n\n".join(paragraphs))


def read_tree() -> Tree:
    """Return the package of this checkout, with its table of versions and its entry points."""
    rows = read_rows(TABLE.read_text(encoding="utf-8"))
    entries = (PROJECT / ENTRY_POINTS).read_text(encoding="utf-8")
    return Tree(read_package(PROJECT, PACKAGE), rows, entries)


def read_rows(page: str) -> list[VersionRow]:
    """Return the rows of the table of versions in the text of its page."""
    _, _, section = page.partition(HEADING)
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and not set(cells[0]) <= {"-"}:
            rows.append(VersionRow(*cells))
    return rows[1:]


def find_modules(path: str, modules: Mapping[str, Module]) -> list[str]:
    """Return the names of the modules at a path, which may leave out the folder of the package."""
    place = Path(path)
    if place.is_absolute():
        place = place.relative_to(PROJECT)
    if place.parts[:1] != (PACKAGE,):
        place = PACKAGE / place
    return [
        name
        for name, module in modules.items()
        if module.path == place or place in module.path.parents
    ]


def describe_module(name: str, tree: Tree) -> list[str]:
    """Return the lines that introduce a module."""
    module = tree.modules[name]
    return [
        module.path.as_posix(),
        *_label("what", [_read_topic(module)]),
        *_label("room", [_describe_room(module, tree)]),
        *_label("used by", _list_callers(name, tree)),
        *_label("raise", _list_versions(name, tree)),
        *_label("tests", _list_tests(module)),
    ]


def _read_topic(module: Module) -> str:
    """Return the first paragraph of a module's docstring."""
    return (ast.get_docstring(module.tree) or "").split("\n\n")[0].replace("\n", " ")


def _label(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield texts in a column behind a label."""
    for number, text in enumerate(texts):
        first = label if number == 0 else ""
        yield from textwrap.wrap(
            text, WIDTH, initial_indent=f"  {first:<9}", subsequent_indent=INDENT
        )


def _describe_room(module: Module, tree: Tree) -> str:
    """Return the room with the first line of its face."""
    if not module.room:
        return "none: beside the rooms, which all may use it"
    face = tree.modules[f"{PACKAGE}.{module.room}"]
    return f"{module.room}: {_read_topic(face)} Read {PACKAGE}/{module.room}/README.md."


def _list_callers(name: str, tree: Tree) -> list[str]:
    """Return a line for each module that uses this one, those of the same room first."""
    names = defaultdict[str, list[str]](list)
    for use in tree.uses.get(name, ()):
        names[use.module].append(use.name)
    room = f"{PACKAGE}.{tree.modules[name].room}."
    callers = sorted(names, key=lambda caller: (not caller.startswith(room), caller))
    lines = []
    for caller in callers[:MOST_CALLERS]:
        place = caller
        if caller in tree.modules:
            place = tree.modules[caller].path.relative_to(PACKAGE).as_posix()
        lines.append(f"{place}: {', '.join(sorted(set(names[caller])))}")
    if len(callers) > MOST_CALLERS:
        lines.append(f"and {len(callers) - MOST_CALLERS} more modules")
    return lines or ["nothing in the package"]


def _list_versions(name: str, tree: Tree) -> list[str]:
    """Return the versions that a change of results raises, or those of the nearest users."""
    rows = tree.find_rows(name)
    if rows:
        return [_describe_row(row) for row in rows]
    above = tree.find_rows_above(name)
    if not above:
        return ["none: the table names neither it nor what uses it"]
    lines = ["if results of those that use it change:"]
    for user, rows in above.items():
        path = tree.modules[user].path.relative_to(PACKAGE).as_posix()
        for row in rows:
            lines.append(f"- {path}: {_describe_row(row)}")
    return lines


def _describe_row(row: VersionRow) -> str:
    """Return the version of a row with what the change is in, which its words refer to."""
    return f"{_plain(row.version)} [a change of {_plain(row.change)}]"


def _plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def _list_tests(module: Module) -> list[str]:
    """Return the tests that import or mirror a module; else the folder where they would be."""
    tests = PROJECT / "tests"
    parts = [part.lstrip("_") for part in module.path.relative_to(PACKAGE).with_suffix("").parts]
    mirror = tests.joinpath(*parts[:-1], f"test_{parts[-1]}.py")
    importing = re.compile(rf"\b{re.escape(module.name)}\b(?!\.)")
    paths = []
    for path in sorted(tests.rglob("test_*.py")):
        if path == mirror or importing.search(path.read_text(encoding="utf-8")):
            paths.append(path.relative_to(PROJECT).as_posix())
    if len(paths) > MOST_TESTS:
        return [*paths[:MOST_TESTS], f"and {len(paths) - MOST_TESTS} more"]
    if paths:
        return paths
    folder = mirror.parent
    while not folder.is_dir():
        folder = folder.parent
    return [f"none imports it; {folder.relative_to(PROJECT).as_posix()}/ through what uses it"]


def _list_imported(module: Module) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import, of each use of an imported room
    (``catalog.name``), and of each function named for a child.
    """
    rooms = dict[str, str]()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.module, alias.name
                if node.module == PACKAGE:
                    rooms[alias.asname or alias.name] = f"{PACKAGE}.{alias.name}"
    for node in module.nodes:
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in rooms:
            yield rooms[node.value.id], node.attr
    for job in JOB.finditer(module.text):
        yield job[1], job[2]


def _is_face(module: Module) -> bool:
    """Return whether a module only hands out names: the ``__init__`` of a room."""
    return module.path.name == "__init__.py" and len(module.path.parts) == 3


if __name__ == "__main__":
    main()
