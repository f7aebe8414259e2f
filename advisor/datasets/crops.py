"""Near duplicates that a perceptual hash misses: a picture that is cut out of another one.

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
from advisor.datasets.pictures import load

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 48
SMALLEST = 0.8
"""Share of a side that a crop keeps at least."""

MIN_COSINE = 0.6
"""Of centred features: TrashNet's planted crops have 0.85 in the median, unrelated pictures 0."""

MIN_MATCH = 0.97
NEIGHBOURS = 2
"""Candidates looked at a picture."""

_BLOCK = 1024
_KEPT = 4096


def cropped_copies(features: NDArray[np.float32], paths: Sequence[Path]) -> tuple[Pair, ...]:
    """Find pairs of pictures of which one is cut out of the other, or nearly equal to it.

    Args:
        features: float32 (N, F) of any classifier's trunk.
        paths: the N pictures; those of the candidates are opened again.

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
    centred = features - features.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    nearest = min(NEIGHBOURS, len(features) - 1)
    pairs = set()
    for start in range(0, len(centred), _BLOCK):
        cosines = centred[start : start + _BLOCK] @ centred.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1.0
        best = np.argpartition(-cosines, nearest - 1, axis=1)[:, :nearest]
        for row, column in zip(np.repeat(rows, nearest), best.ravel(), strict=True):
            if cosines[row, column] >= MIN_COSINE:
                pairs.add((min(start + int(row), int(column)), max(start + int(row), int(column))))
    return sorted(pairs)


def match(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Return how well one of two grey pictures (SIDE, SIDE) is a part of the other: 1 perfectly, 0 not at all."""
    return max(_best_place(first, second), _best_place(second, first))


def _best_place(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    """Shrink ``part`` step by step and return its best correlation with any window of ``whole``."""
    from PIL import Image

    image = Image.fromarray(part)
    sides = range(round(SMALLEST * SIDE), SIDE + 1, 2)
    return max(_correlation(whole, _array(image.resize((side, side), Image.Resampling.BILINEAR))) for side in sides)


def _correlation(whole: NDArray[np.float32], part: NDArray[np.float32]) -> float:
    import numpy as np

    windows = np.lib.stride_tricks.sliding_window_view(whole, part.shape).reshape(-1, part.size)
    template = (part - part.mean()).ravel()
    spread = windows.std(axis=1) * np.sqrt(part.size) * np.linalg.norm(template)
    if np.linalg.norm(template) < part.shape[0]:  # less than one level of deviation: nothing to match by
        return 0.0
    return float(((windows @ template) / np.maximum(spread, 1e-6)).max())


def _grey(path: Path) -> NDArray[np.float32]:
    from PIL import Image

    return _array(Image.fromarray(load(path, 2 * SIDE)).convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def _array(image: Any) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(image, np.float32)
