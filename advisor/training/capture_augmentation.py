"""The training images seen otherwise: as phones take them. A head that has seen those is misled by them less often.

Views are for learning only; images are validated and scored as they come. Mirrored and cropped views are not made:
they gain MobileNetV2's head 0.6 points of top-1 on TrashNet (mean of 8 splits) for three times the reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.datasets.capture import random_capture, seed_of
from advisor.datasets.images import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class CaptureAugmentation:
    """One way to see an image.

    Attributes:
        captured: above 0, as a phone may take it, under a condition drawn by the file's name and this number.
    """

    captured: int = 0

    @property
    def key(self) -> dict[str, Any]:
        """What stages are keyed by. There were two more ways once: another shape would lose what caches hold."""
        return {"mirrored": False, "zoom": 1.0, "captured": self.captured}

    def apply(self, path: Path, size: int) -> NDArray[np.uint8]:
        """Load an image so seen: uint8, shape (size, size, 3), RGB."""
        array = load(path, size)
        return random_capture(array, (seed_of(path), self.captured)) if self.captured else array

    def names(self, hashes: Sequence[str], paths: Sequence[Path]) -> list[bytes]:
        """Return what tells images so seen apart, 32 bytes each: the file's hash, and its name where that draws."""
        if not self.captured:
            return [bytes.fromhex(sha) for sha in hashes]
        return [sha256(f"{sha}/{path.name}".encode()).digest() for sha, path in zip(hashes, paths, strict=True)]


AS_IT_IS = CaptureAugmentation()
CAPTURED = (CaptureAugmentation(1), CaptureAugmentation(2))
"""Each training image twice more, under two of the capture conditions: for heads that phones' images must not
mislead."""
