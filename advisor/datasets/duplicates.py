"""Find near duplicates by a perceptual hash.

The hash compares the low frequencies of a small grey version with their median (pHash; Zauner, "Implementation and
Benchmarking of Perceptual Image Hash Functions", 2010). Resizing, recompression and mild changes of brightness keep it;
crops and rotations do not. A match is confirmed on the small grey versions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

THUMBNAIL = 32
BITS = 64
MAX_DISTANCE = 8
"""Largest number of differing bits, of 64; unrelated images differ in 32 on average."""

MIN_CORRELATION = 0.97
"""Least correlation of the grey thumbnails of near duplicates."""

_LOW = 9
_BLOCK = 2048


@dataclass(frozen=True)
class Pair:
    """Two similar images by index (first < second), and the correlation of their thumbnails."""

    first: int
    second: int
    similarity: float


def perceptual_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each grey thumbnail: uint8 (N, THUMBNAIL, THUMBNAIL) to uint64 (N,)."""
    from scipy.fft import dctn

    low = dctn(thumbnails.astype(np.float32), axes=(1, 2), norm="ortho")[:, :_LOW, :_LOW].reshape(len(thumbnails), -1)
    kept = low[:, 1 : BITS + 1]
    bits = kept > np.median(kept, axis=1, keepdims=True)
    packed: NDArray[np.uint64] = np.packbits(bits, axis=1).view(">u8").reshape(-1).astype(np.uint64)
    return packed


def near_duplicates(thumbnails: NDArray[np.uint8]) -> tuple[Pair, ...]:
    """Return every pair of similar images, equal ones included, sorted by index.

    All pairs are compared in blocks: 100,000 images take less than a minute and the memory of one block.

    Args:
        thumbnails: grey, uint8 (N, THUMBNAIL, THUMBNAIL).
    """
    starts = range(0, len(thumbnails), _BLOCK)  # in blocks, as intermediate values need eight times the memory
    hashes = np.concatenate([np.zeros(0, np.uint64), *(perceptual_hashes(thumbnails[i : i + _BLOCK]) for i in starts)])
    pairs = []
    for row in range(0, len(hashes), _BLOCK):
        for column in range(row, len(hashes), _BLOCK):
            distances = np.bitwise_count(hashes[row : row + _BLOCK, None] ^ hashes[None, column : column + _BLOCK])
            for first, second in np.argwhere(distances <= MAX_DISTANCE):
                if column + second > row + first:
                    pairs.append((row + int(first), column + int(second)))
    pairs.sort()
    alike = ((pair, correlation(thumbnails[pair[0]], thumbnails[pair[1]])) for pair in pairs)
    return tuple(Pair(*pair, round(value, 4)) for pair, value in alike if value >= MIN_CORRELATION)


def correlation(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the correlation of two grey thumbnails; 1 for two flat ones of the same level."""
    one, two = (thumbnail.astype(np.float64) - thumbnail.mean() for thumbnail in (first, second))
    scale = float(np.sqrt((one**2).sum() * (two**2).sum()))
    if scale < 1e-9:
        return 1.0 if np.abs(first.astype(int) - second).max() <= 2 else 0.0
    return float((one * two).sum()) / scale


def groups(pairs: Sequence[Pair], count: int) -> tuple[tuple[int, ...], ...]:
    """Return groups of images that are connected by pairs; single images are left out."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = [pair.first for pair in pairs], [pair.second for pair in pairs]
    _, names = connected_components(coo_array((np.ones(len(pairs)), links), (count, count)), directed=False)
    members: dict[int, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        members[name].append(index)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)
