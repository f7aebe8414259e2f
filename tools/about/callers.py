"""Find who uses a module of the package: imports, child processes, entry points, texts."""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from tools.about.package import PACKAGE, Package
from tools.about.value_types import ValueTypes
from tools.checks.structure.source import Module

ENTRY_POINTS = "pyproject.toml"
BY_NAME = "its module, by name"
ITS_FILE = "its file"
OWN_FUNCTION = 'f"{__name__}:'
OWN_MODULE = 'import_module(f"{__name__}.'


class Use(NamedTuple):
    """The use of a name by a module that does not define it."""

    module: str  # ``pyproject.toml`` for an entry point
    name: str


def list_uses(package: Package, project: str) -> Mapping[str, list[Use]]:
    """Return the uses of each module by others; ``project`` is the text of ``pyproject.toml``."""
    uses = defaultdict[str, list[Use]](list)
    types = ValueTypes(package)
    for name, module in package.modules.items():
        for definer, used in _list_used(package, module):
            if definer != name:
                uses[definer].append(Use(name, used))
        for method, through in types.list_methods(name):
            if method.module != name:
                used = f"{method.name} (through {through})" if through else method.name
                uses[method.module].append(Use(name, used))
    for module_name, use in _list_entry_points(package, project):
        uses[module_name].append(use)
    return uses


def _list_used(package: Package, module: Module) -> Iterator[tuple[str, str]]:
    """Yield the module that defines it, and the name, for all that a module uses."""
    whole = dict[str, str]()
    if not is_face(module):
        for source, name in package.imports(module.name).values():
            definition = package.find(source, name)
            if definition and definition.name:
                yield definition.module, name
            elif definition:
                whole[name] = definition.module
    attributes = set()
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            for definition in package.resolve(module.name, node):
                attributes.add(package.imports(module.name)[node.value.id][1])
                yield definition.module, definition.name or node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _list_named(package, module, node.value)
    for name, definer in whole.items():
        if name not in attributes:
            yield definer, name


def _list_named(package: Package, module: Module, text: str) -> Iterator[tuple[str, str]]:
    """Yield the module that a text names, and what of it: a function for a child, or a file."""
    for definition in package.find_named(module.name, text):
        yield definition.module, f"{definition.name} (by name)" if definition.name else BY_NAME
    beside = f"{module.name}.{text}"
    if OWN_MODULE in module.text and beside in package.modules:
        yield beside, BY_NAME
    if text.endswith(".py") and not text.startswith("."):
        path = module.path.parent / text
        for name, other in package.modules.items():
            if PurePosixPath(other.path) == PurePosixPath(path):
                yield name, ITS_FILE


def _list_entry_points(package: Package, project: str) -> Iterator[tuple[str, Use]]:
    """Yield the module of each entry point, and its use, with the modules that load its group."""
    table = tomllib.loads(project)["project"]
    for name, value in table.get("scripts", {}).items():
        module, _, function = value.partition(":")
        yield module, Use(ENTRY_POINTS, f"{function}, the command {name}")
    for group, points in table.get("entry-points", {}).items():
        loaders = []
        for module in package.modules.values():
            texts = [node.value for node in module.nodes if isinstance(node, ast.Constant)]
            if group in texts:
                loaders.append(show_path(module))
        for name, value in points.items():
            module_name, _, attribute = value.partition(":")
            definition = package.find(module_name, attribute)
            what = attribute or BY_NAME
            use = f"{what}, as {name} of {group}, which {', '.join(loaders)} loads"
            yield (definition.module if definition else module_name), Use(ENTRY_POINTS, use)


def is_face(module: Module) -> bool:
    """Return whether a module only hands out names: the ``__init__`` of a room."""
    return module.path.name == "__init__.py" and len(module.path.parts) == 3


def show_path(module: Module) -> str:
    """Return the path of a module within the package; with it for a module beside the rooms."""
    return (
        module.path.as_posix() if not module.room else module.path.relative_to(PACKAGE).as_posix()
    )
