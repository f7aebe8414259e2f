"""Find the tests that hold a module: those that import it, else those of the modules that use it.

``describe_module`` prints them. A test imports a module by its name, as a name of its room, or by
what the face of the room hands out of it.
"""

import ast
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tools.about.callers import Use, show_path
from tools.about.package import PACKAGE, Package
from tools.checks.structure.source import Module

MOST_TESTS = 6
MOST_USERS = 3
TESTS = "tests"


def map_tests(package: Package, project: Path) -> Mapping[str, list[str]]:
    """Return the tests that import each module, by its name, as paths within the project."""
    tests = defaultdict[str, list[str]](list)
    for path in sorted((project / TESTS).rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if PACKAGE not in text:
            continue
        for name in _list_imported(package, ast.parse(text)):
            tests[name].append(path.relative_to(project).as_posix())
    return tests


def list_tests(
    module: Module,
    package: Package,
    uses: Mapping[str, Sequence[Use]],
    tests: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return the tests of a module; where there are none, those of the nearest modules that use
    it, with the names of these.
    """
    paths = {*tests.get(module.name, ()), *_find_mirrors(module, tests)}
    if paths:
        return _shorten(sorted(paths))
    seen = {module.name}
    users = [module.name]
    while users:
        nearest = set[str]()
        for name in users:
            nearest.update(use.module for use in uses.get(name, ()))
        users = sorted((nearest - seen) & package.modules.keys())
        seen.update(users)
        tested = [user for user in users if tests.get(user)]
        if tested:
            return ["none imports it", *_list_through(tested, package, tests)]
    folder = PurePosixPath(TESTS, *_without_underscores(module)[:-1]).as_posix()
    beside = sorted(path for path in set().union(*tests.values()) if path.startswith(f"{folder}/"))
    return ["none imports it, nor what uses it; those of its folder:", *_shorten(beside)]


def _list_through(
    users: Sequence[str], package: Package, tests: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return a line for each module that has tests and uses another one."""
    lines = []
    for user in users[:MOST_USERS]:
        paths = ", ".join(_shorten(tests[user])[:MOST_USERS])
        lines.append(f"through {show_path(package.modules[user])}: {paths}")
    if len(users) > MOST_USERS:
        lines.append(f"and through {len(users) - MOST_USERS} more modules")
    return lines


def _list_imported(package: Package, tree: ast.Module) -> Collection[str]:
    """Return the names of the modules that a test imports, through faces, too."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module in package.modules:
                names.add(node.module)
            for alias in node.names:
                definition = package.find(node.module, alias.name)
                if definition:
                    names.add(definition.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name in package.modules)
    return names


def _find_mirrors(module: Module, tests: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tests at the place of a module in the tree of tests."""
    parts = _without_underscores(module)
    mirror = PurePosixPath(TESTS, *parts[:-1], f"test_{parts[-1]}.py").as_posix()
    every = set().union(*tests.values())
    return [mirror] if mirror in every else []


def _without_underscores(module: Module) -> list[str]:
    """Return the folders and the name of a module as its tests have them."""
    return [part.lstrip("_") for part in module.path.relative_to(PACKAGE).with_suffix("").parts]


def _shorten(paths: Sequence[str]) -> list[str]:
    if len(paths) > MOST_TESTS:
        return [*paths[:MOST_TESTS], f"and {len(paths) - MOST_TESTS} more"]
    return list(paths)
