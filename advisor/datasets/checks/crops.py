"""Near duplicates that a perceptual hash misses: an image that is cut out of another one.

Candidates come from features of a network, which hardly change with the crop; each is confirmed on the pixels, by
laying the one over every part of the other that is not much smaller (normalised cross-correlation; Lewis, "Fast
Normalized Cross-Correlation", 1995). What only looks alike to the network does not match so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import StageError
from advisor.datasets.duplicates import Pair
from advisor.datasets.images import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 48
SMALLEST = 0.8
"""Share of a side that a crop keeps at least."""

MIN_COSINE = 0.7
"""Of centred features: crops of TrashNet's images have 0.87 in the median, unrelated images 0."""

MIN_MATCH = 0.98
NEIGHBOURS = 2
"""Candidates looked at an image."""

LARGE, COMPACT = 20_000, 256
"""Sets of more images are compared in so many random directions: a fifth of the time, cosines within 0.1."""

_WORTH_A_LOOK = 0.85
_BLOCK = 512
_KEPT = 4096


def cropped_copies(features: NDArray[np.float32], paths: Sequence[Path]) -> tuple[Pair, ...]:
    """Find pairs of images of which one is cut out of the other, or nearly equal to it.

    Args:
        features: float32 (N, F) of any classifier's backbone.
        paths: the N images; those of the candidates are opened again.

    Returns:
        the pairs, sorted by index.
    """
    grey = lru_cache(maxsize=_KEPT)(_grey)
    found = []
    for first, second in candidates(features):
        try:
            value = match(grey(paths[first]), grey(paths[second]))
        except StageError:  # it went since it was read; whoever needs it says so
            continue
        if value >= MIN_MATCH:
            found.append(Pair(first, second, round(value, 4)))
    return tuple(found)


def candidates(features: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Return the pairs (first < second) in which one is among the nearest of the other, sorted.

    All pairs are compared in blocks: no more memory than a block's.
    """
    import numpy as np

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
    """Return a copy; of a large set its random projection (Johnson and Lindenstrauss)."""
    import numpy as np

    if len(features) <= LARGE or features.shape[1] <= COMPACT:
        return features.copy()
    directions = np.random.default_rng(0).standard_normal((features.shape[1], COMPACT), np.float32)
    projected: NDArray[np.float32] = features @ (directions / np.float32(COMPACT**0.5))
    return projected


def match(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return how well one of two grey images (SIDE, SIDE) is a part of the other: 1 perfectly, 0 not at all."""
    return max(_best_place(first, second), _best_place(second, first))


def _best_place(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    """Shrink ``part`` step by step and return its best correlation with any window of ``whole``."""
    sides = range(round(SMALLEST * SIDE), SIDE + 1)
    coarse = max(_correlation(whole, part, side) for side in sides[::3])
    return coarse if coarse < _WORTH_A_LOOK else max(_correlation(whole, part, side) for side in sides)


def _correlation(whole: NDArray[np.float32], part: NDArray[np.float32], side: int) -> float:
    import numpy as np
    from PIL import Image

    template = _array(Image.fromarray(part).resize((side, side), Image.Resampling.BILINEAR)).ravel()
    template = template - template.mean()
    strength = float(np.linalg.norm(template))
    if strength < side:  # less than one level of deviation: nothing to match by
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(whole, (side, side)).reshape(-1, side * side)
    spread = np.sqrt(np.einsum("ij,ij->i", windows, windows) - windows.sum(axis=1) ** 2 / side**2)
    return float(((windows @ template) / np.maximum(spread * strength, 1e-3)).max())


def _grey(path: Path) -> NDArray[np.float32]:
    """Blur a little first: the parts are laid on whole pixels, and sharp edges would not forgive that."""
    from PIL import Image, ImageFilter

    grey = Image.fromarray(load(path, 2 * SIDE)).convert("L").filter(ImageFilter.GaussianBlur(1))
    return _array(grey.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) - 128.0


def _array(image: Any) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(image, np.float32)
