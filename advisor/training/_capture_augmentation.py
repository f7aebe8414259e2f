"""Make copies of training images under capture conditions, such as low light or motion blur.

The features of such copies teach a head to ignore these changes. The stage of features keeps them
by :attr:`CaptureAugmentation.key` and :meth:`CaptureAugmentation.names`, so both are a part of
keys of the cache: a change of either computes all features again.
"""

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
        """The part of a cache key; its unused entries keep older cache entries valid."""
        return {"mirrored": False, "zoom": 1.0, "captured": self.captured}

    def apply(self, path: Path, size: int) -> NDArray[np.uint8]:
        """Return a changed image: uint8, shape (size, size, 3), RGB."""
        array = load(path, size)
        if self.captured:
            return random_capture(array, (seed_of(path), self.captured))
        return array

    def names(self, hashes: Sequence[str], paths: Sequence[Path]) -> list[bytes]:
        """Return a key of 32 bytes for each changed image, by the file's hash.

        If the file's name draws the change, the key depends on it, too.
        """
        if not self.captured:
            return list(map(bytes.fromhex, hashes))
        keys = []
        for sha, path in zip(hashes, paths, strict=True):
            keys.append(sha256(f"{sha}/{path.name}".encode()).digest())
        return keys
