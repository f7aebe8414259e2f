"""Find crops: near duplicates that a perceptual hash misses, as one image is a part of the other.

Candidates have similar network features, which change little with a crop. Each is confirmed on the pixels by normalised
cross-correlation with every part of the other image that is not much smaller (Lewis, "Fast Normalized
Cross-Correlation", 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from advisor.core.errors import StageError
from advisor.datasets.duplicates import Pair
from advisor.datasets.images import load

SIDE = 48
SMALLEST = 0.8
"""Least share of a side that a crop keeps."""

MIN_COSINE = 0.7
"""Least cosine of centred features. Crops of TrashNet's images have 0.87 in the median, unrelated images 0."""

MIN_MATCH = 0.98
NEIGHBOURS = 2
"""Candidates for each image."""

LARGE, COMPACT = 20_000, 256
"""Sets of more than ``LARGE`` images are compared in ``COMPACT`` random directions: a fifth of the time, cosines
within 0.1."""

_WORTH_A_LOOK = 0.85
_BLOCK = 512
_KEPT = 4096


def cropped_copies(features: NDArray[np.float32], paths: Sequence[Path]) -> tuple[Pair, ...]:
    """Return pairs of images in which one is a crop of the other, or nearly equal to it.

    Args:
        features: float32 (N, F) of any classifier's backbone.
        paths: the N images; those of candidates are opened again.

    Returns:
        the pairs, sorted by index.
    """
    grey = lru_cache(maxsize=_KEPT)(_grey)
    found = []
    for first, second in candidates(features):
        try:
            value = match(grey(paths[first]), grey(paths[second]))
        except StageError:  # the file disappeared since it was read; later stages report it
            continue
        if value >= MIN_MATCH:
            found.append(Pair(first, second, round(value, 4)))
    return tuple(found)


def candidates(features: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Return the sorted pairs (first < second) in which one image is among the nearest of the other.

    All pairs are compared in blocks, with the memory of one block.
    """
    if len(features) < 2:
        return []
    centred = _compact(features)
    centred -= centred.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    nearest = min(NEIGHBOURS, len(features) - 1)
    pairs = set()
    for start in range(0, len(centred), _BLOCK):
        cosines = centred[start : start + _BLOCK] @ centred.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1.0
        best = np.argpartition(cosines, -nearest, axis=1)[:, -nearest:]
        for row, column in zip(np.repeat(rows, nearest), best.ravel(), strict=True):
            if cosines[row, column] >= MIN_COSINE:
                pairs.add((min(start + int(row), int(column)), max(start + int(row), int(column))))
    return sorted(pairs)


def _compact(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a copy of the features, or a random projection of a large set (Johnson and Lindenstrauss)."""
    if len(features) <= LARGE or features.shape[1] <= COMPACT:
        return features.copy()
    directions = np.random.default_rng(0).standard_normal((features.shape[1], COMPACT), np.float32)
    projected: NDArray[np.float32] = features @ (directions / np.float32(COMPACT**0.5))
    return projected


def match(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return how well one of two grey images (SIDE, SIDE) matches a part of the other, from 0 to 1."""
    return max(_best_place(first, second), _best_place(second, first))


def _best_place(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    """Return the best correlation of ``part``, at several sizes, with any window of ``whole``."""
    sides = range(round(SMALLEST * SIDE), SIDE + 1)
    coarse = max(_correlation(whole, part, side) for side in sides[::3])
    return coarse if coarse < _WORTH_A_LOOK else max(_correlation(whole, part, side) for side in sides)


def _correlation(whole: NDArray[np.float32], part: NDArray[np.float32], side: int) -> float:
    template = _array(Image.fromarray(part).resize((side, side), Image.Resampling.BILINEAR)).ravel()
    template = template - template.mean()
    strength = float(np.linalg.norm(template))
    if strength < side:  # a deviation of less than one level: nothing to match
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(whole, (side, side)).reshape(-1, side * side)
    spread = np.sqrt(np.einsum("ij,ij->i", windows, windows) - windows.sum(axis=1) ** 2 / side**2)
    return float(((windows @ template) / np.maximum(spread * strength, 1e-3)).max())


def _grey(path: Path) -> NDArray[np.float32]:
    """Return a slightly blurred grey image, as parts are compared at whole pixels only."""
    grey = Image.fromarray(load(path, 2 * SIDE)).convert("L").filter(ImageFilter.GaussianBlur(1))
    return _array(grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) - 128.0


def _array(image: Image.Image) -> NDArray[np.float32]:
    return np.asarray(image, np.float32)
