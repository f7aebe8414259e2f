"""Copies of training images under capture conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import load, random_capture, seed_of


@dataclass(frozen=True)
class CaptureAugmentation:
    """One way to change training images."""

    # 0 for no change; otherwise a number that, with the file's name, draws the capture condition.
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
        """Return a key of 32 bytes for each changed image, from the file's hash and,
        if it draws, its name.
        """
        if not self.captured:
            return list(map(bytes.fromhex, hashes))
        return [
            sha256(f"{sha}/{path.name}".encode()).digest()
            for sha, path in zip(hashes, paths, strict=True)
        ]
