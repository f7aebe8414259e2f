"""Clouds of points in a few classes, for what judges labels."""

import numpy as np


def blobs(count: int, classes: int = 3, seed: int = 0, apart: float = 2.0) -> tuple[np.ndarray, list[int]]:
    """Return float32 features (count, 32) around one centre a class, and their labels."""
    draw = np.random.default_rng(seed)
    labels = [index % classes for index in range(count)]
    centres = apart * draw.standard_normal((classes, 32))
    return (centres[labels] + draw.standard_normal((count, 32))).astype(np.float32), labels
