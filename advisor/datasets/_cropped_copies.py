"""Find images that are crops of one another, by the features of a network.

``advisor data check`` asks, as a search of copies by their thumbnails (``_duplicates.py``) finds
crops of a few percent alone. The caller computes the features with any classifier; this room knows
no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from advisor.core import StageError
from advisor.datasets._duplicates import Pair
from advisor.datasets._images import load

# Of crops, which are found by features and confirmed on the pixels:
SIDE = 48  # Side in pixels of the grey images that are matched
SMALLEST = 0.8  # Least share of a side that a crop keeps
# Least cosine of centred features; TrashNet's crops have 0.87 in the median, unrelated images 0.
MIN_COSINE = 0.7
MIN_MATCH = 0.98  # Least correlation of a crop with a part of the other image
NEIGHBOURS = 2  # Candidates for each image
LARGE = 20_000

COMPACT = 256
"""Sets of more than ``LARGE`` images are compared in ``COMPACT`` random directions:
a fifth of the time, cosines within 0.1.
"""

_WORTH_A_LOOK = 0.85  # Correlation at a third of the sizes from which on all sizes are tried
_FEATURE_ROWS = 512  # Images whose features are compared with all others at once
_KEPT = 4096  # Grey images that are kept, so that a file is opened once


def find_cropped_copies(features: NDArray[np.float32], paths: Sequence[Path]) -> tuple[Pair, ...]:
    """Return the sorted pairs of images in which one is a crop of the other, or nearly equal.

    Candidates have similar features (N, F), of any classifier's backbone, which change little with
    a crop. They are opened again, and each is confirmed on the pixels by normalised
    cross-correlation with every part of the other image that is not much smaller (Lewis, "Fast
    Normalized Cross-Correlation", 1995).
    """
    grey = lru_cache(maxsize=_KEPT)(_load_grey)
    pairs = []
    for first, second in find_candidates(features):
        try:
            value = match_crop(grey(paths[first]), grey(paths[second]))
        except StageError:  # the file disappeared since it was read; later stages report it
            continue
        if value >= MIN_MATCH:
            pairs.append(Pair(first, second, round(value, 4)))
    return tuple(pairs)


def find_candidates(features: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Return the sorted pairs (first < second) with one among the other's nearest images."""
    if len(features) < 2:
        return []
    centred = _compact_features(features)
    centred -= centred.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    nearest = min(NEIGHBOURS, len(features) - 1)
    pairs = set()
    for start in range(0, len(centred), _FEATURE_ROWS):
        cosines = centred[start : start + _FEATURE_ROWS] @ centred.T
        rows = np.arange(len(cosines))
        # No image is its own neighbour.
        cosines[rows, start + rows] = -1.0
        best = np.argpartition(cosines, -nearest, axis=1)[:, -nearest:]
        for row, column in zip(np.repeat(rows, nearest), best.ravel(), strict=True):
            if cosines[row, column] >= MIN_COSINE:
                first, second = sorted((start + int(row), int(column)))
                pairs.add((first, second))
    return sorted(pairs)


def _compact_features(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a copy of the features; of a large set, a random projection.

    Source: W. Johnson and J. Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert
    space" (1984).
    """
    if len(features) <= LARGE or features.shape[1] <= COMPACT:
        return features.copy()
    directions = np.random.default_rng(0).standard_normal((features.shape[1], COMPACT), np.float32)
    return np.asarray(features @ (directions / np.float32(COMPACT**0.5)))


def match_crop(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return how well one of two grey images, (SIDE, SIDE), is a part of the other: 0 to 1."""
    return max(_find_best_place(first, second), _find_best_place(second, first))


def _find_best_place(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    """Return the best correlation of ``part``, at several sizes, with any window of ``whole``."""
    sides = range(round(SMALLEST * SIDE), SIDE + 1)
    # A third of the sizes first: most candidates are ruled out by them.
    coarse = max(_correlate_at(whole, part, side) for side in sides[::3])
    if coarse < _WORTH_A_LOOK:
        return coarse
    return max(_correlate_at(whole, part, side) for side in sides)


def _correlate_at(whole: NDArray[np.float32], part: NDArray[np.float32], side: int) -> float:
    template = np.asarray(
        Image.fromarray(part).resize((side, side), Image.Resampling.BILINEAR), np.float32
    ).ravel()
    template = template - template.mean()
    strength = float(np.linalg.norm(template))
    if strength < side:  # a deviation of less than one level: nothing to match
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(whole, (side, side)).reshape(
        -1, side * side
    )
    squares = np.einsum("ij,ij->i", windows, windows)
    # The sum of squares around the mean of each window, without a copy of all windows.
    spread = np.sqrt(squares - windows.sum(axis=1) ** 2 / side**2)
    correlations = (windows @ template) / np.maximum(spread * strength, 1e-3)
    return float(correlations.max())


def _load_grey(path: Path) -> NDArray[np.float32]:
    """Return a slightly blurred grey image, as parts are compared at whole pixels only."""
    grey = Image.fromarray(load(path, 2 * SIDE)).convert("L").filter(ImageFilter.GaussianBlur(1))
    return np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) - 128.0
