"""The training pictures seen otherwise: mirrored, cropped. A head that has seen those is more often right.

Views are for learning only; pictures are validated and scored as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.datasets.capture import random_capture, seed_of
from advisor.datasets.pictures import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Seen:
    """One way to see a picture.

    Attributes:
        mirrored: left and right exchanged.
        zoom: share of the picture's sides that is kept, at a place drawn for each picture by its file name.
        captured: above 0, as a phone may take it, under a condition drawn by the file's name and this number.
    """

    mirrored: bool = False
    zoom: float = 1.0
    captured: int = 0

    def apply(self, path: Path, size: int) -> NDArray[np.uint8]:
        """Load a picture so seen: uint8, shape (size, size, 3), RGB."""
        import numpy as np

        array = load(path, round(size / self.zoom))
        top, left = _corner(path, len(array) - size)
        array = array[top : top + size, left : left + size]
        array = array[:, ::-1] if self.mirrored else array
        array = np.ascontiguousarray(array)
        return random_capture(array, (seed_of(path), self.captured)) if self.captured else array

    def names(self, hashes: Sequence[str], paths: Sequence[Path]) -> list[bytes]:
        """Return what tells pictures so seen apart, 32 bytes each: the file's hash, and its name where that draws."""
        if not self.captured and self.zoom == 1.0:
            return [bytes.fromhex(sha) for sha in hashes]
        return [sha256(f"{sha}/{path.name}".encode()).digest() for sha, path in zip(hashes, paths, strict=True)]


AS_IT_IS = Seen()
VIEWS = (Seen(mirrored=True), Seen(zoom=0.85))
"""Worth 0.6 points of top-1 to MobileNetV2's head on TrashNet (mean of 8 splits), for three times the reading."""

CAPTURED = (Seen(captured=1), Seen(captured=2))
"""Each training picture twice more, under two of the capture conditions: for heads that phones' pictures must not
mislead."""


def _corner(path: Path, room: int) -> tuple[int, int]:
    """Return top and left of a crop with ``room`` pixels to move, equal whenever the file's name is."""
    drawn = seed_of(path)
    return (drawn & 0xFFFF) % (room + 1), (drawn >> 16) % (room + 1)
