"""Read images of one size in batches, decoded once into a file if they fit.

Fine-tuning (`_finetune/`) and the training of compressed files (`_flatgraph/`) read their
images through :class:`Batches`. Each caller gives each set of images a folder: fine-tuning that of
its checkpoints, whose name is the key of the stage, and `_flatgraph/` a temporary one. If equal
images give other batches, raise ``FINETUNE_VERSION`` and the ``version`` of the recipes that
train (``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.datasets import load, random_capture
from advisor.training._features import Pixels

# Above this size, images are decoded again in each epoch.
MAX_CACHE_BYTES = 4_000_000_000


class Batches:
    """Images of one size and their labels, decoded once into the file ``cache``.

    Without it, or if the images are too many, they are decoded at each use.
    """

    def __init__(
        self,
        images: Sequence[Path],
        labels: Sequence[int],
        size: int,
        cache: Path | None,
    ) -> None:
        self._images = images
        self._size = size
        self.labels = np.asarray(labels, dtype=np.int64)
        self._decoded = None
        if cache and len(images) * size * size * 3 <= MAX_CACHE_BYTES:
            self._decoded = self._decode_images(cache)

    def __len__(self) -> int:
        return len(self._images)

    def epoch(
        self,
        indices: NDArray[np.int64],
        batch: int,
        capture: float = 0.0,
        seed: tuple[int, int] = (0, 0),
    ) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
        """Yield uint8 images (n, S, S, 3) and labels (n,) in the order of ``indices``.

        There are ``batch`` at a time. A share ``capture`` of the images gets a capture condition;
        the seed and each image's index draw it.
        """
        for start in range(0, len(indices), batch):
            part = indices[start : start + batch]
            if self._decoded is not None:
                images = np.array(self._decoded[part])
            else:
                images = np.stack([load(self._images[index], self._size) for index in part])
            for place, index in enumerate(part if capture > 0 else ()):
                # A generator for each image: its changes must not depend on the batch that it is
                # in.
                draw = (*seed, int(index))
                if np.random.default_rng(draw).random() < capture:
                    images[place] = random_capture(images[place], draw)
            yield images, self.labels[part]

    def _decode_images(self, cache: Path) -> Pixels:
        shape = (len(self._images), self._size, self._size, 3)
        if not cache.exists():
            partial = cache.with_suffix(".partial")
            rows = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            for place, path in enumerate(self._images):
                rows[place] = load(path, self._size)
            rows.flush()
            # Decoded under another name first: a file that is there is whole.
            partial.replace(cache)
        decoded: Pixels = np.load(cache, mmap_mode="r", allow_pickle=False)
        # An earlier call with this folder had another number of images, or another size. Other
        # images of equal number and size are not noticed: their folder must be another one.
        if decoded.shape != shape:
            cache.unlink()
            return self._decode_images(cache)
        return decoded
