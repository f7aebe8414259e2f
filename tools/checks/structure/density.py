"""Measure how much stands in a line and in a function, and what functions are called.

``structure`` compares the figures with their limits.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile

from tools.checks.structure.source import DEFINITIONS, Figure, Module

LONGEST_FUNCTION = 60
LARGEST_MODULE = 500
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

PARTICIPLES = frozenset(
    {
        *(
            "bound",
            "built",
            "chosen",
            "drawn",
            "found",
            "given",
            "held",
            "hidden",
            "kept",
            "known",
            "learnt",
            "left",
        ),
        *("lost", "made", "met", "seen", "shown", "sorted", "taken", "taught", "told", "written"),
    }
)
"""Participles that do not end in ``ed``."""

SHORTEST_REGULAR = 5
"""Letters of the shortest word whose ending ``ed`` makes it a participle:
``feed`` and ``read`` are none.
"""


def measure_density(modules: Sequence[Module]) -> dict[str, Figure]:
    """Return the figures of the lines and the functions of a package."""
    comments = sum(len(module.comment_lines) for module in modules)
    code = sum(_count_code_lines(module) for module in modules)
    nodes = [
        node
        for module in modules
        for node in module.nodes
        if not isinstance(node, ast.Load | ast.Store)
    ]
    comprehensions = sum(isinstance(node, COMPREHENSIONS) for node in nodes)
    lengths = {place: length for module in modules for place, length in _list_lengths(module)}
    arguments = [_count_arguments(function) for module in modules for function in module.functions]
    large = [
        f"{module.path}: {len(module.lines)}"
        for module in modules
        if len(module.lines) > LARGEST_MODULE
    ]
    return {
        "syntax nodes for each line of code": Figure(round(len(nodes) / code, 2)),
        "comprehensions in 1,000 lines of code": Figure(round(1000 * comprehensions / code, 1)),
        "comment lines for 100 lines of code": Figure(round(100 * comments / code, 2)),
        **_measure_names(modules),
        "constants behind the first function or class": Figure.count(
            _list_all(modules, _list_late_constants)
        ),
        "attributes assigned in one tuple": Figure.count(
            _list_all(modules, _list_joint_attributes)
        ),
        "expressions that do several things": Figure.count(_list_all(modules, _list_packed)),
        "fmt: skip": Figure.count(_list_all(modules, _list_skips)),
        "lines of the longest function": Figure(max(lengths.values())),
        f"functions of more than {LONGEST_FUNCTION} lines": Figure.count(
            iter([place for place, length in lengths.items() if length > LONGEST_FUNCTION])
        ),
        "lines of the largest module": Figure(max(len(module.lines) for module in modules)),
        f"modules of more than {LARGEST_MODULE} lines": Figure.count(iter(large)),
        "most arguments of a function": Figure(max(arguments)),
    }


def _list_all(
    modules: Sequence[Module], list_places: Callable[[Module], Iterator[str]]
) -> Iterator[str]:
    for module in modules:
        yield from list_places(module)


def _measure_names(modules: Sequence[Module]) -> dict[str, Figure]:
    """Return how many public functions have a name of one word,
    and how many functions begin with a participle.
    """
    functions = 0
    public = 0
    words = []
    participles = []
    for module in modules:
        for function in module.functions:
            if function.name.startswith("__") or _is_property(function):
                continue
            functions += 1
            place = f"{module.place(function.lineno)} {function.name}"
            parts = function.name.strip("_").split("_")
            if _is_participle(parts[0]):
                participles.append(place)
            if not function.name.startswith("_"):
                public += 1
                if len(parts) == 1:
                    words.append(place)
    return {
        "public functions of one word, %": Figure(
            round(100 * len(words) / max(1, public), 1), words
        ),
        "functions that begin with a participle, %": Figure(
            round(100 * len(participles) / max(1, functions), 1), participles
        ),
    }


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def _is_participle(word: str) -> bool:
    return word in PARTICIPLES or (word.endswith("ed") and len(word) >= SHORTEST_REGULAR)


def _count_code_lines(module: Module) -> int:
    """Return how many lines hold code: not empty, not a comment, not of a docstring."""
    others = set(module.comment_lines)
    for node in module.nodes:
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            others.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and number not in others for number, line in enumerate(module.lines, 1)
    )


def _list_late_constants(module: Module) -> Iterator[str]:
    """Yield the names in capitals that a module assigns behind its first function or class."""
    for node in dropwhile(lambda node: not isinstance(node, DEFINITIONS), module.tree.body):
        for name in _list_assigned_names(node):
            if name.strip("_").isupper() and len(name.strip("_")) > 1:
                yield f"{module.place(node.lineno)} {name}"


def _list_assigned_names(node: ast.stmt) -> list[str]:
    targets = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elements = [element for target in targets for element in getattr(target, "elts", [target])]
    return [element.id for element in elements if isinstance(element, ast.Name)]


def _list_packed(module: Module) -> Iterator[str]:
    """Yield the comprehensions with two loops or two conditions, chained conditionals,
    and values named in a call.
    """
    named_in_tests = set[ast.AST]()
    for node in module.nodes:
        if isinstance(node, ast.If | ast.While):
            named_in_tests.update(
                part for part in ast.walk(node.test) if isinstance(part, ast.NamedExpr)
            )
    for node in module.nodes:
        if isinstance(node, COMPREHENSIONS) and _is_packed(node):
            yield module.place(node.lineno)
        if isinstance(node, ast.IfExp) and _has_inside(node, (ast.IfExp,)):
            yield module.place(node.lineno)
        if isinstance(node, ast.NamedExpr) and node not in named_in_tests:
            yield module.place(node.lineno)


def _is_packed(
    comprehension: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> bool:
    first, *others = comprehension.generators
    has_two_conditions = len(first.ifs) > 1 or any(
        isinstance(test, ast.BoolOp) for test in first.ifs
    )
    return bool(others) or has_two_conditions or _has_inside(comprehension, COMPREHENSIONS)


def _has_inside(outer: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(node, kinds) for node in ast.walk(outer) if node is not outer)


def _list_joint_attributes(module: Module) -> Iterator[str]:
    """Yield the assignments of attributes in a tuple, such as ``self.a, self.b = ...``."""
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            tuples = [target.elts for target in node.targets if isinstance(target, ast.Tuple)]
            if any(
                isinstance(element, ast.Attribute) for elements in tuples for element in elements
            ):
                yield module.place(node.lineno)


def _list_skips(module: Module) -> Iterator[str]:
    """Yield the lines that the formatter is told to leave."""
    for number, line in enumerate(module.lines, 1):
        if "# fmt: skip" in line or "# fmt: off" in line:
            yield module.place(number)


def _list_lengths(module: Module) -> Iterator[tuple[str, int]]:
    for function in module.functions:
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        yield f"{module.place(function.lineno)} {function.name}: {length}", length


def _count_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
