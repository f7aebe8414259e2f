"""The faces of the rooms: each name is imported when it is first used (PEP 562),
so that commands start fast.
"""

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module


def open_face(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package
    that imports its names below ``if TYPE_CHECKING:``.

    Type checkers and editors read these imports; here they say which module has a name.
    Only that module is imported.
    """

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_places(package)})

    return partial(_import_name, package), list_names


def _import_name(package: str, name: str) -> object:
    place = _places(package).get(name)
    if place is None:
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    module, attribute = place
    if module == package:
        return import_module(f"{module}.{attribute}")
    source = import_module(module)
    # A module below another one is an attribute of it only once it is imported.
    return (
        getattr(source, attribute)
        if hasattr(source, attribute)
        else import_module(f"{module}.{attribute}")
    )


@cache
def _places(package: str) -> Mapping[str, tuple[str, str]]:
    """Return module and attribute of each name of a face, read from the imports in its source."""
    spec = sys.modules[package].__spec__
    assert spec is not None
    assert spec.loader is not None
    source = spec.loader.get_source(package)  # type: ignore[attr-defined]
    places: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.If):
            imports = [node for node in statement.body if isinstance(node, ast.ImportFrom)]
            for node in imports:
                places |= {
                    alias.asname or alias.name: (str(node.module), alias.name)
                    for alias in node.names
                }
    return places
