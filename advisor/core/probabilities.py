"""Turn the scores of a classifier into probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_SUM = 1.5
"""Largest sum of a row of probabilities: those of integer files are rounded up and down."""


def as_probabilities(scores: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return rows of scores (N, C) as probabilities: logits get a softmax, probabilities stay as they are.

    Scores are logits if one of them is negative, or if a row adds up to more than :data:`MOST_SUM`.
    """
    if not scores.size or (scores.min() >= 0 and scores.sum(axis=1).max() <= MOST_SUM):
        return scores.astype(np.float32)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    rows: NDArray[np.float32] = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return rows
