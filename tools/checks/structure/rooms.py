"""Measure how the rooms of a package are tied: what is imported, by which doors, in which chains.

``structure`` compares the figures with their limits.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tools.checks.structure.source import Figure, Import, Module, list_imports

TASK = re.compile(
    r"\b(IMAGE_CLASSIFICATION|OBJECT_DETECTION|OBJECT_COUNTING)\b|\"(image-classification|object-\w+)\""
)
"""A line that names a task."""


def measure_rooms(modules: Sequence[Module]) -> dict[str, Figure]:
    """Return the figures of what crosses the rooms of a package."""
    rooms = frozenset(module.room for module in modules if module.room)
    imports = [
        (module, crossing) for module in modules for crossing in list_imports(module, rooms)
    ]
    by_face: dict[str, set[str]] = defaultdict(set)
    for _, crossing in imports:
        if crossing.name and not _is_past_face(crossing):
            by_face[crossing.room].add(crossing.name)
    widest = max(by_face, key=lambda room: len(by_face[room]), default="")
    pairs = {f"{module.room or module.name} -> {crossing.room}" for module, crossing in imports}
    private = sum(module.is_private for module in modules)
    return {
        "imports past a face": Figure.count(_list_past_face(imports)),
        "names that cross rooms": Figure(
            len({(crossing.module, crossing.name) for _, crossing in imports})
        ),
        "names of the widest face": Figure(
            len(by_face[widest]), [f"{widest}: {name}" for name in by_face[widest]]
        ),
        "modules entered from another room": Figure.count(
            iter(sorted({crossing.module for _, crossing in imports}))
        ),
        "pairs of rooms that are tied": Figure.count(iter(sorted(pairs))),
        "private modules, %": Figure(round(100 * private / len(modules), 1)),
        "modules in the longest chain of imports": Figure(max(_measure_chains(modules).values())),
        "public class names with two meanings": Figure.count(_list_repeated_classes(modules)),
        "lines that name a task outside its folder": Figure.count(_list_task_names(modules)),
    }


def _is_past_face(crossing: Import) -> bool:
    return crossing.module.count(".") > 1


def _list_past_face(imports: Sequence[tuple[Module, Import]]) -> Iterator[str]:
    """Yield one place for each statement that imports a module of another room."""
    places = [
        f"{module.place(crossing.line)} {crossing.module}"
        for module, crossing in imports
        if _is_past_face(crossing)
    ]
    yield from dict.fromkeys(places)


def _list_repeated_classes(modules: Sequence[Module]) -> Iterator[str]:
    classes = [
        node.name
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    ]
    for name, count in Counter(classes).items():
        if count > 1 and not name.startswith("_"):
            yield name


def _list_task_names(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        if module.room == "tasks":
            continue
        for number, line in enumerate(module.lines, 1):
            if TASK.search(line) and not line.startswith(("from ", "import ")):
                yield module.place(number)


def _measure_chains(modules: Sequence[Module]) -> Mapping[str, int]:
    """Return how many modules the longest chain of imports from each module has,
    of those that run at its import.
    """
    below = _imports_at_start(modules)
    lengths: dict[str, int] = {}

    def measure_chain(name: str, above: frozenset[str]) -> int:
        if name not in lengths:
            nexts = [module for module in below[name] if module not in above]
            lengths[name] = 1 + max(
                (measure_chain(module, above | {name}) for module in nexts), default=0
            )
        return lengths[name]

    for module in modules:
        measure_chain(module.name, frozenset())
    return lengths


def _imports_at_start(modules: Sequence[Module]) -> Mapping[str, set[str]]:
    """Return the modules of the package that each module imports when it is imported itself."""
    names = {module.name for module in modules}
    imports: dict[str, set[str]] = {name: set() for name in names}
    for module in modules:
        for node in module.tree.body:
            for target in _list_targets(node):
                source = target if target in names else target.rpartition(".")[0]
                if source in names and source != module.name:
                    imports[module.name].add(source)
    return imports


def _list_targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return []
