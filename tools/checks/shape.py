"""Measure the shape of the code: ``python -m tools.checks.shape`` prints each figure beside its limit.

``shape.yaml`` keeps the limits. A figure above its limit is a problem, see :func:`problems`. Lower a limit when its
figure falls; no limit rises. Lines, modules and imports have none: a limit on them packs the code.
"""

import ast
import re
import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("shape.yaml")
TASK = re.compile(r"\b(IMAGE_CLASSIFICATION|OBJECT_DETECTION|OBJECT_COUNTING)\b|\"(image-classification|object-\w+)\"")
"""A line that names a task."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
        f"tools/checks/shape.yaml: {name}: {value:g}, at most {limits[name]:g}: make it smaller; no limit rises"
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
    tests = (ROOT / "tests").rglob("*.py")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        **_density(trees, lines),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests),
        "lines of the largest module": max(map(len, lines.values())),
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


def _density(trees: Mapping[Path, ast.Module], lines: Mapping[Path, Sequence[str]]) -> dict[str, float]:
    """Return how much stands in a line, and what makes a line hard to read."""
    code = sum(bool(line.strip()) for text in lines.values() for line in text)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    comprehensions = sum(isinstance(node, COMPREHENSIONS) for node in nodes)
    return {
        "syntax nodes for each line with text": round(len(nodes) / code, 2),
        "comprehensions in 1,000 lines with text": round(1000 * comprehensions / code, 1),
        "assignments of attributes in a tuple": sum(map(_assigned_together, nodes)),
        "constants behind the first function or class": sum(map(_late_constants, trees.values())),
        "fmt: skip": sum("fmt: skip" in line for text in lines.values() for line in text),
    }


def _assigned_together(node: ast.AST) -> bool:
    """Return whether a node is an assignment of attributes in a tuple, such as ``self.a, self.b = ...``."""
    if not isinstance(node, ast.Assign):
        return False
    tuples = [target.elts for target in node.targets if isinstance(target, ast.Tuple)]
    return any(isinstance(element, ast.Attribute) for elements in tuples for element in elements)


def _late_constants(tree: ast.Module) -> int:
    """Return how many names in capitals a module assigns behind its first function or class."""
    first = sum(1 for _ in takewhile(lambda node: not isinstance(node, DEFINITIONS), tree.body))
    names = [name for node in tree.body[first:] for name in _assigned_names(node)]
    return sum(name.strip("_").isupper() for name in names)


def _assigned_names(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    elements = [element for target in targets for element in getattr(target, "elts", [target])]
    return [element.id for element in elements if isinstance(element, ast.Name)]


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
