"""YAML read safely, remembering the line of every key: a refusal names the file and the line."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from advisor.core.errors import UsageError

Location = tuple[str | int, ...]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class LocatedYaml:
    """A parsed document and where each of its parts stands.

    Attributes:
        path: the file.
        value: the document: mappings, lists, strings, numbers, booleans or None.
        lines: 1-based line of every key and list item, by its location such as ``("targets", 0, "name")``.
    """

    path: Path
    value: Any
    lines: dict[Location, int] = field(default_factory=dict)

    def line(self, location: Sequence[str | int]) -> int:
        """Return the line of ``location``, or of the nearest part that encloses it."""
        parts = tuple(location)
        while parts and parts not in self.lines:
            parts = parts[:-1]
        return self.lines.get(parts, 1)

    def at(self, location: Sequence[str | int] = ()) -> str:
        """Return ``file:line`` for a message."""
        return f"{self.path}:{self.line(location)}"


def read_yaml(path: Path) -> LocatedYaml:
    """Read ``path`` with the safe loader.

    Raises:
        UsageError: the file cannot be read, is not YAML, repeats a key, uses an alias or is over 4 MB.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"{path} is over {_MAX_BYTES // 1_000_000} MB", "a profile is a few kilobytes of text")
        text = path.read_text(encoding="utf-8")
        _refuse_aliases(text, path)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            lines: dict[Location, int] = {}
            value = _construct(loader, node, (), lines, path)
        finally:
            loader.dispose()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    return LocatedYaml(path, value, lines)


def _refuse_aliases(text: str, path: Path) -> None:
    """Aliases can blow a small file up to gigabytes, and no profile needs them."""
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            mark = event.start_mark
            line = mark.line + 1 if mark else 1
            raise UsageError(f"{path}:{line}: the alias '*{event.anchor}' is not allowed", "write the value out")


def _construct(loader: Any, node: Any, location: Location, lines: dict[Location, int], path: Path) -> Any:
    """Build the plain value of a node, noting lines on the way."""
    if node is None:
        return None
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(loader, node, location, lines, path)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, item, (*location, i), lines, path) for i, item in enumerate(node.value)]
    return loader.construct_object(node, deep=True)


def _construct_mapping(
    loader: Any, node: yaml.MappingNode, location: Location, lines: dict[Location, int], path: Path
) -> dict[Hashable, Any]:
    """Build a mapping; a repeated key would silently win in plain YAML, so it is refused."""
    mapping: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise UsageError(f"{path}:{line}: the key {key!r} is not text", "quote it")
        if key in mapping:
            raise UsageError(f"{path}:{line}: the key '{key}' is written twice")
        lines[(*location, key)] = line
        mapping[key] = _construct(loader, value_node, (*location, key), lines, path)
    return mapping
