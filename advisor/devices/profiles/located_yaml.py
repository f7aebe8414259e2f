"""Read YAML and know the line of every key, so that an error can name the file and the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.store.yamlfile import Document
from advisor.store.yamlfile import read_yaml as read_plain

_MAX_BYTES = 4_000_000
"""A profile has a few kilobytes; one with every published measurement has several hundred."""


@dataclass(frozen=True)
class LocatedYaml:
    """A parsed document with the line of each part.

    Attributes:
        document: the document as it was read.
    """

    document: Document

    @property
    def path(self) -> Path:
        """The file that was read."""
        return self.document.path

    @property
    def value(self) -> object:
        """The document: mappings, lists, strings, numbers, booleans or None."""
        return self.document.values

    def at(self, location: Sequence[str | int] = ()) -> str:
        """Return ``file:line`` of ``location``, or of the nearest part that encloses it."""
        return f"{self.path}:{self.document.line(location)}"


def read_yaml(path: Path) -> LocatedYaml:
    """Read plain data from ``path``.

    Raises:
        UsageError: the file cannot be read, is not YAML, is nested too deep, repeats a key, or is larger than 4 MB.
    """
    return LocatedYaml(read_plain(path, _MAX_BYTES))
