"""Measure the shape of the code: ``python -m tools.checks.shape`` prints each figure beside its limit.

``shape.yaml`` keeps the limits. A figure above its limit is a problem, see :func:`problems`. Lower a limit when its
figure falls. A limit that rises needs a reason, which stands beside it in the file.
"""

import ast
import re
import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("shape.yaml")
TASK = re.compile(r"\b(IMAGE_CLASSIFICATION|OBJECT_DETECTION|OBJECT_COUNTING)\b|\"(image-classification|object-\w+)\"")
"""A line that names a task."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    """Print every figure, and return 1 if one is above its limit, else 0."""
    limits = yaml.safe_load(LIMITS.read_text())
    for name, value in figures().items():
        print(f"{name:42} {value:>8g}   at most {limits[name]:g}")
    for problem in problems():
        print(problem)
    return int(bool(problems()))


def problems() -> list[str]:
    """Return a line for each figure above its limit."""
    limits = yaml.safe_load(LIMITS.read_text())
    return [
        f"tools/checks/shape.yaml: {name}: {value:g}, at most {limits[name]:g}: make it smaller, or give a reason there"
        for name, value in figures().items()
        if value > limits[name]
    ]


@cache
def figures() -> Mapping[str, float]:
    """Return the figures by name."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "advisor").rglob("*.py"))}
    lines = {path: path.read_text(encoding="utf-8").splitlines() for path in trees}
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, Function)]
    long = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    classes = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    modules = {_module(path): tree for path, tree in trees.items()}
    imports = _imports(modules)
    importers = Counter(target for targets in imports.values() for target in targets)
    tests = (ROOT / "tests").rglob("*.py")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "modules": len(trees),
        "lines": sum(map(len, lines.values())),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests),
        "lines of the largest module": max(map(len, lines.values())),
        "modules with a single importer": sum(count == 1 for count in importers.values()),
        "import lines": sum(_import_lines(tree) for tree in trees.values()),
        "longest import chain": max(_depths(_imports(modules, at_start=True)).values()),
        "most arguments of a function": max(map(_arguments, functions)),
        "lines of a function, median": statistics.median(long),
        "lines of a function, nine of ten": long[int(0.9 * len(long))],
        "lines of the longest function": long[-1],
        "public class names with two meanings": sum(n > 1 for name, n in classes.items() if not name.startswith("_")),
        "lines that name a task outside its folder": sum(
            bool(TASK.search(line))
            for path, text in lines.items()
            if "tasks" not in path.parts
            for line in text
            if not line.startswith(("from ", "import "))
        ),
        "required dependencies": len(project["dependencies"]),
    }


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(trees: Mapping[str, ast.Module], at_start: bool = False) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports: everywhere in it, or ``at_start``."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for name in _imported(tree.body if at_start else ast.walk(tree)):
            target = name if name in trees else name.rpartition(".")[0]
            if target in trees and target != module:
                found[module].add(target)
    return found


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _import_lines(tree: ast.Module) -> int:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def _arguments(function: Function) -> int:
    given = function.args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs])


def _depths(imports: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the number of modules in the longest chain of imports from each module. The imports have no cycle."""
    depths: dict[str, int] = {}

    def depth(module: str, above: frozenset[str]) -> int:
        if module not in depths:
            below = [each for each in imports.get(module, ()) if each not in above]
            depths[module] = 1 + max((depth(each, above | {module}) for each in below), default=0)
        return depths[module]

    for module in list(imports):
        depth(module, frozenset())
    return depths


if __name__ == "__main__":
    raise SystemExit(main())
