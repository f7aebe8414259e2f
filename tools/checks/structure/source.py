"""Read the modules of a package: their text, their syntax trees, and what they import from rooms.

``rooms`` and ``density`` measure these :class:`Module` values.
"""

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Figure:
    """A number that the check limits, and the places that it counts if there are any."""

    value: float
    places: Sequence[str] = ()

    @classmethod
    def count(cls, places: Iterator[str]) -> "Figure":
        """Return how many places there are."""
        listed = list(places)
        return cls(len(listed), listed)


@dataclass(frozen=True)
class Import:
    """One name that a module imports from a room of the package."""

    room: str
    module: str
    name: str
    line: int


@dataclass(frozen=True)
class Module:
    """A module of the package."""

    path: Path
    """Path from the folder of the package on, such as ``advisor/core/_names.py``."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """Every node of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> Sequence[str]:
        """The lines of the text."""
        return self.text.splitlines()

    @cached_property
    def comment_lines(self) -> Sequence[int]:
        """The numbers of the lines that hold a comment and nothing else."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [
            token.start[0]
            for token in tokens
            if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() == ""
        ]

    @cached_property
    def functions(self) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions and methods, also those inside of others."""
        return [
            node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    @property
    def name(self) -> str:
        """The name that an import gives it."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @property
    def room(self) -> str:
        """The folder below the package that holds it; empty for a module beside the rooms."""
        return self.path.parts[1] if len(self.path.parts) > 2 else ""

    @property
    def is_private(self) -> bool:
        """Whether the name of the module, or of a folder above it, begins with one underscore."""
        return any(part.startswith("_") and not part.startswith("__") for part in self.path.parts)

    def place(self, line: int) -> str:
        """Return the place of a line, as editors open it."""
        return f"{self.path.as_posix()}:{line}"


def read_package(root: Path, package: str) -> list[Module]:
    """Return the modules of a package, in the order of their paths."""
    paths = sorted((root / package).rglob("*.py"))
    return [Module(path.relative_to(root), path.read_text(encoding="utf-8")) for path in paths]


def list_imports(module: Module, rooms: frozenset[str]) -> list[Import]:
    """Return what a module imports from other rooms, wherever the import stands in it."""
    imports = [name for node in module.nodes for name in _names_of(node)]
    package = module.path.parts[0]
    crossing = []
    for source, name, line in imports:
        parts = source.split(".")
        if parts[0] != package or len(parts) < 2:
            continue
        if parts[1] in rooms and parts[1] != module.room:
            crossing.append(Import(parts[1], source, name, line))
    return crossing


def _names_of(node: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield the module, the name in it and the line of each name that a statement imports."""
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield node.module, alias.name, node.lineno
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, "", node.lineno
