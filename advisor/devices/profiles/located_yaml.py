"""A profile's YAML with the line of every key: a refusal names the file and the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.store.yamlfile import Document
from advisor.store.yamlfile import read_yaml as read_plain

_MAX_BYTES = 4_000_000
"""A profile is a few kilobytes of text; one with every published measurement has some hundred."""


@dataclass(frozen=True)
class LocatedYaml:
    """A parsed document and where each of its parts stands.

    Attributes:
        document: as it was read.
    """

    document: Document

    @property
    def path(self) -> Path:
        """The file."""
        return self.document.path

    @property
    def value(self) -> Any:
        """The document: mappings, lists, strings, numbers, booleans or None."""
        return self.document.values

    def at(self, location: Sequence[str | int] = ()) -> str:
        """Return ``file:line`` of ``location``, or of the nearest part that encloses it."""
        return f"{self.path}:{self.document.line(location)}"


def read_yaml(path: Path) -> LocatedYaml:
    """Read ``path``, plain data only.

    Raises:
        UsageError: the file cannot be read, is not YAML, is nested without end, repeats a key or is over 4 MB.
    """
    return LocatedYaml(read_plain(path, _MAX_BYTES))
