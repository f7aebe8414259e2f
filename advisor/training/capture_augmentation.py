"""Change training images as phones may take them, so that a head learns to ignore such changes.

Only training uses changed images; validation and scoring use the original ones. Mirrored and cropped images are not
used: they gain 0.6 points of top-1 for MobileNetV2's head on TrashNet (mean of 8 splits) at three times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.capture import random_capture, seed_of
from advisor.datasets.images import load


@dataclass(frozen=True)
class CaptureAugmentation:
    """One way to change training images.

    Attributes:
        captured: 0 for no change; otherwise a number that, with the file's name, draws the capture condition.
    """

    captured: int = 0

    @property
    def key(self) -> dict[str, bool | float]:
        """Return the part of a cache key. Its unused entries keep older cache entries valid."""
        return {"mirrored": False, "zoom": 1.0, "captured": self.captured}

    def apply(self, path: Path, size: int) -> NDArray[np.uint8]:
        """Return a changed image: uint8, shape (size, size, 3), RGB."""
        array = load(path, size)
        return random_capture(array, (seed_of(path), self.captured)) if self.captured else array

    def names(self, hashes: Sequence[str], paths: Sequence[Path]) -> list[bytes]:
        """Return a key of 32 bytes for each changed image, from the file's hash and, if it draws, its name."""
        if not self.captured:
            return [bytes.fromhex(sha) for sha in hashes]
        return [sha256(f"{sha}/{path.name}".encode()).digest() for sha, path in zip(hashes, paths, strict=True)]


AS_IT_IS = CaptureAugmentation()
CAPTURED = (CaptureAugmentation(1), CaptureAugmentation(2))
"""Each training image twice more, under two of the capture conditions."""
