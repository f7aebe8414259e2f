"""YAML from strangers: read with a safe loader and limits, with the line of every value at hand for errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from advisor.core.errors import UsageError

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
# Aliases may repeat values, but a document may not grow past this many values when they are written out.
MAX_VALUES = 5_000_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: plain values, and the tree of nodes that knows their lines."""

    path: Path
    values: Any
    root: yaml.Node

    def line(self, location: Sequence[str | int]) -> int:
        """The line (from 1) of the value at ``location``, or of the deepest part of it that is in the file."""
        node = self.root
        line = node.start_mark.line + 1
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            line, node = child[0].start_mark.line + 1, child[1]
        return line


def read_yaml(path: Path) -> Document:
    """Parse ``path`` without running anything in it.

    Raises:
        UsageError: missing, too large, not YAML, a tag that is not plain data, a repeated key, aliases that explode.
    """
    loader = _Loader(_text(path))
    try:
        root = loader.get_single_node()
        if root is None:
            raise UsageError(f"{path}: the file is empty", "a catalogue file has a 'family' and a list of 'cards'")
        _Inspection(path).visit(root)
        return Document(path, loader.construct_document(root), root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{_where(path, error)}: {_problem(error)}", "only plain YAML data is read") from error
    finally:
        loader.dispose()


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: larger than {MAX_BYTES // 2**20} MB, not a catalogue")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from error
    # libyaml recurses in C: brackets nested without end would take the process down before any limit in Python holds.
    deepest = max(text.count("["), text.count("{"))
    if deepest > MAX_DEPTH and _flow_depth(text) > MAX_DEPTH:
        raise UsageError(f"{path}: values nested more than {MAX_DEPTH} deep", "only plain YAML data is read")
    return text


def _flow_depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


class _Inspection:
    """Walks the nodes once: repeated keys, depth, and the size of the document with every alias written out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: dict[int, int] = {}

    def visit(self, node: yaml.Node, depth: int = 0) -> int:
        known = self._sizes.get(id(node))
        if known is not None:
            if known == 0:
                raise self._refused(node, "a value that contains itself")
            return known
        if depth > MAX_DEPTH:
            raise self._refused(node, f"values nested more than {MAX_DEPTH} deep")
        self._sizes[id(node)] = 0
        size = 1 + sum(self.visit(child, depth + 1) for child in self._children(node))
        if size > MAX_VALUES:
            raise self._refused(node, f"aliases that grow to more than {MAX_VALUES} values")
        self._sizes[id(node)] = size
        return size

    def _children(self, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        if not isinstance(node, yaml.MappingNode):
            return []
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise self._refused(key, f"the key '{name}' a second time in the same place")
            seen.add(name)
        return [part for pair in node.value for part in pair]

    def _refused(self, node: yaml.Node, what: str) -> UsageError:
        return UsageError(f"{self._path}:{node.start_mark.line + 1}: {what}", "only plain YAML data is read")


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    return None


def _where(path: Path, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{path}:{mark.line + 1}" if mark is not None else str(path)


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error or type(error).__name__)
