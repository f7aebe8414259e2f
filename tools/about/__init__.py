"""Describe a module of the package: room, callers, versions, tests.

``package.py`` reads which definition refers to which, and ``value_types.py`` which class a value
has. ``callers.py`` finds the users of a module by both, ``kept_results.py`` the results in the
cache that are made with a module, and ``documents.py`` the documents whose entries it declares.
``versions.py`` joins these with the table of ``docs/extend-stages.md``. ``holding_tests.py``
finds the tests.
"""

import ast
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tools.about.callers import (
    ENTRY_POINTS,
    OWN_FUNCTION,
    Use,
    is_face,
    list_uses,
    show_path,
)
from tools.about.holding_tests import list_tests, map_tests
from tools.about.package import PACKAGE, Package
from tools.about.versions import Versions, read_rows
from tools.checks.structure.source import Module, read_package

__all__ = ["Tree", "describe_module", "find_modules", "read_tree"]

PROJECT = Path(__file__).resolve().parents[2]
TABLE = PROJECT / "docs" / "extend-stages.md"

WIDTH = 100
INDENT = " " * 12
MOST_CALLERS = 12


class Tree:
    """The package of this checkout, with its versions and entry points."""

    def __init__(self, package: Package, versions: Versions, project: str) -> None:
        self.package = package
        self.versions = versions
        self._project = project

    @cached_property
    def uses(self) -> Mapping[str, list[Use]]:
        """The uses of each module by others, by its name."""
        return list_uses(self.package, self._project)

    @cached_property
    def tests(self) -> Mapping[str, list[str]]:
        """The tests that import each module, by its name."""
        return map_tests(self.package, PROJECT)


def read_tree() -> Tree:
    """Return the package of this checkout, with its table of versions and its entry points."""
    package = Package(read_package(PROJECT, PACKAGE))
    rows = read_rows(TABLE.read_text(encoding="utf-8"))
    project = (PROJECT / ENTRY_POINTS).read_text(encoding="utf-8")
    return Tree(package, Versions(package, rows), project)


def find_modules(path: str, tree: Tree) -> list[str]:
    """Return the names of the modules at a path, which may leave out the folder of the package."""
    place = Path(path)
    if place.is_absolute():
        place = place.relative_to(PROJECT)
    if place.parts[:1] != (PACKAGE,):
        place = PACKAGE / place
    return [
        name
        for name, module in tree.package.modules.items()
        if module.path == place or place in module.path.parents
    ]


def describe_module(name: str, tree: Tree) -> list[str]:
    """Return the lines that introduce a module."""
    module = tree.package.modules[name]
    return [
        module.path.as_posix(),
        *_label("what", [_read_topic(module)]),
        *_label("room", [_describe_room(module, tree)]),
        *_label("used by", _list_callers(module, tree)),
        *_label("raise", tree.versions.list_lines(name)),
        *_label("entries", tree.versions.list_documents(name)),
        *_label("tests", list_tests(module, tree.package, tree.uses, tree.tests)),
    ]


def _read_topic(module: Module) -> str:
    """Return the first paragraph of a module's docstring."""
    return (ast.get_docstring(module.tree) or "").split("\n\n")[0].replace("\n", " ")


def _label(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield texts in a column behind a label."""
    for number, text in enumerate(texts):
        first = label if number == 0 else ""
        yield from textwrap.wrap(
            text, WIDTH, initial_indent=f"  {first:<10}", subsequent_indent=INDENT
        )


def _describe_room(module: Module, tree: Tree) -> str:
    """Return the room with the first line of its face."""
    if not module.room:
        return "none: beside the rooms, which all may use it"
    face = tree.package.modules[f"{PACKAGE}.{module.room}"]
    return f"{module.room}: {_read_topic(face)} Read {PACKAGE}/{module.room}/README.md."


def _list_callers(module: Module, tree: Tree) -> list[str]:
    """Return a line for each module that uses this one, those of the same room first."""
    names = defaultdict[str, list[str]](list)
    for use in tree.uses.get(module.name, ()):
        names[use.module].append(use.name)
    room = f"{PACKAGE}.{module.room}."
    callers = sorted(names, key=lambda caller: (not caller.startswith(room), caller))
    lines = []
    for caller in callers[:MOST_CALLERS]:
        place = caller
        if caller in tree.package.modules:
            place = show_path(tree.package.modules[caller])
        lines.append(f"{place}: {', '.join(_join_methods(names[caller]))}")
    if len(callers) > MOST_CALLERS:
        lines.append(f"and {len(callers) - MOST_CALLERS} more modules")
    work = set()
    for result in tree.versions.results:
        work.update(part.name for part in result.work if part.module == module.name)
    if work:
        lines.append(f"child processes, as jobs of stages: {', '.join(sorted(work))}")
    if OWN_FUNCTION in module.text:
        lines.append("child processes, as functions that it names itself")
    if not lines:
        lines = list(_list_faces(module, tree))
    return lines or ["nothing in the package"]


def _join_methods(names: Collection[str]) -> list[str]:
    """Return names in order, the methods of a class behind it: ``Study (ask, tell)``."""
    methods = defaultdict[str, list[str]](list)
    for name in sorted(set(names)):
        used, _, through = name.partition(" (through ")
        owner, _, method = used.partition(".")
        key = f"{owner} as {through.rstrip(')')}" if through else owner
        if method and owner.isidentifier():
            methods[key].append(method)
        else:
            methods.setdefault(name, [])
    return [f"{owner} ({', '.join(used)})" if used else owner for owner, used in methods.items()]


def _list_faces(module: Module, tree: Tree) -> Iterator[str]:
    """Yield what hands out the names of a module that no other one imports."""
    if module.path.name == "__init__.py":
        yield "nothing: it introduces its folder, or hands out names of its modules"
    for face in filter(is_face, tree.package.modules.values()):
        for source, name in tree.package.imports(face.name).values():
            if source == module.name:
                yield f"{show_path(face)}, which hands out {name}"
