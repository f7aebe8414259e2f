"""Cluster the weights of a kernel into a few values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

ROUNDS = 50


def clusters(kernel: Floats, count: int) -> tuple[Floats, NDArray[np.int32]]:
    """Return ``count`` values and the index of the value of each weight, by k-means in one dimension (Lloyd, 1982).

    The start is values spread evenly over the kernel's range, which keeps the few large weights (Han et al., "Deep
    Compression", 2016).
    """
    import numpy as np

    flat = np.sort(kernel.ravel().astype(np.float64))
    sums = np.concatenate([[0.0], np.cumsum(flat)])
    values = np.linspace(flat[0], flat[-1], count)
    for _ in range(ROUNDS):
        bounds = np.concatenate([[0], np.searchsorted(flat, (values[1:] + values[:-1]) / 2), [flat.size]])
        filled = np.diff(bounds)
        means = np.diff(sums[bounds]) / np.maximum(filled, 1)
        moved = np.where(filled > 0, means, values)
        if np.array_equal(moved, values):
            break
        values = np.sort(moved)
    places = np.searchsorted((values[1:] + values[:-1]) / 2, kernel.astype(np.float64), side="right")
    return values.astype(np.float32), places.astype(np.int32)
