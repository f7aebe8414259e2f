"""Check that the names exist which docstrings and comments refer to, such as ``:func:`name```.

``make lint`` runs it. A name without a dot is one that its module defines or imports, or one of a
class there. A name with a dot in front may be anywhere in the package. A name with ``advisor.`` in
front is found from the package on.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = "advisor"
REFERENCE = re.compile(r":(?:func|class|data|meth|attr|mod):`~?(\.?\w+(?:\.\w+)*)`")

Modules = Mapping[str, frozenset[str]]
"""The names of each module, by its dotted name; those of a class as ``Class.name``, too."""


def problems() -> Iterator[str]:
    """Yield one line for each reference of the package that leads to nothing."""
    sources = {}
    for path in sorted((PROJECT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(PROJECT).with_suffix("").parts
        package = path.name == "__init__.py"
        sources[".".join(parts[:-1] if package else parts)] = path.read_text(encoding="utf-8")
    yield from reference_problems(sources)


def reference_problems(sources: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each dead reference of modules, whose texts are given by their names."""
    modules = {module: list_names(source) for module, source in sources.items()}
    anywhere = _list_endings(modules)
    for module, source in sources.items():
        for reference in REFERENCE.finditer(source):
            name = reference[1]
            if not _is_known(name, module, modules, anywhere):
                line = source.count("\n", 0, reference.start()) + 1
                yield f"{module}:{line}: refers to {name}, which does not exist"


def list_names(source: str) -> frozenset[str]:
    """Return the names that a module defines or imports; those in a class also behind its name."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        names.update(_list_bound(node))
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                names.update(f"{node.name}.{name}" for name in _list_bound(inner))
    return frozenset(names)


def _list_bound(node: ast.AST) -> list[str]:
    """Return the names that a statement binds, and the attributes that it sets."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    return []


def _list_endings(modules: Modules) -> frozenset[str]:
    """Return every name as a reference with a dot in front may write it.

    It is the name alone, or behind its module, or behind the module's folder.
    """
    endings = set[str]()
    for module, names in modules.items():
        parts = module.split(".")
        places = [".".join(parts[start:]) for start in range(len(parts))]
        endings.update(names, places)
        for place in places:
            endings.update(f"{place}.{name}" for name in names)
    return frozenset(endings)


def _is_known(name: str, module: str, modules: Modules, anywhere: frozenset[str]) -> bool:
    if name.startswith("."):
        return name[1:] in anywhere
    place = module
    member = name
    if name.startswith(f"{PACKAGE}."):
        place = _find_module(name, modules)
        member = name[len(place) + 1 :]
    if not member or member in modules[place] or f"{place}.{member}" in modules:
        return True
    # A member of a class that the module imports, such as ``Card.name``.
    owner = member.partition(".")[0]
    return owner != member and owner in modules[place] and member in anywhere


def _find_module(name: str, modules: Modules) -> str:
    """Return the innermost module on the way to a name."""
    place = name
    while place not in modules:
        place = place.rpartition(".")[0]
    return place
