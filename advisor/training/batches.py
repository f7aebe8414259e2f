"""Read labelled images in batches; they are decoded once and kept on disk at the model's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets.capture import random_capture
from advisor.datasets.images import load

Pixels = NDArray[np.uint8]

MAX_CACHE_BYTES = 4_000_000_000
"""Above this size, images are decoded again in each epoch."""


class Batches:
    """Images of one size and their labels.

    Args:
        images: files.
        labels: class index of each.
        size: side of the model's input in pixels.
        cache: file for the decoded images; written once and memory-mapped. None to decode them at each use.
    """

    def __init__(self, images: Sequence[Path], labels: Sequence[int], size: int, cache: Path | None) -> None:
        self._images, self._size = images, size
        self.labels = np.asarray(labels, dtype=np.int64)
        self._decoded = self._decode(cache) if cache and len(images) * size * size * 3 <= MAX_CACHE_BYTES else None

    def __len__(self) -> int:
        return len(self._images)

    def epoch(
        self, indices: NDArray[np.int64], batch: int, capture: float = 0.0, seed: tuple[int, int] = (0, 0)
    ) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
        """Yield uint8 images (n, S, S, 3) and labels (n,) in the order of ``indices``, ``batch`` at a time.

        Args:
            indices: the images.
            batch: images in a batch.
            capture: share of images that get a capture condition, as a phone's camera may cause it.
            seed: draws the images and their conditions, together with each image's index.
        """
        for start in range(0, len(indices), batch):
            chosen = indices[start : start + batch]
            images = self._read(chosen)
            if capture > 0:
                _capture(images, chosen, capture, seed)
            yield images, self.labels[chosen]

    def _read(self, indices: NDArray[np.int64]) -> Pixels:
        if self._decoded is not None:
            return np.array(self._decoded[indices])
        return np.stack([load(self._images[index], self._size) for index in indices])

    def _decode(self, cache: Path) -> Pixels:
        shape = (len(self._images), self._size, self._size, 3)
        if not cache.exists():
            partial = cache.with_suffix(".partial")
            rows = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            for place, path in enumerate(self._images):
                rows[place] = load(path, self._size)
            rows.flush()
            partial.replace(cache)
        decoded: Pixels = np.load(cache, mmap_mode="r", allow_pickle=False)
        if decoded.shape != shape:
            cache.unlink()
            return self._decode(cache)
        return decoded


def _capture(images: Pixels, indices: NDArray[np.int64], share: float, seed: tuple[int, int]) -> None:
    """Apply capture conditions to a share of the images, in place."""
    for place, index in enumerate(indices):
        draw = (*seed, int(index))
        if np.random.default_rng(draw).random() < share:
            images[place] = random_capture(images[place], draw)
